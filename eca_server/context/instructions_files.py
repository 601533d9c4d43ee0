"""AGENTS.md and rules: what projects and users tell every model, read once per chat.

The rules it keeps: they are read for the system prompt, which stays as it is while the chat lasts
(design decision 20). The user's own come first, so that a project's files never take their place
or their room; each section names its origin. No file of a project brings another one into the
prompt that lies beyond its `Reach`. A file above a root needs trust, and must belong to the user,
for on a shared machine anyone may put one into `/tmp`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs
import trio

from eca_server.config import AGENT_ALIASES
from eca_server.context.block import Section, render
from eca_server.context.excerpt import read_excerpt
from eca_server.context.front_matter import split_front_matter
from eca_server.context.limits import readable
from eca_server.context.mentions import find_mentions
from eca_server.context.provenance import SOURCE, Origin
from eca_server.context.reach import ANYWHERE, Boundaries, Reach
from eca_server.printable import visible
from eca_server.tools.files import printable
from eca_server.workspace import (
    Checkpoint,
    FileFault,
    Place,
    Root,
    Workspace,
    list_files,
)

__all__ = ["InstructionFiles", "read_instruction_files"]

_LARGEST = 64 * 1024  # bytes of one file; the rest of it is cut
_TOTAL = 256 * 1024  # bytes of all of them
_MOST_MENTIONED = 50  # files that one AGENTS.md brings with it
_MOST_FILES = 1000  # files of all kinds; an empty one costs time, too
_MOST_RULES = 200  # files of one directory of rules
_NAME = "AGENTS.md"
_INSTRUCTIONS, _RULE = "instructions", "rule"


@attrs.frozen(kw_only=True)
class InstructionFiles:
    """What was found.

    Attributes:
        text: a part of the system prompt; empty if there is nothing.
        sections: what it is made of, each with its path, its origin and what it is for.
        notes: sentences for the user about what was left out or cut.
    """

    text: str = ""
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()


async def read_instruction_files(
    workspace: Workspace,
    *,
    user_directory: Path,
    rules: Sequence[str] = (),
    parents: bool = True,
    behavior: str = "agent",
    trusted_roots: Collection[Path] = (),
) -> InstructionFiles:
    """Read every AGENTS.md and rule that holds in a workspace.

    In this order: the user's AGENTS.md and rules, the configured rules, the AGENTS.md of the
    folders above each trusted root, those of the roots, the rules in `.eca/rules` of each root. An
    AGENTS.md brings with it the files that it mentions (`@docs/style.md`). A rule's front matter
    may name the behaviours it is for (`agent`), and, for the model, files (`paths`) or models
    (`model`).

    Args:
        workspace: its roots.
        user_directory: the user's own configuration, `~/.config/eca`.
        rules: `rules` of the configuration: paths, relative ones to a root. An entry that a
            workspace's configuration wrote and that leads outside the roots must not be among
            them without trust.
        parents: whether the AGENTS.md of the folders above each root count.
        behavior: whose rules are wanted.
        trusted_roots: the paths of the roots that the user trusts, as they were opened or real.
    """

    def work() -> InstructionFiles:
        reading = _Reading(
            workspace=workspace,
            user_directory=user_directory,
            boundaries=Boundaries(
                workspace=workspace,
                user_directory=user_directory,
                trusted_roots=trusted_roots,
            ),
            behavior=behavior,
            checkpoint=trio.from_thread.check_cancelled,
        )
        reading.add_own()
        reading.add_configured(rules)
        if parents:
            reading.add_parents()
        reading.add_roots()
        return reading.found()

    return await trio.to_thread.run_sync(work)


@attrs.define(kw_only=True, eq=False)
class _Reading:
    """The files that were read so far, in a worker thread."""

    workspace: Workspace
    user_directory: Path
    boundaries: Boundaries
    behavior: str
    checkpoint: Checkpoint
    room: int = _TOTAL
    seen: set[Path] = attrs.field(init=False, factory=set)
    sections: list[Section] = attrs.field(init=False, factory=list)
    notes: list[str] = attrs.field(init=False, factory=list)

    def add_own(self) -> None:
        """Add the user's own AGENTS.md and rules."""
        self._add(_INSTRUCTIONS, str(self.user_directory / _NAME), ANYWHERE)
        self._add_folder(self.user_directory / "rules", None)

    def add_configured(self, rules: Sequence[str]) -> None:
        """Add the rules that the configuration names."""
        bases = [root.path for root in self.workspace.roots] or [self.user_directory]
        for path in rules:
            were_found = [self._add_entry(path, base) for base in bases]
            if not any(were_found):
                self._leave_out(path, "there is no such file")

    def add_parents(self) -> None:
        """Add each AGENTS.md above a root, from the top of the file system down."""
        left_out: dict[Path, Root] = {}
        for root in self.workspace.roots:
            for folder in reversed(root.real_path.parents):
                path = folder / _NAME
                if not _is_the_users_own(path):
                    continue
                if self.boundaries.trusts(root) or self.workspace.locate(str(path)).inside:
                    self._add(_INSTRUCTIONS, str(path), Reach(folder=folder))
                else:
                    left_out[path] = root
        for path, root in left_out.items():
            if path not in self.seen:
                reason = f"it lies above {str(root.path)!r}, which is not trusted"
                self._leave_out(str(path), printable(reason))

    def add_roots(self) -> None:
        """Add each root's AGENTS.md, then each root's rules."""
        for root in self.workspace.roots:
            self._add(_INSTRUCTIONS, str(root.path / _NAME), self.boundaries.of_root(root))
        for root in self.workspace.roots:
            self._add_folder(root.path / ".eca" / "rules", root)

    def found(self) -> InstructionFiles:
        """Return all of them, each in its frame."""
        return InstructionFiles(
            text=render(self.sections),
            sections=tuple(self.sections),
            notes=readable(self.notes),
        )

    def _add_folder(self, folder: Path, root: Root | None) -> None:
        """Add a directory of rules; `root` is None for the user's own."""
        reach = ANYWHERE if root is None else self.boundaries.of_root(root)
        with self._saying(str(folder)):
            place = self.workspace.locate(str(folder))
            if not place.real_path.is_dir():
                return
            reach.check(place)
            paths = list_files(
                place.real_path,
                limit=_MOST_RULES,
                gitignore=False,
                links=root is None,
                checkpoint=self.checkpoint,
            )
            for path in sorted(paths):
                if not any(name.startswith(".") for name in path.split("/")):
                    self._add(_RULE, str(folder / path), reach)

    def _add_entry(self, path: str, base: Path) -> bool:
        """Add a configured rule; return False if there is no such file."""
        with self._saying(path):
            place = self.workspace.locate(path, base=base)
            if not place.real_path.exists():
                return False
            self._add(_RULE, str(place.path), self.boundaries.of_entry(place))
        return True

    def _add(self, kind: str, path: str, reach: Reach) -> None:
        """Read a file, if it exists, and behind it each that an AGENTS.md mentions."""
        with self._saying(path):
            place = self.workspace.locate(path)
            if not place.real_path.exists():
                return
            begun = [iter([(path, place, reach)])]  # a chain may be thousands of files long
            while begun:
                entry = next(begun[-1], None)
                if entry is None:
                    begun.pop()
                    continue
                name, place, reach = entry
                if self._why_full:
                    self._leave_out(name, self._why_full)
                    return
                with self._saying(name):
                    reach.check(place)
                    if place.real_path not in self.seen:
                        self.seen.add(place.real_path)
                        text = self._read(kind, place, self.boundaries.origin_of(place, reach))
                        if kind == _INSTRUCTIONS:
                            begun.append(self._mentioned(text, place))

    def _mentioned(self, text: str, source: Place) -> Iterator[tuple[str, Place, Reach]]:
        """Return the files that an AGENTS.md mentions; a mention of no file is a mere word."""
        reach = self.boundaries.of_file(source)
        for mention in find_mentions(text, most=_MOST_MENTIONED):
            for target in mention.targets:
                with suppress(FileFault, OSError):
                    place = self.workspace.locate(target.path, base=source.path.parent)
                    if place.real_path.is_file():
                        yield str(place.path), place, reach
                        break

    @property
    def _why_full(self) -> str:
        """The reason why no further file is read; empty if there is none."""
        if self.room <= 0:
            return f"there are {_TOTAL} bytes of instructions already"
        if len(self.seen) >= _MOST_FILES:
            return f"there are {_MOST_FILES} files of instructions already"
        return ""

    def _read(self, kind: str, place: Place, origin: Origin) -> str:
        """Add a file, if it is for this behaviour, and return its text."""
        excerpt = read_excerpt(place, size=min(_LARGEST, self.room), checkpoint=self.checkpoint)
        self.room -= len(excerpt.text.encode())
        if excerpt.left_out:
            self.notes.append(
                f"{printable(place.path)} was cut: {excerpt.left_out} bytes of it had no room."
            )
        attributes = {"path": str(place.path), SOURCE: origin}
        if kind == _RULE:
            fields, text = split_front_matter(excerpt.text)
            excerpt = attrs.evolve(excerpt, text=text)
            if not self._is_for_us(fields.get("agent", ())):
                return ""
            for key, name in (("paths", "files"), ("model", "models")):
                if key in fields:
                    attributes[name] = visible(", ".join(fields[key]))
        if excerpt.text.strip():
            marked = excerpt.marked if origin == "user" else visible(excerpt.marked)
            self.sections.append(Section(name=kind, attributes=attributes, body=(marked,)))
        return excerpt.text

    def _is_for_us(self, behaviors: Sequence[str]) -> bool:
        ours = (AGENT_ALIASES.get(name, name) for name in behaviors)
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
