"""AGENTS.md and rules: what projects and users tell every model, read once per chat.

The rules it keeps: it is read for the system prompt, which stays as it is while the chat lasts
(design decision 20), the most general first; a file of a project counts only where it really lies
in the project, for a link may lead to the user's secrets; one above the project only if it is the
user's own, for on a shared machine anybody may put one into `/tmp`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs
import trio

from eca_server.config import OTHER_NAMES
from eca_server.context.block import Section, render
from eca_server.context.excerpt import read_excerpt
from eca_server.context.front_matter import split_front_matter
from eca_server.context.limits import readable
from eca_server.context.mentions import find_mentions
from eca_server.tools.files import printable
from eca_server.workspace import (
    Checkpoint,
    FileFault,
    LeadsOut,
    Place,
    TooLarge,
    Workspace,
    list_files,
)

__all__ = ["InstructionFiles", "read_instruction_files"]

_LARGEST = 64 * 1024  # bytes of one file; the rest of it is cut
_TOTAL = 256 * 1024  # bytes of all of them
_MOST_MENTIONED = 50  # files that one AGENTS.md brings with it
_MOST_RULES = 200  # files of one directory of rules
_NAME = "AGENTS.md"
_INSTRUCTIONS, _RULE = "instructions", "rule"


@attrs.frozen(kw_only=True)
class InstructionFiles:
    """What was found.

    Attributes:
        text: a part of the system prompt; empty if there is nothing.
        sections: what it is made of, each with its path and for what it is.
        notes: sentences for the user about what was left out or cut.
    """

    text: str = ""
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()


async def read_instruction_files(
    workspace: Workspace,
    *,
    user_folder: Path,
    rules: Sequence[str] = (),
    parents: bool = True,
    behavior: str = "agent",
) -> InstructionFiles:
    """Read every AGENTS.md and rule that holds in a workspace.

    AGENTS.md: the user's, those of the folders above each root, those of the roots, each with the
    files that it mentions (`@docs/style.md`). Rules: the configured ones, the user's, those in
    `.eca/rules` of each root. A rule's front matter may name the behaviours it is for (`agent`);
    for which files (`paths`) or models (`model`) it is, the model is told.

    Args:
        workspace: its roots.
        user_folder: the user's own configuration, `~/.config/eca`.
        rules: `rules` of the configuration: paths, relative ones to a root.
        parents: whether the AGENTS.md of the folders above each root count.
        behavior: whose rules are wanted.
    """

    def work() -> InstructionFiles:
        reading = _Reading(
            workspace=workspace,
            behavior=behavior,
            checkpoint=trio.from_thread.check_cancelled,
        )
        reading.add_agents_files(user_folder, parents=parents)
        reading.add_rules(rules, user_folder)
        return reading.found()

    return await trio.to_thread.run_sync(work)


@attrs.define(kw_only=True, eq=False)
class _Reading:
    """What was read so far, in a worker thread."""

    workspace: Workspace
    behavior: str
    checkpoint: Checkpoint
    room: int = _TOTAL
    seen: set[Path] = attrs.field(init=False, factory=set)
    sections: list[Section] = attrs.field(init=False, factory=list)
    notes: list[str] = attrs.field(init=False, factory=list)

    def add_agents_files(self, user_folder: Path, *, parents: bool) -> None:
        """The user's, then from the top of the file system down to each root."""
        self._add(_INSTRUCTIONS, str(user_folder / _NAME))
        for root in self.workspace.roots if parents else ():
            for folder in reversed(root.real_path.parents):
                if _is_the_users_own(folder / _NAME):
                    self._add(_INSTRUCTIONS, str(folder / _NAME))
        for root in self.workspace.roots:
            self._add(_INSTRUCTIONS, str(root.path / _NAME), is_the_projects=True)

    def add_rules(self, configured: Sequence[str], user_folder: Path) -> None:
        """The configured ones, then the user's, then the roots'."""
        bases = [root.path for root in self.workspace.roots] or [user_folder]
        for path in configured:
            if not any(self._add(_RULE, path, base=base) for base in bases):
                self._leave_out(path, "there is no such file")
        self._add_folder(user_folder / "rules")
        for root in self.workspace.roots:
            self._add_folder(root.path / ".eca" / "rules", is_the_projects=True)

    def found(self) -> InstructionFiles:
        """All of it, in its frame."""
        return InstructionFiles(
            text=render(self.sections),
            sections=tuple(self.sections),
            notes=readable(self.notes),
        )

    def _add_folder(self, folder: Path, *, is_the_projects: bool = False) -> None:
        with self._saying(str(folder)):
            place = self.workspace.locate(str(folder))
            if not place.real_path.is_dir():
                return
            _must_not_lead_out(place, is_the_projects)
            paths = list_files(
                place.real_path,
                limit=_MOST_RULES,
                gitignore=False,
                links=not is_the_projects,
                checkpoint=self.checkpoint,
            )
            for path in sorted(paths):
                if not any(name.startswith(".") for name in path.split("/")):
                    self._add(_RULE, str(folder / path), is_the_projects=is_the_projects)

    def _add(
        self, kind: str, path: str, *, base: Path | None = None, is_the_projects: bool = False
    ) -> bool:
        """Read a file, and each that an AGENTS.md mentions behind it; False if there is none."""
        with self._saying(path):
            place = self.workspace.locate(path, base=base)
            if not place.real_path.exists():
                return False
            begun = [iter([(path, place)])]  # a chain of mentions may be thousands of files long
            while begun:
                name, place = next(begun[-1], (None, place))
                if name is None:
                    begun.pop()
                    continue
                with self._saying(name):
                    _must_not_lead_out(place, is_the_projects)
                    if place.real_path not in self.seen:
                        self.seen.add(place.real_path)
                        text = self._read(kind, place)
                        if kind == _INSTRUCTIONS:
                            begun.append(self._mentioned(text, place.path.parent))
        return True

    def _mentioned(self, text: str, folder: Path) -> Iterator[tuple[str, Place]]:
        """The files that an AGENTS.md mentions; what is no file was not meant as one."""
        for mention in find_mentions(text, most=_MOST_MENTIONED):
            for target in mention.targets:
                with suppress(FileFault, OSError):
                    place = self.workspace.locate(target.path, base=folder)
                    if place.real_path.is_file():
                        yield str(place.path), place
                        break

    def _read(self, kind: str, place: Place) -> str:
        """Read a file that is for this behaviour; what it says."""
        if self.room <= 0:
            raise TooLarge(f"there are {_TOTAL} bytes of instructions already")
        excerpt = read_excerpt(place, size=min(_LARGEST, self.room), checkpoint=self.checkpoint)
        self.room -= len(excerpt.text.encode())
        if excerpt.left_out:
            self.notes.append(
                f"{printable(place.path)} was cut: {excerpt.left_out} bytes of it had no room."
            )
        attributes = {"path": str(place.path)}
        if kind == _RULE:
            fields, text = split_front_matter(excerpt.text)
            excerpt = attrs.evolve(excerpt, text=text)
            if not self._is_for_us(fields.get("agent", ())):
                return ""
            for key, name in (("paths", "files"), ("model", "models")):
                if key in fields:
                    attributes[name] = ", ".join(fields[key])
        if excerpt.text.strip():
            self.sections.append(Section(name=kind, attributes=attributes, body=(excerpt.marked,)))
        return excerpt.text

    def _is_for_us(self, behaviors: Sequence[str]) -> bool:
        ours = (OTHER_NAMES.get(name, name) for name in behaviors)
        return not behaviors or self.behavior in ours

    @contextmanager
    def _saying(self, path: str) -> Iterator[None]:
        """Tell the user what is wrong with a path, and go on."""
        try:
            yield
        except FileFault as fault:
            self._leave_out(path, str(fault))
        except OSError as fault:
            self._leave_out(path, fault.strerror or str(fault))

    def _leave_out(self, path: str, reason: str) -> None:
        self.notes.append(f"{printable(path)} was left out: {reason}.")


def _must_not_lead_out(place: Place, is_the_projects: bool) -> None:
    if is_the_projects and not place.inside:
        raise LeadsOut("a link leads out of the workspace")


def _is_the_users_own(path: Path) -> bool:
    """Whether a file belongs to the user or the system's owner, and nobody else can write it."""
    if not hasattr(os, "getuid"):
        return True
    try:
        found = path.lstat()
    except OSError:
        return False
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_uid in {os.getuid(), 0}
        and not found.st_mode & stat.S_IWOTH
    )
