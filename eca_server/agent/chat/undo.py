"""Undoing changes of files: planned as a whole, then done step by step.

Rules: a file that was changed since is left as it is, and so is one that a link or a changed set of
open folders puts outside the workspace; each step is one rename, so that a file has its old or its
new content and never a part; a step that is done already does nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import attrs

from eca_server.agent.chat.store.rows import FOLDER, Change, StoredContent, UndoStep
from eca_server.agent.tools.files import printable
from eca_server.workspace.boundary import Place, Workspace
from eca_server.workspace.errors import FileError, TooLarge, reason_of
from eca_server.workspace.opening import real_path_of
from eca_server.workspace.reading import Checkpoint, Fingerprint, read_file
from eca_server.workspace.writing import (
    move_file,
    remove_empty_directory,
    remove_file,
    remove_temporary,
    replace_file,
)

LARGEST: Final = 64 * 1024 * 1024
"""Bytes of the largest file that is compared; no tool of ours writes a larger one."""

OTHER: Final = b"other"
_NOT_STORED: Final = b"not kept"
_MOST_BELOW: Final = 10_000
_MOST_NAMED: Final = 100

_CHANGED = "changed since"
_NO_BYTES = "too large to be stored before the change"
_LOST = "its previous content could not be stored"


@attrs.frozen
class SkippedFile:
    """A file that is left as it is, and the reason."""

    path: str
    why: str


@attrs.frozen(kw_only=True)
class Plan:
    """A plan to undo changes.

    Attributes:
        files: the number of files and moved directories that the steps restore.
        skipped: what is not done.
    """

    steps: tuple[UndoStep, ...] = ()
    files: int = 0
    skipped: tuple[SkippedFile, ...] = ()


class Disk:
    """The current files of a workspace; call its methods in a thread."""

    def __init__(self, workspace: Workspace, *, checkpoint: Checkpoint = lambda: None) -> None:
        self._workspace = workspace
        self._checkpoint = checkpoint

    def look(self, path: Path) -> bytes | None:
        """Return the digest of a file's content, `FOLDER`, `OTHER`, or None if nothing is there.

        Raises:
            FileError: the path is outside the workspace.
            OSError: the file cannot be read.
        """
        return _state(_place(path, self._workspace), self._checkpoint)[0]

    def is_directory(self, path: Path) -> bool:
        """Return whether a path is a directory of the workspace, and no link to one."""
        try:
            place = _place(path, self._workspace)
        except (FileError, OSError):
            return False
        return place.real_path.is_dir()

    def below(self, folder: Path) -> Sequence[Path]:
        """Return the files and links below a directory."""
        paths: list[Path] = []
        for top, folders, files in os.walk(folder):
            self._checkpoint()
            paths += (Path(top, name) for name in files)
            paths += (Path(top, name) for name in folders if Path(top, name).is_symlink())
            if len(paths) > _MOST_BELOW:
                break
        return paths


def plan(changes: Sequence[Change], disk: Disk, lost: Collection[str] = ()) -> Plan:
    """Plan how to undo changes; write nothing.

    Several changes of one file are one step. A file whose content differs from the result of the
    last change is left as it is; a deleted one is restored.

    Args:
        changes: the changes to undo, in the order in which they were made.
        disk: the current files.
        lost: files with a change that is not in `changes`: they are left as they are.
    """
    planner = _Planner(disk)
    for path in sorted(lost):
        planner.leave(Path(path))
    for change in reversed(changes):
        planner.undo(change)
    return planner.plan()


@attrs.define
class _Step:
    path: Path
    present: bytes | None
    target: bytes | None = None
    change: int | None = None
    moved_to: Path | None = None


@attrs.define
class _File:
    """A file while the undoing of its changes is planned.

    Attributes:
        state: its state after the planned steps, as `Disk.look` returns it.
        open: the last step, if the next change can be part of it.
        skip_reason: why it is left alone.
    """

    path: Path
    state: bytes | None
    steps: list[_Step] = attrs.field(factory=list)
    open: _Step | None = None
    skip_reason: str = ""


class _Planner:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: dict[Path, _File] = {}
        self._all: list[_File] = []
        self._moves: list[tuple[Path, Path]] = []
        self._steps: list[_Step] = []

    def leave(self, path: Path) -> None:
        self._at(path).skip_reason = _LOST

    def undo(self, change: Change) -> None:
        """Plan to undo one more change; the latest comes first."""
        path = Path(change.path)
        if change.moved_from is not None:
            self._move_back(path, Path(change.moved_from), change.after)
            return
        if change.after == FOLDER:
            self._remove_directory(path)
            return
        file = self._at(path)
        before = (change.before or _NOT_STORED) if change.existed else None
        if file.state == before and before is not _NOT_STORED:  # never made, or undone already
            if file.skip_reason is _CHANGED and not file.steps:
                file.skip_reason = ""  # and so is what came after it
            return
        if file.skip_reason:
            return
        if file.state not in (change.after, None, _NOT_STORED):
            file.skip_reason = _CHANGED
            return
        if file.open is None:
            file.open = self._add(file, _Step(path, file.state))
        file.open.target, file.state = before, before
        file.open.change = change.number if change.existed else None

    def plan(self) -> Plan:
        for file in self._all:
            if any(step.target is _NOT_STORED for step in file.steps):
                file.skip_reason = file.skip_reason or _NO_BYTES
        dropped = {id(step) for file in self._all if file.skip_reason for step in file.steps}
        steps = []
        for step in self._steps:
            has_effect = step.moved_to is not None or step.target != step.present
            if has_effect and id(step) not in dropped:
                moved_to = None if step.moved_to is None else str(step.moved_to)
                steps.append(UndoStep(str(step.path), moved_to, step.present, step.change))
        unrestored = [file for file in self._all if file.skip_reason]
        return Plan(
            steps=tuple(steps),
            files=sum(1 for file in self._all if file.steps and not file.skip_reason),
            skipped=tuple(SkippedFile(str(file.path), file.skip_reason) for file in unrestored),
        )

    def _remove_directory(self, path: Path) -> None:
        """Plan to remove a created directory, if it is planned to be empty; else it stays."""
        top = self._on_disk(path)
        if top is not None and self._disk.is_directory(top):
            below = [path / each.relative_to(top) for each in self._disk.below(top)]
            if all(self._is_planned_to_go(each) for each in below):
                self._steps.append(_Step(path, FOLDER))

    def _is_planned_to_go(self, path: Path) -> bool:
        """Return whether a file is planned to be removed, or moved away."""
        file = self._files.get(path)
        return self._on_disk(path) is None or (file is not None and file.state is None)

    def _move_back(self, path: Path, source: Path, content: bytes | None) -> None:
        moved, there = self._at(path), self._at(source)
        if moved.skip_reason or (moved.state is None and there.state is not None):
            return  # it was never moved, or is back already
        if moved.state is None:
            moved.skip_reason = "moved here, and removed since"
        elif content is not None and moved.state not in (content, _NOT_STORED):
            moved.skip_reason = _CHANGED
        elif there.skip_reason or not self._will_be_free(source, there):
            moved.skip_reason = f"its previous place {str(source)!r} is taken"
        if moved.skip_reason:
            return
        self._add(moved, _Step(path, moved.state, moved_to=source))
        self._moves.append((path, source))
        for each in [each for each in self._files if each.is_relative_to(source)]:
            del self._files[each]  # planned to be empty
        for each in [each for each in self._files if each.is_relative_to(path)]:
            file = self._files.pop(each)
            file.open = None
            self._files[source / each.relative_to(path)] = file

    def _add(self, file: _File, step: _Step) -> _Step:
        file.steps.append(step)
        self._steps.append(step)
        return step

    def _at(self, path: Path) -> _File:
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = self._new_file(path)
            self._all.append(file)
        return file

    def _will_be_free(self, path: Path, file: _File) -> bool:
        """Return whether a path is planned to be free, or to be an empty directory."""
        if file.state is not FOLDER:
            return file.state is None
        top = self._on_disk(path)
        return top is not None and all(
            self._at(path / each.relative_to(top)).state is None for each in self._disk.below(top)
        )

    def _on_disk(self, path: Path) -> Path | None:
        """Return the current path of a planned path, or None."""
        for moved, source in reversed(self._moves):
            if path.is_relative_to(source):
                path = moved / path.relative_to(source)
            elif path.is_relative_to(moved):
                return None
        return path

    def _new_file(self, path: Path) -> _File:
        there = self._on_disk(path)
        if there is None:
            return _File(path, None)
        try:
            return _File(there, self._disk.look(there))
        except (FileError, OSError) as fault:
            return _File(there, OTHER, skip_reason=reason_of(fault))


def apply_step(
    step: UndoStep, content: StoredContent | None, workspace: Workspace, chat: str
) -> str:
    """Do one step; call it in a thread.

    Args:
        step: the step; a temporary file that a killed server left of it is removed.
        content: the content to restore, if any.
        workspace: the workspace, whose boundary is checked again.
        chat: the id of the chat.

    Returns:
        The reason why the file was left as it is; empty if the step is done.
    """
    try:
        place = _place(Path(step.path), workspace)
        if step.moved_to is not None:
            return _apply_move(place, _place(Path(step.moved_to), workspace))
        temporary = _temporary(step, chat)
        remove_temporary(place, temporary)
        return _apply_content(place, step, content, temporary)
    except (FileError, OSError) as fault:
        return reason_of(fault)


def _apply_move(source: Place, destination: Place) -> str:
    if not os.path.lexists(source.path) and os.path.lexists(destination.path):
        return ""
    if destination.path.is_dir():  # made for a later change, and now empty
        for top, _, _ in os.walk(destination.path, topdown=False):
            Path(top).rmdir()
    move_file(source, destination)
    return ""


def _temporary(step: UndoStep, chat: str) -> str:
    """Return the name of the temporary file, which a later server can derive, too."""
    token = Fingerprint.of(os.fsencode(f"{chat}\0{step.path}")).digest[:8].hex()
    return f".eca-{token}.tmp"


def _apply_content(
    place: Place, step: UndoStep, content: StoredContent | None, temporary: str
) -> str:
    if step.present == FOLDER:
        remove_empty_directory(place)
        return ""
    digest, fingerprint = _state(place, lambda: None)
    target = None if content is None else Fingerprint.of(content.data).digest
    if digest == target:
        return ""
    if digest not in (step.present, None):
        return _CHANGED
    if content is not None:
        replace_file(
            place,
            content.data,
            expected=fingerprint,
            mode=content.mode,
            group=content.group,
            temporary=temporary,
        )
    elif fingerprint is not None:
        remove_file(place, expected=fingerprint)
    return ""


def _place(path: Path, workspace: Workspace) -> Place:
    place = workspace.locate(str(path))
    if real_path_of(path) != path:
        raise FileError(f"now a link to {str(place.real_path)!r}")
    if not place.is_inside:
        raise FileError("outside the workspace")
    return place


def _state(place: Place, checkpoint: Checkpoint) -> tuple[bytes | None, Fingerprint | None]:
    try:
        status = place.real_path.lstat()
    except FileNotFoundError:
        return None, None
    if stat.S_ISDIR(status.st_mode):
        return FOLDER, None
    if not stat.S_ISREG(status.st_mode):
        return OTHER, None
    try:
        fingerprint = read_file(place, limit=LARGEST, checkpoint=checkpoint).fingerprint
    except TooLarge:
        return OTHER, None
    return fingerprint.digest, fingerprint


def skipped_lines(skipped: Sequence[SkippedFile]) -> str:
    """Return a line for each skipped file, up to a limit, and one that counts the others."""
    lines = [f"- {printable(each.path)}: {each.why}" for each in skipped[:_MOST_NAMED]]
    more = len(skipped) - len(lines)
    return "\n".join([*lines, f"- and {more} more"] if more else lines)
