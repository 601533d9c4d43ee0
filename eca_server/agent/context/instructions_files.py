"""AGENTS.md and rules: the instructions of projects and users, read once per chat.

The rules of this module: the files are read for the system prompt, which is constant for a chat.
The user's own files come first, so that a project's files never take the bytes of the limit from
them; each section names its origin. A file of a project includes no file beyond its `Reach`. A file
above a root needs trust, and must belong to the user, since on a shared machine anyone may put a
file into `/tmp`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs

from eca_protocol.server.roots import Root
from eca_server.agent.context.block import SOURCE, Origin, Section, render
from eca_server.agent.context.definition_files import visible_files
from eca_server.agent.context.excerpt import read_excerpt
from eca_server.agent.context.front_matter import split_front_matter
from eca_server.agent.context.limits import limit_notes
from eca_server.agent.context.mentions import find_mentions
from eca_server.agent.context.reach import ANYWHERE, Boundaries, Reach
from eca_server.agent.tools.files import checkpoint, printable
from eca_server.config.agent_settings import AGENT_ALIASES
from eca_server.config.matchers import BadMatcher, is_in_name
from eca_server.config.unknown import hint, nearest_key
from eca_server.printable import visible
from eca_server.workspace.boundary import Place, is_missing
from eca_server.workspace.errors import FileError, reason_of

_LARGEST = 64 * 1024  # bytes of one file; the rest is cut
_TOTAL = 256 * 1024  # bytes of all files
_MOST_MENTIONED = 50  # files that one AGENTS.md mentions
_MOST_FILES = 1000  # files of all kinds, empty ones too
_MOST_PATTERNS = 50  # of models, of one rule
_MOST_RULES = 200  # files of one directory of rules
_NAME = "AGENTS.md"
_INSTRUCTIONS, _RULE = "instructions", "rule"
_RULE_KEYS = ("agent", "paths", "model")
_TEMPLATE = re.compile(
    r"\$\{(?:env|file|cmd|netrc|classpath):[^-+=?\d]|\{%|\{\{\s*(?:isSubagent|workspaceRoots|toolEnabled_)"
)


@attrs.frozen(kw_only=True)
class InstructionFiles:
    """The instruction files of a chat.

    Attributes:
        text: a part of the system prompt; may be empty.
        sections: the sections of the text, each with its path, origin and scope.
        depends_on_model: whether a rule is for some models only.
        templates: the paths of rules with upstream's templates, which are not rendered.
        notes: sentences for the user about files that were left out or cut.
    """

    text: str = ""
    sections: tuple[Section, ...] = ()
    depends_on_model: bool = False
    templates: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def has_template(text: str) -> bool:
    """Return True if a text is a template for upstream's server."""
    return _TEMPLATE.search(text) is not None


@attrs.define(kw_only=True, eq=False)
class InstructionSearch(Boundaries):
    """A search for every AGENTS.md and rule that applies to a workspace.

    The order: the user's AGENTS.md and rules, the configured rules, the AGENTS.md of the
    directories above each trusted root, those of the roots, the rules in `.eca/rules` of each
    root. An AGENTS.md includes the files that it mentions (`@docs/style.md`). A rule's front matter
    may name the behaviours (`agent`) and models (`model`) it is for, and, for the model, files
    (`paths`).

    Attributes:
        rules: `rules` of the configuration: paths, relative ones to a root. Those of a workspace's
            configuration are `WorkspaceFile`s, with the real path that was checked.
        parents: whether to read the AGENTS.md of the directories above each root.
        behavior: the behaviour of the chat.
        model: the model that reads the instructions, `provider/model`.
    """

    rules: Sequence[str] = ()
    parents: bool = True
    behavior: str = "agent"
    model: str = ""
    budget: int = attrs.field(init=False, default=_TOTAL)
    depends_on_model: bool = attrs.field(init=False, default=False)
    read: set[Path] = attrs.field(init=False, factory=set)
    sections: list[Section] = attrs.field(init=False, factory=list)
    templates: list[str] = attrs.field(init=False, factory=list)
    notes: list[str] = attrs.field(init=False, factory=list)

    def run(self) -> InstructionFiles:
        """Read the files, once; use `run_on_disk`."""
        self._add_own()
        self._add_configured()
        if self.parents:
            self._add_parents()
        self._add_roots()
        return InstructionFiles(
            text=render(self.sections),
            sections=tuple(self.sections),
            depends_on_model=self.depends_on_model,
            templates=tuple(self.templates),
            notes=limit_notes(self.notes),
        )

    def _add_own(self) -> None:
        """Add the user's own AGENTS.md and rules."""
        self._add(_INSTRUCTIONS, str(self.user_directory / _NAME), ANYWHERE)
        self._add_directory(self.user_directory / "rules", ANYWHERE)

    def _add_configured(self) -> None:
        """Add the rules that the configuration names."""
        bases = [root.path for root in self.workspace.roots] or [self.user_directory]
        for path in self.rules:
            exists = [self._add_entry(path, base) for base in bases]
            if not any(exists):
                self._leave_out(path, "the file does not exist")

    def _add_parents(self) -> None:
        """Add each AGENTS.md above a root, from the top of the file system down."""
        left_out: dict[Path, Root] = {}
        for root in self.workspace.roots:
            for folder in reversed(root.real_path.parents):
                path = folder / _NAME
                if not _is_users_own(path):
                    continue
                if self.trusts(root) or self.workspace.locate(str(path)).is_inside:
                    self._add(_INSTRUCTIONS, str(path), Reach(directory=folder))
                else:
                    left_out[path] = root
        for path, root in left_out.items():
            if path not in self.read:
                reason = f"it is above {str(root.path)!r}, which is not trusted"
                self._leave_out(str(path), printable(reason))

    def _add_roots(self) -> None:
        """Add each root's AGENTS.md, then each root's rules."""
        for root in self.workspace.roots:
            self._add(_INSTRUCTIONS, str(root.path / _NAME), self.of_root(root))
        for root in self.workspace.roots:
            self._add_directory(root.path / ".eca" / "rules", self.of_root(root))

    def _add_directory(self, directory: Path, reach: Reach) -> None:
        """Add the rules in a directory and below it, if it exists."""
        if is_missing(str(directory)):
            return
        with self._noting_errors(str(directory)):
            place = self.workspace.locate(str(directory))
            if not place.real_path.is_dir():
                return
            reach.check(place)
            links = reach is ANYWHERE
            for path in visible_files(place.real_path, most=_MOST_RULES, links=links):
                self._add(_RULE, str(directory / path), reach)

    def _add_entry(self, path: str, base: Path) -> bool:
        """Add a configured rule or directory of rules; return False if it does not exist."""
        with self._noting_errors(path):
            place = self.workspace.locate(path, base=base)
            if not place.real_path.exists():
                return False
            reach = self.of_entry(path, place)
            if place.real_path.is_dir():
                self._add_directory(place.path, reach)
            else:
                kind = _INSTRUCTIONS if place.path.name == _NAME else _RULE
                self._add(kind, str(place.path), reach)
        return True

    def _add(self, kind: str, path: str, reach: Reach) -> None:
        """Read a file, if it exists, and the files that an AGENTS.md mentions."""
        if is_missing(path):
            return
        with self._noting_errors(path):
            place = self.workspace.locate(path)
            if not place.real_path.exists():
                return
            stack = [iter([(path, place, reach)])]  # a chain may be thousands of files long
            while stack:
                entry = next(stack[-1], None)
                if entry is None:
                    stack.pop()
                    continue
                name, place, reach = entry
                if self._why_full:
                    self._leave_out(name, self._why_full)
                    return
                with self._noting_errors(name):
                    reach.check(place)
                    if place.real_path not in self.read:
                        self.read.add(place.real_path)
                        text = self._read(kind, place, self.origin_of(place, reach))
                        if kind == _INSTRUCTIONS:
                            stack.append(self._mentioned(text, place))

    def _mentioned(self, text: str, source: Place) -> Iterator[tuple[str, Place, Reach]]:
        """Yield the files that an AGENTS.md mentions; ignore a mention of no file."""
        reach = self.of_file(source)
        for mention in find_mentions(text, most=_MOST_MENTIONED):
            for target in mention.targets:
                with suppress(FileError, OSError):
                    place = self.workspace.locate(target.path, base=source.path.parent)
                    if place.real_path.is_file():
                        yield str(place.path), place, reach
                        break

    @property
    def _why_full(self) -> str:
        """The reason why no further file is read, or an empty string."""
        if self.budget <= 0:
            return f"the limit of {_TOTAL} bytes of instructions is reached"
        if len(self.read) >= _MOST_FILES:
            return f"the limit of {_MOST_FILES} files of instructions is reached"
        return ""

    def _read(self, kind: str, place: Place, origin: Origin) -> str:
        """Add a file, if it is for this behaviour, and return its text."""
        excerpt = read_excerpt(place, size=min(_LARGEST, self.budget), checkpoint=checkpoint)
        self.budget -= len(excerpt.text.encode())
        if excerpt.left_out:
            self.notes.append(
                f"{printable(place.path)} was cut: {excerpt.left_out} bytes did not fit."
            )
        attributes = {"path": str(place.path), SOURCE: origin}
        if kind == _RULE:
            fields, text = split_front_matter(excerpt.text)
            excerpt = attrs.evolve(excerpt, text=text)
            if not self._is_for_us(fields.get("agent", ())):
                return ""
            if "model" in fields and not self._is_for_model(place, fields["model"]):
                return ""
            if has_template(text):
                self.templates.append(str(place.path))
            for key in fields:
                if key not in _RULE_KEYS and nearest_key(key, _RULE_KEYS):
                    shown = f"{printable(place.path)}: {printable(key)}"
                    self.notes.append(f"{shown}: {hint(key, _RULE_KEYS)}")
            if "paths" in fields:
                attributes["files"] = visible(", ".join(fields["paths"]))
        if excerpt.text.strip():
            marked = excerpt.marked if origin == "user" else visible(excerpt.marked)
            self.sections.append(Section(name=kind, attributes=attributes, body=(marked,)))
        return excerpt.text

    def _is_for_us(self, behaviors: Sequence[str]) -> bool:
        names = [name.strip() for each in behaviors for name in each.split(",")]
        return not names or self.behavior in (AGENT_ALIASES.get(name, name) for name in names)

    def _is_for_model(self, place: Place, patterns: Sequence[str]) -> bool:
        self.depends_on_model = True
        try:
            return any(is_in_name(each, self.model) for each in patterns[:_MOST_PATTERNS])
        except BadMatcher as error:
            self._leave_out(str(place.path), f"model: {error}")
            return False

    @contextmanager
    def _noting_errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except (FileError, OSError) as error:
            self._leave_out(path, reason_of(error))

    def _leave_out(self, path: str, reason: str) -> None:
        self.notes.append(f"{printable(path)} was left out: {reason}.")


def _is_users_own(path: Path) -> bool:
    """Return True if a file's owner is the user or root, and it is not world-writable.

    Windows has neither in a file's status.
    """
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and (
        not hasattr(os, "getuid")
        or (status.st_uid in {os.getuid(), 0} and not status.st_mode & stat.S_IWOTH)
    )
