"""The parts of a command, each with the key that an approval for the session stores.

The key of a part is its program and subcommand (`git checkout`); for a program that is not listed
(`remembered_programs`) it is the whole text of the part. The rules of this module: each part of a
pipeline or list has its own key. A part that may run a command which its words do not name has no
key. A text that cannot be parsed is one part without a key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from eca_server.agent.tools.read_only_commands import only_reads, reading_programs
from eca_server.agent.tools.remembered_programs import (
    ANY_ARGUMENTS,
    BARE_OPTIONS,
    BUILTINS,
    CODE_READERS,
    FORMS,
    NEVER,
    RUNS_PROJECT,
    SHELL_WORDS,
    Form,
)
from eca_server.agent.tools.shell_commands import SimpleCommand, assigned_name, simple_commands
from eca_server.agent.tools.shell_expansion import Unsure
from eca_server.agent.tools.shell_syntax import (
    UNKNOWN,
    Unreadable,
    Word,
    opens_no_file,
    tokenize,
)
from eca_server.printable import printable_line
from eca_server.system.child_process import find_program
from eca_server.workspace.boundary import Workspace
from eca_server.workspace.errors import FileError

_LONGEST = 4096
_LONGEST_KEY = 100
_MOST_PARTS = 50
_SHOWN = 200
_JOINS = frozenset({"", ";", "\n", "&&", "||", "|", "|&"})
_PIPES = frozenset({"|", "|&"})
_COMPOUND = frozenset(
    {"case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if"}
    | {"select", "then", "until", "while", "[[", "{", "}"}
)
_BEHIND_CD = _PIPES | {"", "&&"}
_PROGRAM = re.compile(r"[A-Za-z0-9_][\w.+-]*", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][\w:.-]*", re.ASCII)
_SHORT = re.compile(r"-([A-Za-z]+)\d*", re.ASCII)
_VERSION = re.compile(r"(?:\.exe|(?<![\d.-]))[\d.-]*$", re.ASCII)
_PLAIN = re.compile(r"[\w./:@%+,=-]+", re.ASCII)
_RUNS_ITS_VALUE = re.compile(
    r"-.*(?:exec|eval|command|cmd|program|shell|script|hook|plugin|config|rsh).*"
    r"|-[ce].*|-[a-z]{1,4}[ce]",
    re.IGNORECASE,
)


@attrs.frozen(kw_only=True)
class CommandPart:
    """One command of a pipeline or list.

    Attributes:
        words: the program and its arguments, as displayed.
        key: the key that an approval for the session stores; None: it cannot be stored.
        folder: the directory of the part; empty if unknown.
    """

    words: tuple[str, ...]
    key: str | None = None
    folder: str = ""


def command_parts(
    command: str, *, folder: str, workspace: Workspace, path: str | None
) -> tuple[CommandPart, ...]:
    """Return the parts of a command, in order; read the disk."""
    try:
        commands = _commands(command)
    except (Unreadable, Unsure):
        shown = printable_line(" ".join(command.split()), longest=_SHOWN)
        return (CommandPart(words=(shown,)),)
    programs = _Programs(workspace, path)
    return tuple(
        CommandPart(
            words=_shown_words(each),
            key=_key(each, programs, where, is_fed=before in _PIPES) if where else None,
            folder=where,
        )
        for each, where, before in _with_folders(commands, folder)
    )


def _commands(text: str) -> list[SimpleCommand]:
    """Return the commands of a plain list of commands.

    Raises:
        Unreadable, Unsure: the text has loops, conditions, brackets, comments, here documents or
            background commands, or cannot be parsed.
    """
    if len(text) > _LONGEST:
        raise Unreadable("it is too long")
    commands = list(simple_commands(tokenize(text)))
    for each in commands:
        is_compound = bool(each.words) and each.words[0].text in _COMPOUND
        is_here = any(mark.startswith("<<") for mark in each.redirects)
        if is_compound or is_here or each.operator not in _JOINS:
            raise Unreadable("it is more than a list of commands")
    commands = [each for each in commands if each.words]
    if not commands or len(commands) > _MOST_PARTS:
        raise Unreadable("it has too many parts, or none")
    commands[-1].operator = ""
    return commands


def _with_folders(
    commands: Sequence[SimpleCommand], folder: str
) -> Iterator[tuple[SimpleCommand, str, str]]:
    """Yield each command with its working directory and the operator before it.

    The directory is empty (unknown) after a command that may change it, or that may change the
    meaning of later commands.
    """
    before = ""
    for index, each in enumerate(commands):
        yield each, folder, before
        words = _arguments(each)
        name = words[0].text if words and _is_static(words[0]) else ""
        if name == "cd":
            behind = {later.operator for later in commands[index:]}
            is_certain = each.operator == "&&" and behind <= _BEHIND_CD and before not in _PIPES
            folder = _entered(words[1:], folder) if folder and is_certain else ""
        elif not _PROGRAM.fullmatch(name) or assigned_name(words[0]) or name in SHELL_WORDS:
            folder = ""
        before = each.operator


def _entered(targets: Sequence[Word], folder: str) -> str:
    """Return the directory of a `cd`, or an empty string if it is unknown."""
    if len(targets) != 1 or targets[0].active or not _is_static(targets[0]):
        return ""
    target = targets[0].text
    if not target or target.startswith("-") or ".." in target.split("/"):
        return ""
    return os.path.realpath(Path(folder, target))


@attrs.frozen
class _Programs:
    """The lookup of programs.

    Attributes:
        workspace: the files that a model may write.
        path: a value of PATH.
    """

    workspace: Workspace
    path: str | None

    def are_fixed(self, name: str) -> bool:
        """Return True if no change of the workspace can change the program of a name."""
        if name in BUILTINS:
            return True
        file = find_program(name, self.path)
        if file is None or name in RUNS_PROJECT:
            return file is not None
        try:
            place = self.workspace.locate(file)
        except FileError:
            return False
        is_ours = place.is_inside or place.escapes
        return not is_ours and (_is_listed_program(name) or not _is_barred(place.real_path.name))


def _key(command: SimpleCommand, programs: _Programs, folder: str, *, is_fed: bool) -> str | None:
    """Return the key of a command; `is_fed` if a pipe is its input."""
    words = _arguments(command)
    if not words or not _is_quiet(command) or not all(map(_is_static, words)):
        return None
    name = words[0].text
    if assigned_name(words[0]) or not _PROGRAM.fullmatch(name):
        return None
    if is_fed and not only_reads(words) and name not in ANY_ARGUMENTS:
        return None  # the input may be code: `make -f -`, a script of npm that is an interpreter
    key = _key_of(name, words, folder)
    return key if key is not None and programs.are_fixed(name) else None


def _key_of(name: str, words: Sequence[Word], folder: str) -> str | None:
    if only_reads(words):
        return f"git {_after_options(words)[0].text}" if name == "git" else name
    if name in ANY_ARGUMENTS:
        return name
    if name in FORMS:
        return _key_of_form(name, _after_options(words) if name == "git" else words[1:], folder)
    return None if _is_barred(name) else _whole_text(words)


def _is_listed_program(name: str) -> bool:
    return name in ANY_ARGUMENTS or name in FORMS or name in reading_programs()


def _is_barred(name: str) -> bool:
    """Return True if a program, in any spelling or version of its name, never has a key."""
    folded = name.casefold()
    names = {folded, _VERSION.sub("", folded)}
    return (
        not names.isdisjoint(NEVER)
        or any(map(_is_listed_program, names))
        or folded.startswith(("git-", "python"))
    )


def _key_of_form(name: str, arguments: Sequence[Word], folder: str) -> str | None:
    """Return the program and the subcommand whose form matches the arguments, or None."""
    texts = [word.text for word in arguments]
    for subcommand, form in FORMS[name].items():
        parts = subcommand.split()
        if texts[: len(parts)] != parts:
            continue
        rest = arguments[len(parts) :]
        if form.needs_name:
            if not rest or not _NAME.fullmatch(rest[0].text) or rest[0].active:
                return None
            parts, rest = [*parts, rest[0].text], rest[1:]
        return " ".join([name, *parts]) if _fits(form, rest, folder) else None
    return None


def _fits(form: Form, words: Sequence[Word], folder: str) -> bool:
    for word in words:
        if word.active & set("*?[") and (word.text[0] in "*?[-" or form.words is not None):
            return False  # a file may be named like an option
        if word.text.startswith("-") and word.text != "-":
            if not _is_listed(word.text, form.options):
                return False
        elif not _is_listed_word(word.text, form, folder):
            return False
    return True


def _is_listed_word(text: str, form: Form, folder: str) -> bool:
    if form.words is not None and not form.words.fullmatch(text):
        return False
    if form.reads_options and text.startswith("@"):
        return False
    return not (form.refuses_files and os.path.lexists(Path(folder, text)))


def _is_listed(text: str, options: frozenset[str]) -> bool:
    if text.partition("=")[0] in options:
        return True
    letters = _SHORT.fullmatch(text)
    return letters is not None and all(f"-{letter}" in options for letter in letters[1])


def _whole_text(words: Sequence[Word]) -> str | None:
    """Return the text of a part, unless a word of it may be code or a list of options."""
    texts = [word.text for word in words]
    if any(word.active or not _PLAIN.fullmatch(word.text) for word in words):
        return None
    if any(_RUNS_ITS_VALUE.fullmatch(text) for text in texts[1:]):
        return None
    if any(map(_reads_code, texts[1:])):
        return None
    key = " ".join(texts)
    return key if len(key) <= _LONGEST_KEY else None


def _reads_code(text: str) -> bool:
    name = _VERSION.sub("", text.rpartition("/")[2].casefold())
    return name in CODE_READERS or name.startswith("python")


def _after_options(words: Sequence[Word]) -> Sequence[Word]:
    """Return the words of a Git command from its subcommand on."""
    first = next(
        (at for at, word in enumerate(words[1:], 1) if word.text not in BARE_OPTIONS), len(words)
    )
    return words[first:]


def _arguments(command: SimpleCommand) -> Sequence[Word]:
    return [word for at, word in enumerate(command.words) if at not in command.targets]


def _is_static(word: Word) -> bool:
    """Return True if the shell expands nothing in a word but globs."""
    return not word.nested and UNKNOWN not in word.text and not word.active & set("$`{}")


def _is_quiet(command: SimpleCommand) -> bool:
    """Return True if the redirections of a command access no file."""
    targets = [command.words[at] for at in sorted(command.targets)]
    if len(targets) != len(command.redirects):
        return False
    return all(map(opens_no_file, command.redirects, targets))


def _shown_words(command: SimpleCommand) -> tuple[str, ...]:
    operators = dict(zip(sorted(command.targets), command.redirects, strict=False))
    return tuple(
        f"{operators[index]} {_shown(word)}" if index in operators else _shown(word)
        for index, word in enumerate(command.words)
    )


def _shown(word: Word) -> str:
    return printable_line(word.text.replace(UNKNOWN, "$..."), longest=_SHOWN)
