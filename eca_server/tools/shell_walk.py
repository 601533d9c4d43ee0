"""A walk over the commands of a text: the folders a shell may be in, and the paths it names.

The rule of this module: a word whose expansion is not known, and code that cannot be followed, is
noted as unknown. A `cd` counts as done only where nothing after it runs without it.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from eca_server.tools.shell_code import Evaluated, evaluated_code
from eca_server.tools.shell_commands import SimpleCommand, simple_commands
from eca_server.tools.shell_expansion import matches_parent
from eca_server.tools.shell_syntax import UNKNOWN, Token, Variables, Word, cut
from eca_server.tools.shell_variables import FUNCTION, all_variables

__all__ = ["MOST_PATHS", "Walk"]

MOST_PATHS = 1_000
_MOST_FOLDERS = 16
_DEEPEST = 4
_SHOWN = 60
_URL = re.compile(r"\b(?!file:)[a-zA-Z][a-zA-Z0-9+.-]{0,15}://\S*")
_FILE_URL = re.compile(r"\bfile://(?:localhost)?")
# What follows one of these may be a path: `--file=/x`, `a:/x`, `{/x,/y}`, a program in quotes.
_EDGES = re.compile(r"[\s'\"`=:,;|&()\[\]{}<>@#!]+")
_OTHER_TILDE = re.compile(r"(?:^|[:=])~[+\-\d]")
_CODE_IN_SUBSCRIPT = re.compile(r"[A-Za-z_]\w*\[[^\]]*(?:\$[({]|`)")
_SHELL_OPTION = re.compile(r"extglob|dotglob|nullglob|globstar|nocaseglob|nocasematch|GLOBIGNORE")
_MAGIC = frozenset("*?[")
_CHANGES_FOLDER = frozenset({"cd", "pushd", "popd", "chdir"})
_BEGINS_COMMAND = frozenset({"", ";", "\n", "&", "&&", "("})
_CHANGES_COMMANDS = frozenset({"function", "enable", "hash", "alias", "unalias", FUNCTION})
_REPEATS = frozenset({"for", "function", "select", "trap", "until", "while", FUNCTION})
_FOLDER_OPTIONS = frozenset({"-C", "--chdir", "--directory", "--cwd"})


class Walk:
    """The folders a shell may be in, command after command, and what it names on the way."""

    def __init__(self, folders: Sequence[str], depth: int = 0) -> None:
        self.paths: dict[str, None] = {}
        self.untold: list[str] = []
        self.globs: set[str] = set()
        self.here = list(folders)
        self.reached = set(folders)
        self.repeats = False  # a part of the text may run again, in another folder
        self.if_it_failed: list[str] = []  # where it is if a `cd` before this `&&` failed
        self.before = ""  # the operator before this command
        self.is_itself = True  # `cd` is the shell's own
        self.depth = depth
        self.variables = Variables(values={}, is_known=False)

    def restart(self, folders: Sequence[str]) -> None:
        """Begin once more in these folders, and keep what was named."""
        self.here, self.if_it_failed, self.before = list(folders), [], ""

    def folders_above(self, folders: Sequence[str]) -> list[str]:
        """Return the folders that the shell may be in when a part of the text runs again.

        A folder below one of `folders` is left out: every path from there leads less far up.
        """
        if not self.repeats:
            return []
        known = [f"{_normal(folder)}/" for folder in folders]
        reached = sorted({_normal(folder) for folder in self.reached})
        return [each for each in reached if not f"{each}/".startswith(tuple(known))]

    def follow(self, tokens: Sequence[Token], variables: Variables) -> None:
        """Take the commands of a text.

        Raises:
            Unreadable, Unsure: a part of it cannot be followed.
        """
        self.variables = variables
        if variables.changing & _CHANGES_COMMANDS:
            self.is_itself = False
        if variables.changing & _REPEATS:
            self.repeats = True
        for command in simple_commands(tokens):
            if len(self.paths) > MOST_PATHS:
                return
            self._pass_by(command)

    def _pass_by(self, command: SimpleCommand) -> None:
        words = command.words
        here = self.here
        self.here = _unique(here, self._folders_of_options(words))
        for index, word in enumerate(words):
            self._judge(command, index)
            self._name(word)
            for code in word.nested:
                self._enter(code)
        self.here = here
        for evaluated in evaluated_code(command):
            self._evaluate(evaluated)
        for index, word in enumerate(words):
            if word.text in _CHANGES_FOLDER:
                targets = [each.text for each in words[index + 1 :] if not _is_option(each.text)]
                alone = index == 0 and self.before in _BEGINS_COMMAND and self.is_itself
                self._change(targets[0] if targets else "~", alone and command.operator == "&&")
        if command.operator not in {"&&", "|", "|&"}:
            self.here = _unique(self.here, self.if_it_failed)
            self.if_it_failed = []
        self.before = command.operator

    def _judge(self, command: SimpleCommand, index: int) -> None:
        """Note a word whose meaning is not known."""
        word = command.words[index]
        shown = word.text.replace(UNKNOWN, "$")[:_SHOWN]
        if UNKNOWN in word.text and not command.only_prints(index):
            self.untold.append(f"what the shell makes of {shown!r}")
        if "~" in word.active and (
            _OTHER_TILDE.search(word.text) or self.variables.value("HOME", word.at) == UNKNOWN
        ):
            self.untold.append(f"what the shell makes of {shown!r}")
        if index == command.program and word.active & _MAGIC and word.text not in {"[", "[["}:
            self.untold.append(f"a program that a glob names: {shown!r}")
        if _CODE_IN_SUBSCRIPT.search(word.text):
            self.untold.append(f"code in a subscript: {shown!r}")
        if _SHELL_OPTION.search(word.text) or word.text == "shopt":
            self.untold.append(f"a change of how the shell expands: {shown!r}")

    def _folders_of_options(self, words: Sequence[Word]) -> list[str]:
        """The folders that an option (`-C`) makes a program start in."""
        targets = [
            after.text
            for option, after in itertools.pairwise(words)
            if option.text in _FOLDER_OPTIONS
        ]
        return [_joined(folder, target) for target in targets for folder in self.here]

    def _enter(self, tokens: Sequence[Token]) -> None:
        """Follow the code of a substitution; it has a shell of its own."""
        inner = Walk(self.here, self.depth)
        inner.paths, inner.untold, inner.globs = self.paths, self.untold, self.globs
        inner.reached, inner.is_itself = self.reached, self.is_itself
        inner.follow(tokens, self.variables)

    def _evaluate(self, evaluated: Evaluated) -> None:
        """Follow a text that the command reads as code."""
        if evaluated.code is None or UNKNOWN in evaluated.code or self.depth >= _DEEPEST:
            self.untold.append(f"code that {evaluated.program} runs")
            return
        inner = Walk(self.here, self.depth + 1)
        inner.paths, inner.untold, inner.globs = self.paths, self.untold, self.globs
        inner.reached = self.reached
        known = all_variables(evaluated.code, self.variables.values, outer=self.variables)
        for variables in known:
            inner.follow(cut(evaluated.code, variables), variables)
        self.repeats |= inner.repeats
        if evaluated.is_same_shell:
            self.here = _unique(self.here, inner.here)

    def _name(self, word: Word) -> None:
        is_glob = bool(word.active & _MAGIC) and word.text not in {"[", "[["}
        for text in _candidates(word.text):
            if len(self.paths) > MOST_PATHS:
                return
            if text.startswith("/"):
                self._add(text, is_glob)
                continue
            if text.startswith("~"):
                self._add(text, is_glob)
            for folder in self.here:
                if not text.startswith("~") or "~" not in word.active:
                    self._add(f"{folder}/{text}", is_glob or not _MAGIC.isdisjoint(folder))

    def _add(self, path: str, is_glob: bool) -> None:
        self.paths[path] = None
        if is_glob:
            self.globs.add(path)

    def _change(self, target: str, is_certain: bool) -> None:
        searches = not target.startswith(("/", ".", "~")) and (
            self.variables.value("CDPATH", 0) != ""
        )
        is_lost = UNKNOWN in target or target == "-" or searches
        if is_lost or len(self.here) > _MOST_FOLDERS:
            self.untold.append("cd to an unknown folder")
            return
        moved = _unique(
            spelling for folder in self.here for spelling in _spellings(_joined(folder, target))
        )
        self.reached.update(moved)
        for folder in moved:
            self._add(folder, not _MAGIC.isdisjoint(folder))
        if is_certain:
            self.if_it_failed = _unique(self.if_it_failed, self.here)
            self.here = moved
        else:
            self.here = _unique(self.here, moved)


def _joined(folder: str, target: str) -> str:
    return target if target.startswith(("/", "~")) else f"{folder}/{target}"


def _spellings(path: str) -> Iterator[str]:
    """A folder by its links, and as `cd` takes `..`: by the text alone."""
    yield path
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] not in {"", "~", ".."}:
            parts.pop()
        elif part != ".":
            parts.append(part)
    if ".." in path:
        yield "/".join(parts) or "/"


def _candidates(word: str) -> Iterator[str]:
    """What of a word may be a path; where only the shell knows the rest, the part before it."""
    text = _FILE_URL.sub(" ", _URL.sub(" ", word))
    for piece in (text, *_EDGES.split(text)):
        # `-C/x` and `--x`: what is behind an option's name may be a path as well.
        for part in (piece, piece[2:], piece.lstrip("-+")) if _is_option(piece) else (piece,):
            # A variable at the front may be empty.
            path = part.lstrip(UNKNOWN) if part.lstrip(UNKNOWN).startswith("/") else part
            path = path.partition(UNKNOWN)[0]
            if path:
                yield path
                yield from _leading_up(path)


def _leading_up(path: str) -> Iterator[str]:
    """The path with `..` for each glob that also matches `..`, as `.*` and `.?` do."""
    parts = path.split("/")
    up = [".." if matches_parent(part) else part for part in parts]
    if up != parts:
        yield "/".join(up)


def _is_option(text: str) -> bool:
    return len(text) > 1 and text[0] in "-+"


def _unique(*groups: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(item for group in groups for item in group))


def _normal(folder: str) -> str:
    return os.path.normpath(folder).rstrip("/")
