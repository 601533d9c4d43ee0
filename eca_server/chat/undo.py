"""Changes of files undone: first planned as a whole, then done step by step.

The rules it keeps: what somebody else changed since is not touched, nor is what a link or another
folder that is open puts out of reach; each step is one rename, so that a file has its old or its
new content and never a piece; a step that is done already does nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import attrs

from eca_server.chat.store import Change, KeptContent, UndoStep
from eca_server.tools.files import printable
from eca_server.workspace import (
    Checkpoint,
    FileError,
    Fingerprint,
    Place,
    TooLarge,
    Workspace,
    move_file,
    read_file,
    remove_file,
    remove_temporary,
    replace_file,
)

__all__ = ["Disk", "LeftAlone", "Plan", "named", "plan", "take"]

LARGEST: Final = 64 * 1024 * 1024
"""Bytes of a file that is compared; a larger one is none that a tool of ours wrote."""

FOLDER: Final = b"folder"
OTHER: Final = b"other"
_NOT_KEPT: Final = b"not kept"
_MOST_BELOW: Final = 10_000
_MOST_NAMED: Final = 100

_CHANGED = "it was changed since"
_NO_BYTES = "it was too large to be kept"
_LOST = "what it was could not be kept"


@attrs.frozen
class LeftAlone:
    """A file that stays as it is, and why."""

    path: str
    why: str


@attrs.frozen(kw_only=True)
class Plan:
    """How changes are undone.

    Attributes:
        steps: what is done, in order.
        files: how many files and moved folders that is about.
        left: what is not done.
    """

    steps: tuple[UndoStep, ...] = ()
    files: int = 0
    left: tuple[LeftAlone, ...] = ()


class Disk:
    """What lies in a workspace now; to be asked in a thread."""

    def __init__(self, workspace: Workspace, *, checkpoint: Checkpoint = lambda: None) -> None:
        self._workspace = workspace
        self._checkpoint = checkpoint

    def look(self, path: Path) -> bytes | None:
        """What is at a path: the digest of a file's content, `FOLDER`, `OTHER`; None: nothing.

        Raises:
            FileError: it is out of reach.
            OSError: it cannot be read.
        """
        return _state(_place(path, self._workspace), self._checkpoint)[0]

    def below(self, folder: Path) -> Sequence[Path]:
        """What lies in a folder and in its folders, but for these."""
        found: list[Path] = []
        for top, folders, files in os.walk(folder):
            self._checkpoint()
            found += (Path(top, name) for name in files)
            found += (Path(top, name) for name in folders if Path(top, name).is_symlink())
            if len(found) > _MOST_BELOW:
                break
        return found


def plan(changes: Sequence[Change], disk: Disk, lost: Collection[str] = ()) -> Plan:
    """Plan how to undo changes, given in the order they were made; nothing is written.

    Several changes of one file are one step. A file that is not what the last of them made of it
    is left alone, and so are all of them; one that is gone comes back.

    Args:
        changes: what is undone.
        disk: what lies there now.
        lost: files of which a change is not among these: they are left alone.
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
    """A file while its changes are undone in thought.

    Attributes:
        path: where it is on the disk.
        state: what it is by now, as `Disk.look` tells it.
        steps: those planned for it.
        open: the last of them, if what follows is part of it.
        left: why it is left alone.
    """

    path: Path
    state: bytes | None
    steps: list[_Step] = attrs.field(factory=list)
    open: _Step | None = None
    left: str = ""


class _Planner:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: dict[Path, _File] = {}
        self._all: list[_File] = []
        self._moves: list[tuple[Path, Path]] = []
        self._steps: list[_Step] = []

    def leave(self, path: Path) -> None:
        """Leave a file alone."""
        self._at(path).left = _LOST

    def undo(self, change: Change) -> None:
        """Undo one more, the latest first."""
        path = Path(change.path)
        if change.moved_from is not None:
            self._move_back(path, Path(change.moved_from))
            return
        file = self._at(path)
        before = (change.before or _NOT_KEPT) if change.existed else None
        if file.state == before and before is not _NOT_KEPT:  # never made, or undone already
            if file.left is _CHANGED and not file.steps:
                file.left = ""  # and so is what came after it
            return
        if file.left:
            return
        if file.state not in (change.after, None, _NOT_KEPT):
            file.left = _CHANGED
            return
        if file.open is None:
            file.open = self._add(file, _Step(path, file.state))
        file.open.target, file.state = before, before
        file.open.change = change.number if change.existed else None

    def plan(self) -> Plan:
        """What has come of it."""
        for file in self._all:
            if any(step.target is _NOT_KEPT for step in file.steps):
                file.left = file.left or _NO_BYTES
        dropped = {id(step) for file in self._all if file.left for step in file.steps}
        return Plan(
            steps=tuple(
                UndoStep(
                    path=str(step.path),
                    moved_to=None if step.moved_to is None else str(step.moved_to),
                    present=step.present,
                    change=step.change,
                )
                for step in self._steps
                if id(step) not in dropped
                and (step.moved_to is not None or step.target != step.present)
            ),
            files=sum(1 for file in self._all if file.steps and not file.left),
            left=tuple(LeftAlone(str(file.path), file.left) for file in self._all if file.left),
        )

    def _move_back(self, path: Path, source: Path) -> None:
        moved, there = self._at(path), self._at(source)
        if moved.left or (moved.state is None and there.state is not None):
            return  # it was never moved, or is back already
        if moved.state is None:
            moved.left = "it was moved here, and is gone"
        elif there.left or not self._will_be_free(source, there):
            moved.left = f"there is something at {str(source)!r} again"
        if moved.left:
            return
        self._add(moved, _Step(path, moved.state, moved_to=source))
        self._moves.append((path, source))
        for each in [each for each in self._files if each.is_relative_to(source)]:
            del self._files[each]  # nothing is there by now
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
            file = self._files[path] = self._found(path)
            self._all.append(file)
        return file

    def _will_be_free(self, path: Path, file: _File) -> bool:
        """Whether nothing is there by now, or a folder in which nothing is."""
        if file.state is not FOLDER:
            return file.state is None
        top = self._on_disk(path)
        return top is not None and all(
            self._at(path / each.relative_to(top)).state is None for each in self._disk.below(top)
        )

    def _on_disk(self, path: Path) -> Path | None:
        """Where that is now which has a path once the moves that are planned are made."""
        for moved, source in reversed(self._moves):
            if path.is_relative_to(source):
                path = moved / path.relative_to(source)
            elif path.is_relative_to(moved):
                return None
        return path

    def _found(self, path: Path) -> _File:
        there = self._on_disk(path)
        if there is None:
            return _File(path, None)
        try:
            return _File(there, self._disk.look(there))
        except (FileError, OSError) as fault:
            return _File(there, OTHER, left=_told(fault))


def take(step: UndoStep, content: KeptContent | None, workspace: Workspace, chat: str) -> str:
    """Do one step, in a thread; empty, or why the file was left alone.

    Args:
        step: what is to be done; a piece of it that a killed server left is removed.
        content: what comes back, if something does.
        workspace: its boundary is looked at once more.
        chat: whose changes are undone.
    """
    try:
        place = _place(Path(step.path), workspace)
        if step.moved_to is not None:
            return _take_move(place, _place(Path(step.moved_to), workspace))
        temporary = _temporary(step, chat)
        remove_temporary(place, temporary)
        return _take_content(place, step, content, temporary)
    except (FileError, OSError) as fault:
        return _told(fault)


def _take_move(source: Place, destination: Place) -> str:
    if not os.path.lexists(source.path) and os.path.lexists(destination.path):
        return ""
    if destination.path.is_dir():  # made for a later change, and empty now
        for top, _, _ in os.walk(destination.path, topdown=False):
            Path(top).rmdir()
    move_file(source, destination)
    return ""


def _temporary(step: UndoStep, chat: str) -> str:
    """The name under which a content is written first: one a server that follows knows, too."""
    token = Fingerprint.of(os.fsencode(f"{chat}\0{step.path}")).digest[:8].hex()
    return f".eca-{token}.tmp"


def _take_content(place: Place, step: UndoStep, content: KeptContent | None, temporary: str) -> str:
    digest, fingerprint = _state(place, lambda: None)
    target = None if content is None else Fingerprint.of(content.data).digest
    if digest == target:
        return ""
    if digest not in (step.present, None):
        return _CHANGED
    if content is not None:
        replace_file(
            place, content.data, expected=fingerprint, mode=content.mode, temporary=temporary
        )
    elif fingerprint is not None:
        remove_file(place, expected=fingerprint)
    return ""


def _place(path: Path, workspace: Workspace) -> Place:
    place = workspace.locate(str(path))
    if place.real_path != path:
        raise FileError(f"it leads to {str(place.real_path)!r} now")
    if not place.is_inside:
        raise FileError("it is not in the workspace")
    return place


def _state(place: Place, checkpoint: Checkpoint) -> tuple[bytes | None, Fingerprint | None]:
    try:
        found = place.real_path.lstat()
    except FileNotFoundError:
        return None, None
    if stat.S_ISDIR(found.st_mode):
        return FOLDER, None
    if not stat.S_ISREG(found.st_mode):
        return OTHER, None
    try:
        fingerprint = read_file(place, limit=LARGEST, checkpoint=checkpoint).fingerprint
    except TooLarge:
        return OTHER, None
    return fingerprint.digest, fingerprint


def _told(fault: FileError | OSError) -> str:
    return (isinstance(fault, OSError) and fault.strerror) or str(fault)


def named(left: Sequence[LeftAlone]) -> str:
    """A line for each file that is left alone, and one for those that are too many."""
    lines = [f"- {printable(each.path)}: {each.why}" for each in left[:_MOST_NAMED]]
    more = len(left) - len(lines)
    return "\n".join([*lines, f"- and {more} more"] if more else lines)
