"""A walk over the commands of a text, for the shell's possible directories and the named paths.

The rule of this module: a word with an unknown expansion, and code that cannot be parsed, is
recorded as unknown. A `cd` counts as executed only if no later command runs without it.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence

import attrs

from eca_server.agent.tools.shell_commands import (
    RUNS_CODE,
    SimpleCommand,
    assigned_name,
    simple_commands,
)
from eca_server.agent.tools.shell_paths import Reading, certain_paths, possible_paths
from eca_server.agent.tools.shell_syntax import UNKNOWN, Token, Variables, Word, tokenize
from eca_server.agent.tools.shell_variables import EVALUATES, FUNCTION, all_variables

_SHELLS = frozenset({"ash", "bash", "dash", "ksh", "mksh", "rbash", "sh", "zsh"})
_SAME_SHELL = frozenset({"eval", "trap", "mapfile", "readarray", "compgen", "complete", "bind"})
_RUN_A_SHELL = frozenset({"entr", "flock", "parallel", "script", "ssh", "su", "watch"})
_WRAPPERS = frozenset(
    {"!", "-exec", "-execdir", "-ok", "chroot", "command", "doas", "env", "exec", "nice", "nohup"}
    | {"busybox", "coproc", "setsid", "stdbuf", "sudo", "time", "timeout", "unshare", "xargs"}
)
_SOURCES = frozenset({"source", "."})
_CODE_LIKE = re.compile(r"[^\w./:@%+,=-]")

MOST_PATHS = 1_000
_MOST_READINGS = 10_000
_MOST_FOLDERS = 16
_DEEPEST = 4
_SHOWN = 60
_OTHER_TILDE = re.compile(r"(?:^|[:=])~[+\-\d]")
_SUBSCRIPT = re.compile(r"\w\[")
_CODE = re.compile(r"\$[({]|`")
_RUNS_VALUE = re.compile(rf"{UNKNOWN}\{{[^}}]*@P\}}|{UNKNOWN}\{{!BASH")  # as a prompt, as a name
_SHELL_OPTION = re.compile(r"extglob|dotglob|nullglob|globstar|nocaseglob|nocasematch|GLOBIGNORE")
_MAGIC = frozenset("*?[")
_CHANGES_FOLDER = frozenset({"cd", "pushd", "popd", "chdir"})
_BEGINS_COMMAND = frozenset({"", ";", "\n", "&", "&&", "("})
_CHANGES_COMMANDS = frozenset({"function", "enable", "hash", "alias", "unalias", FUNCTION})
_REPEATS = frozenset({"for", "function", "select", "trap", "until", "while", FUNCTION})
_FOLDER_OPTIONS = frozenset({"-C", "--chdir", "--directory", "--cwd"})
_SED = re.compile(r"(?:.*/)?g?sed", re.DOTALL)


@attrs.frozen(kw_only=True)
class Evaluated:
    """A text that is evaluated as code: `bash -c '...'`, `eval`, `trap`.

    Code that is not in the text of the command (a shell that reads its input) is unknown.

    Attributes:
        code: the text; None: it is not in the command.
        is_same_shell: whether it may change the working directory of the shell.
    """

    program: str
    code: str | None
    is_same_shell: bool = False


def evaluated_code(command: SimpleCommand) -> Iterator[Evaluated]:
    """Yield the texts of a command that are evaluated as code."""
    words = [word for at, word in enumerate(command.words) if at not in command.targets]
    for index, word in enumerate(words):
        if assigned_name(word) in RUNS_CODE:
            yield Evaluated(program=f"a shell with {assigned_name(word)}", code=None)
        name = word.text.rpartition("/")[2]
        behind = words[index + 1 :]
        if name in _SAME_SHELL:
            yield from _arguments(name, behind, is_same_shell=True)
        elif name in _RUN_A_SHELL:
            yield from _arguments(name, behind)
        elif name in _SHELLS:
            yield from _arguments(name, behind)
            before = {each.text for each in words[:index]}
            is_run = _is_named(command, word) or bool(before & _WRAPPERS)
            if is_run and all(each.text.startswith(("-", "+")) for each in behind):
                yield Evaluated(program=name, code=None)
        elif name in _SOURCES and _is_named(command, word):
            file = behind[0].text if behind else "/dev/stdin"
            if file.startswith(("/dev/", "/proc/")) or file == "-":
                yield Evaluated(program=name, code=None)


def _is_named(command: SimpleCommand, word: Word) -> bool:
    return command.program < len(command.words) and command.words[command.program] is word


def _arguments(name: str, words: list[Word], *, is_same_shell: bool = False) -> Iterator[Evaluated]:
    texts = [word.text for word in words]
    if name in {"eval", "ssh", "watch"} and len(texts) > 1:
        texts = [" ".join(texts)]
    for text in texts:
        if _CODE_LIKE.search(text) or name == "eval":
            yield Evaluated(program=name, code=text, is_same_shell=is_same_shell)


def _has_code_in_subscript(text: str) -> bool:
    """Return whether code is between a name with `[` and the next `]`, in linear time."""
    return any(
        begin is not None and _CODE.search(part, begin.end())
        for part in text.split("]")
        for begin in [_SUBSCRIPT.search(part)]
    )


class Walk:
    """The possible directories of a shell, command by command, and the paths that it names."""

    def __init__(self, folders: Sequence[str], depth: int = 0) -> None:
        self.paths: dict[str, None] = {}
        self.unknown: list[str] = []
        self.globs: set[str] = set()
        self.readings: dict[Reading, None] = {}  # paths that only the disk can confirm
        self.here = list(folders)
        self.reached = set(folders)
        self.repeats = False  # a part of the text may run again, in a different directory
        self.if_it_failed: list[str] = []  # its directories if a `cd` before this `&&` failed
        self.before = ""  # the operator before this command
        self.is_itself = True  # `cd` is the shell's builtin
        self.depth = depth
        self.variables = Variables(values={}, is_known=False)

    @property
    def is_full(self) -> bool:
        """True if the commands name more paths than can be checked."""
        return len(self.paths) > MOST_PATHS or len(self.readings) > _MOST_READINGS

    def restart(self, folders: Sequence[str]) -> None:
        """Restart in these directories; retain the named paths."""
        self.here, self.if_it_failed, self.before = list(folders), [], ""

    def folders_above(self, folders: Sequence[str]) -> list[str]:
        """Return the possible directories when a part of the text runs again.

        A directory below one of `folders` is left out: relative paths from it lead less far up.
        """
        if not self.repeats:
            return []
        known = [f"{_normal(folder)}/" for folder in folders]
        reached = sorted({_normal(folder) for folder in self.reached})
        return [each for each in reached if not f"{each}/".startswith(tuple(known))]

    def follow(self, tokens: Sequence[Token], variables: Variables) -> None:
        """Process the commands of a text.

        Raises:
            Unreadable, Unsure: a part of it cannot be parsed.
        """
        self.variables = variables
        if EVALUATES in variables.changing:
            self.unknown.append("code in a variable that the shell evaluates")
        if variables.changing & _CHANGES_COMMANDS:
            self.is_itself = False
        if variables.changing & _REPEATS:
            self.repeats = True
        for command in simple_commands(tokens):
            if self.is_full:
                return
            self._process(command)

    def _process(self, command: SimpleCommand) -> None:
        words = command.words
        here = self.here
        self.here = _unique(here, self._folders_of_options(words))
        is_sed = any(_SED.fullmatch(word.text) for word in words)
        for index, word in enumerate(words):
            self._judge(command, index)
            self._name(word, is_target=index in command.targets, is_sed=is_sed)
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
        """Record a word with an unknown meaning."""
        word = command.words[index]
        shown = word.text.replace(UNKNOWN, "$")[:_SHOWN]
        runs_value = _RUNS_VALUE.search(word.text)
        if runs_value or (UNKNOWN in word.text and not command.only_prints(index)):
            self.unknown.append(f"the unknown expansion of {shown!r}")
        if "~" in word.active and (
            _OTHER_TILDE.search(word.text) or self.variables.value("HOME", word.at) == UNKNOWN
        ):
            self.unknown.append(f"the unknown expansion of {shown!r}")
        if index == command.program and word.active & _MAGIC and word.text not in {"[", "[["}:
            self.unknown.append(f"a program named by a glob: {shown!r}")
        if _has_code_in_subscript(word.text):
            self.unknown.append(f"code in a subscript: {shown!r}")
        if _SHELL_OPTION.search(word.text) or word.text == "shopt":
            self.unknown.append(f"a change of the shell's expansion: {shown!r}")

    def _folders_of_options(self, words: Sequence[Word]) -> list[str]:
        """Return the directories that an option (`-C`) makes a program start in."""
        targets = [
            after.text
            for option, after in itertools.pairwise(words)
            if option.text in _FOLDER_OPTIONS
        ]
        return [_joined(folder, target) for target in targets for folder in self.here]

    def _enter(self, tokens: Sequence[Token]) -> None:
        """Process the code of a substitution, which has its own shell."""
        inner = Walk(self.here, self.depth)
        self._share(inner)
        inner.is_itself = self.is_itself
        inner.follow(tokens, self.variables)

    def _evaluate(self, evaluated: Evaluated) -> None:
        """Process a text that the command evaluates as code."""
        if evaluated.code is None or UNKNOWN in evaluated.code or self.depth >= _DEEPEST:
            self.unknown.append(f"code that {evaluated.program} runs")
            return
        inner = Walk(self.here, self.depth + 1)
        self._share(inner)
        known = all_variables(evaluated.code, self.variables.values, outer=self.variables)
        for variables in known:
            inner.follow(tokenize(evaluated.code, variables), variables)
        self.repeats |= inner.repeats
        if evaluated.is_same_shell:
            self.here = _unique(self.here, inner.here)

    def _share(self, inner: Walk) -> None:
        inner.paths, inner.unknown, inner.globs = self.paths, self.unknown, self.globs
        inner.reached, inner.readings = self.reached, self.readings

    def _name(self, word: Word, *, is_target: bool, is_sed: bool) -> None:
        is_glob = bool(word.active & _MAGIC) and word.text not in {"[", "[["}
        for text, option in possible_paths(word.text, is_sed=is_sed):
            if self.is_full:
                return
            for reading in (Reading(folder, text, option) for folder in self.here):
                self.readings[reading] = None
                if is_glob:
                    self.globs.add(reading.path)
        for text in certain_paths(word.text, is_target=is_target, is_sed=is_sed):
            if self.is_full:
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
            self.unknown.append("cd to an unknown folder")
            return
        targets = _unique(
            spelling for folder in self.here for spelling in _spellings(_joined(folder, target))
        )
        self.reached.update(targets)
        for folder in targets:
            self._add(folder, not _MAGIC.isdisjoint(folder))
        if is_certain:
            self.if_it_failed = _unique(self.if_it_failed, self.here)
            self.here = targets
        else:
            self.here = _unique(self.here, targets)


def _joined(folder: str, target: str) -> str:
    return target if target.startswith(("/", "~")) else f"{folder}/{target}"


def _spellings(path: str) -> Iterator[str]:
    """Yield a directory as written, and with `..` removed textually, as `cd` does."""
    yield path
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] not in {"", "~", ".."}:
            parts.pop()
        elif part != ".":
            parts.append(part)
    if ".." in path:
        yield "/".join(parts) or "/"


def _is_option(text: str) -> bool:
    return len(text) > 1 and text[0] in "-+"


def _unique(*groups: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(item for group in groups for item in group))


def _normal(folder: str) -> str:
    return os.path.normpath(folder).rstrip("/")
