"""The values of a command's variables, as far as its text determines them.

The rule of this module: a variable has the value of the environment only if nothing in the text can
change it. The variable of a `for` over plain words has each of the words in turn.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import attrs

from eca_server.agent.tools.shell_commands import SimpleCommand, simple_commands
from eca_server.agent.tools.shell_expansion import Unsure
from eca_server.agent.tools.shell_syntax import UNKNOWN, Token, Variables, Word, tokenize

FUNCTION = "()"
"""A marker among the changing names: the text defines a function."""

_MOST_ROUNDS = 32
_MOST_TOKENS = 5_000
_NAME = re.compile(r"\w+", re.ASCII)
_OF_THE_SHELL = frozenset(
    {"COLUMNS", "COMP_WORDBREAKS", "COPROC", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "EUID"}
    | {"FUNCNAME", "GROUPS", "HISTCMD", "HOSTNAME", "HOSTTYPE", "IFS", "LINENO", "LINES"}
    | {"MACHTYPE", "MAPFILE", "OLDPWD", "OPTARG", "OPTERR", "OPTIND", "OSTYPE", "PATH", "PPID"}
    | {"PIPESTATUS", "PS1", "PS2", "PS3", "PS4", "PWD", "RANDOM", "READLINE_LINE", "REPLY"}
    | {"SECONDS", "SHELL", "SHELLOPTS", "SHLVL", "SRANDOM", "TERM", "UID", "_"}
)
_KNOWN_OF_THE_SHELL = frozenset({"PWD", "PATH", "SHELL", "TERM", "HOSTNAME", "COLUMNS", "LINES"})
_CHANGES_ALL = frozenset({"eval", "source", ".", "IFS", "BASH_ENV", "set"})
_CHANGES_FOLDER = frozenset({"cd", "pushd", "popd", "chdir"})
_SETS_BY_NAME = frozenset(
    {"declare", "export", "getopts", "let", "local", "mapfile", "read", "readarray", "readonly"}
    | {"typeset", "unset", "wait"}
)
_SETS_OPTIONS = ("BASHOPTS", "SHELLOPTS", "GLOBIGNORE", "BASH_ENV")


def all_variables(
    command: str, values: Mapping[str, str], *, outer: Variables | None = None
) -> Iterator[Variables]:
    """Yield the variables of a command: once, or once for each iteration of its loops.

    Raises:
        Unreadable, Unsure: the command cannot be parsed.
    """
    tokens = tokenize(command)
    if len(tokens) > _MOST_TOKENS:
        raise Unsure(f"it has more than {_MOST_TOKENS} words")
    commands = list(simple_commands(tokens))
    words = list(_words(commands))
    names = Counter(name for word in words for name in _NAME.findall(word.text))
    texts = {word.text for word in words}
    is_known = (
        not texts & _CHANGES_ALL
        and not names.keys() & {"IFS", "BASH_ENV"}
        and not any(values.get(name) for name in _SETS_OPTIONS)
        and not (texts & _SETS_BY_NAME and any(word.active & set("*?[") for word in words))
        and (outer is None or outer.is_known)
    )
    changing = set(names) | (outer.changing if outer else set())
    unknown = (_OF_THE_SHELL - (_KNOWN_OF_THE_SHELL & values.keys())) | changing
    if texts & _CHANGES_FOLDER or (outer is not None and outer.value("PWD", 0) == UNKNOWN):
        unknown |= {"PWD"}
    if _defines_function(tokens):
        unknown |= {FUNCTION}
    known = Variables(values=values, changing=frozenset(unknown), is_known=is_known)
    loops = _loops(commands, names) if is_known and outer is None else {}
    rounds = list(itertools.islice(itertools.product(*loops.values()), _MOST_ROUNDS + 1))
    if len(rounds) > _MOST_ROUNDS:
        yield known
        return
    for choice in rounds:
        yield attrs.evolve(known, loops=dict(zip(loops, choice, strict=True)))


def _words(commands: Sequence[SimpleCommand]) -> Iterator[Word]:
    for command in commands:
        for word in command.words:
            yield word
            for code in word.nested:
                yield from _words(list(simple_commands(code)))


def _defines_function(tokens: Sequence[Token]) -> bool:
    return any(
        (first.text, second.text) == ("(", ")")
        for first, second in itertools.pairwise(tokens)
        if not isinstance(first, Word) and not isinstance(second, Word)
    )


def _loops(
    commands: Sequence[SimpleCommand], names: Counter[str]
) -> dict[str, list[tuple[str, int, int]]]:
    """Return the variables of loops over plain words, each with its values and their scope."""
    loops: dict[str, list[tuple[str, int, int]]] = {}
    for index, command in enumerate(commands):
        words = command.words[command.program :]
        if [word.text for word in words[:1]] != ["for"] or words[0].is_quoted or command.targets:
            continue
        if len(words) < 4 or words[2].text != "in" or names[words[1].text] != 1:
            continue
        values = words[3:]
        is_plain = not any(UNKNOWN in word.text or "~" in word.active for word in values)
        end = _first_done(commands[index + 1 :])
        if is_plain and end is not None and _NAME.fullmatch(words[1].text):
            start = values[-1].at
            loops[words[1].text] = [
                (value, start, end) for value in dict.fromkeys(word.text for word in values)
            ]
    return loops


def _first_done(commands: Sequence[SimpleCommand]) -> int | None:
    for command in commands:
        for word in command.words[:1]:
            if word.text == "done" and not word.is_quoted:
                return word.at
    return None
