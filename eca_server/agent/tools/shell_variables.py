"""The values of a command's variables, as far as its text determines them.

The rule of this module: a variable has the value of the environment only if nothing in the text can
change it. The variable of a `for` over plain words has each of the words in turn.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

import attrs

from eca_server.agent.tools.shell_commands import (
    SimpleCommand,
    assigned_name,
    simple_commands,
)
from eca_server.agent.tools.shell_expansion import Unsure
from eca_server.agent.tools.shell_syntax import (
    UNKNOWN,
    Operator,
    Token,
    Variables,
    Word,
    tokenize,
)

FUNCTION = "()"
"""A marker among the changing names: the text defines a function."""

EVALUATES = "$(())"
"""A marker among the changing names: the text evaluates a variable whose value may be code."""

_MAY_HAVE_CODE = "=$()"
"""A marker among the changing names: the text sets a variable to a value that may be code."""

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
_SETS_ANY_VALUE = frozenset({"coproc", "eval", "getopts", "mapfile", "read", "readarray", "source"})
_CALLS = frozenset({".", "builtin", "command"})
_ASSIGNS_DEFAULT = re.compile(rf"{UNKNOWN}\{{\w+:?=[^}}]*[\[{UNKNOWN}]")
_DECLARES = frozenset({"declare", "local", "typeset", "readonly", "export"})
_INTEGER = re.compile(r"-[A-Za-z]*i[A-Za-z]*", re.ASCII)
_COMPARES = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"})
_TAKES_NAMES = frozenset({"[", "declare", "local", "printf", "read", "test", "typeset", "unset"})
_SUBSCRIPT = re.compile(r"\w+\[[^\]]*[A-Za-z_\0]")
_ITEM = re.compile(r"\w+\[.*\]\+?=", re.DOTALL)
_BEHIND_OPERANDS = frozenset(
    {"]", "=", "==", "!=", "<", ">", "-a", "-o", "-nt", "-ot", "-ef"}
    | {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"}
)
_LAST_ARGUMENT = re.compile(r"(?<!\w)_(?!\w)")
_IDENTIFIER = re.compile(r"[A-Za-z_]")
_EVALUATED = re.compile(
    rf"{UNKNOWN}\{{(?:!\w|(?:\w+|[@*])(?:\[[^@*\]]*[A-Za-z_]|:[^-=?+}}]*[A-Za-z_]))"
)
"""`${!x}`, `${a[x]}` and `${a:x}`."""

_SETS_OPTIONS = ("BASHOPTS", "SHELLOPTS", "GLOBIGNORE", "BASH_ENV")


@attrs.frozen(eq=False)
class _Script:
    """A parsed command; `nested` are the commands in its substitutions."""

    text: str
    tokens: Sequence[Token]
    commands: Sequence[SimpleCommand]
    nested: Sequence[SimpleCommand]

    @cached_property
    def words(self) -> Sequence[Word]:
        """The words of all commands."""
        return [word for each in (*self.commands, *self.nested) for word in each.words]

    @cached_property
    def texts(self) -> AbstractSet[str]:
        """The texts of those words."""
        return {word.text for word in self.words}

    @cached_property
    def names(self) -> Counter[str]:
        """The names in those words, each with its number."""
        return Counter(name for word in self.words for name in _NAME.findall(word.text))


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
    script = _Script(command, tokens, commands, list(_nested(commands)))
    is_known = (outer is None or outer.is_known) and not _may_change_all(script, values)
    changing = script.names.keys() | (outer.changing if outer else set())
    unknown = (_OF_THE_SHELL - (_KNOWN_OF_THE_SHELL & values.keys())) | changing
    unknown |= _markers(script, changing)
    if script.texts & _CHANGES_FOLDER or (outer is not None and outer.value("PWD", 0) == UNKNOWN):
        unknown |= {"PWD"}
    known = Variables(values=values, changing=unknown, is_known=is_known)
    loops = _loops(script.commands, script.names) if is_known and outer is None else {}
    rounds = list(itertools.islice(itertools.product(*loops.values()), _MOST_ROUNDS + 1))
    if len(rounds) > _MOST_ROUNDS:
        yield known
        return
    for choice in rounds:
        yield attrs.evolve(known, loops=dict(zip(loops, choice, strict=True)))


def _nested(commands: Sequence[SimpleCommand]) -> Iterator[SimpleCommand]:
    """Yield the commands in the substitutions of the commands' words."""
    for command in commands:
        for word in command.words:
            for code in word.nested:
                inner = list(simple_commands(code))
                yield from inner
                yield from _nested(inner)


def _may_change_all(script: _Script, values: Mapping[str, str]) -> bool:
    """Return True if a command may change variables that it does not name."""
    has_patterns = any(word.active & set("*?[") for word in script.words)
    return bool(
        script.texts & _CHANGES_ALL
        or script.names.keys() & {"IFS", "BASH_ENV"}
        or any(values.get(name) for name in _SETS_OPTIONS)
        or (script.texts & _SETS_BY_NAME and has_patterns)
    )


def _markers(script: _Script, changing: AbstractSet[str]) -> set[str]:
    """Return the markers for a command; `changing` has those of the text around it."""
    markers = set()
    if _defines_function(script.tokens):
        markers.add(FUNCTION)
    all_commands = (*script.commands, *script.nested)
    if _LAST_ARGUMENT.search(script.text) or any(map(_may_set_code, all_commands)):
        markers.add(_MAY_HAVE_CODE)
    may_have_code = _MAY_HAVE_CODE in markers | changing
    if _evaluates_arguments(script) or (may_have_code and _evaluates_names(script)):
        markers.add(EVALUATES)
    return markers


def _may_set_code(command: SimpleCommand) -> bool:
    """Return True if a command may set a variable to a value with a subscript (`a[$(x)]`).

    The shell runs the code in it when it evaluates the variable as a number or as a name.
    """
    texts = {word.text for word in command.words}
    if texts & _SETS_ANY_VALUE or (command.name in _CALLS and "." in texts):
        return True
    if "printf" in texts and any(text.startswith("-v") for text in texts):
        return True
    is_loop = command.name in {"for", "select"}
    for word in command.words:
        name = assigned_name(word)
        value = word.text.partition("=")[2] if name else word.text if is_loop else ""
        if "[" in value or (UNKNOWN in value and not _is_number(word, value)):
            return True
        if _ASSIGNS_DEFAULT.search(word.text):
            return True
    return False


def _is_number(word: Word, value: str) -> bool:
    """Return True if a value is the result of one arithmetic expression."""
    return value == UNKNOWN and len(word.nested) == 1 and word.nested[0][:1] == (Operator("#"),)


def _evaluates_arguments(script: _Script) -> bool:
    """Return True if the shell evaluates arguments (`$1`), which may be code together."""
    return any(each.text.startswith("$") for word in script.words for each in _arithmetic(word))


def _evaluates_names(script: _Script) -> bool:
    """Return True if the shell may evaluate a variable as a number or as a name."""
    texts = script.texts
    operators = [None if isinstance(each, Word) else each for each in script.tokens]
    if any(
        first is not None and second is not None and first.text == second.text == "("
        for first, second in itertools.pairwise(operators)
    ):
        return True
    is_declared = not texts.isdisjoint(_DECLARES) and any(map(_INTEGER.fullmatch, texts))
    if is_declared or "let" in texts or ("[[" in texts and texts & _COMPARES):
        return True
    takes_names = not texts.isdisjoint(_TAKES_NAMES)
    return (
        any(
            _EVALUATED.search(word.text)
            or (_SUBSCRIPT.match(word.text) and (takes_names or _ITEM.match(word.text)))
            or any(_IDENTIFIER.match(each.text) for each in _arithmetic(word))
            for word in script.words
        )
        or any(_may_take_name(each, script.text) for each in script.commands)
        or any(_may_take_name(each) for each in script.nested)
    )


def _arithmetic(word: Word) -> Iterator[Token]:
    """Yield the names in the arithmetic expressions of a word."""
    for code in word.nested:
        if code[:1] == (Operator("#"),):
            yield from code[1:]


def _may_take_name(command: SimpleCommand, text: str = "") -> bool:
    """Return True if an unknown word may be an option before a name: `test $v x`, `wait $p x`.

    `text`: the text with the positions of the words; without it, each may be several words.
    """
    words = command.words[command.program + 1 :]
    if command.name == "wait":
        return any(UNKNOWN in word.text or re.match(r"-\w*p", word.text) for word in words)
    if command.name not in {"test", "["}:
        return False
    behind = [*(word.text for word in words[1:]), "]"]
    return any(
        word.text.startswith(UNKNOWN)
        and (text[word.at : word.at + 1] != '"' or following not in _BEHIND_OPERANDS)
        for word, following in zip(words, behind, strict=False)
    )


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
