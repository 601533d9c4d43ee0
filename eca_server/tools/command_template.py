"""A custom tool's command: a shell script with `{{argument}}` where the model's values belong.

The rule it keeps: a value is never a part of the script. It travels in a variable, and in its
place the script has a reference to that variable, spelled for the quotes it stands in. So a value
is one word, whatever it holds. Where the shell would read a variable as code, or would not read
it at all (arithmetic, subscripts, `[[ ]]`, `${ }`, backticks, here documents), no argument may
stand.

What reads its words as code once more (`eval`, `let`, `bash -c "..."`, `python -c "..."`) is
beyond us: there the author of the command hands the value on as an argument.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import attrs

from eca_protocol import json

__all__ = ["CommandTemplate", "TemplateFault"]

_SLOT = re.compile(r"\{\{\s*([^{}\s]+)\s*\}\}")
_HERE_DOCUMENT = re.compile(r"<<(?!<)")
_SUBSCRIPT = re.compile(r"\w\[")
_VARIABLE = "ECA_ARGUMENT_"
_WORD_STARTS_AFTER = frozenset(" \t\n;|&()")

_CLOSED_BY = {
    "code": ")",
    "single quotes": "'",
    "double quotes": '"',
    "$'...'": "'",
    "${...}": "}",
    "((...))": "))",
    "[[...]]": "]]",
    "$[...]": "]",
    "a subscript": "]",
    "backticks": "`",
}
_IN_DOUBLE_QUOTES = {
    "$((": "((...))",
    "$(": "code",
    "${": "${...}",
    "$[": "$[...]",
    "`": "backticks",
}
_IN_CODE = {
    **_IN_DOUBLE_QUOTES,
    "$'": "$'...'",
    "((": "((...))",
    "(": "code",
    "[[": "[[...]]",
    "'": "single quotes",
    '"': "double quotes",
}
_OPENED_IN: Mapping[str, Mapping[str, str]] = {
    "single quotes": {},
    "$'...'": {},
    "double quotes": _IN_DOUBLE_QUOTES,
}
_QUOTE = {"code": "", "single quotes": "'", "double quotes": '"'}


class TemplateFault(ValueError):
    """A command in which an argument stands where none may; the text says where."""


@attrs.frozen
class _Slot:
    """The place of an argument, and the quote it stands in."""

    name: str
    quote: str


class CommandTemplate:
    """A command whose placeholders were understood.

    Args:
        text: the script; what looks like a placeholder and names no argument stays as it is.
        names: the arguments.

    Raises:
        TemplateFault: a placeholder stands where a value cannot be given safely.
    """

    def __init__(self, text: str, names: Collection[str]) -> None:
        self._pieces = tuple(_pieces(text, names))
        slots = (piece.name for piece in self._pieces if isinstance(piece, _Slot))
        self._variables = {
            name: f"{_VARIABLE}{number}" for number, name in enumerate(dict.fromkeys(slots), 1)
        }
        self.script = "".join(map(self._reference, self._pieces))

    def _reference(self, piece: str | _Slot) -> str:
        """The piece as a part of the script; an argument that is not given leaves no word."""
        if isinstance(piece, str):
            return piece
        variable = self._variables[piece.name]
        if piece.quote == '"':
            return f"${{{variable}-}}"
        if piece.quote == "'":
            return f"'\"${{{variable}-}}\"'"
        return f'${{{variable}+"${{{variable}}}"}}'

    def variables(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        """What the script needs in its environment: strings as they are, the rest as JSON."""
        return {
            variable: _text(arguments[name])
            for name, variable in self._variables.items()
            if arguments.get(name) is not None
        }

    def command(self, arguments: Mapping[str, Any]) -> str:
        """The command that does the same, with the values in it: for people and for the rules."""
        shown = ""
        for piece in self._pieces:
            if isinstance(piece, str):
                shown += piece
            elif (value := arguments.get(piece.name)) is not None:
                shown += f"{piece.quote}{shlex.quote(_text(value))}{piece.quote}"
        return shown


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value).decode()


def _pieces(text: str, names: Collection[str]) -> Iterator[str | _Slot]:
    """The script cut at its placeholders, each with the quote around it."""
    within = ["code"]
    here_document = False
    done = position = 0
    slots = 0
    while position < len(text):
        slot = _SLOT.match(text, position)
        if slot and slot[1] in names:
            unsafe = [kind for kind in within if kind not in _QUOTE]
            if unsafe or here_document:
                raise TemplateFault(f"{slot[0]} stands in {(unsafe or ['a here document'])[-1]}")
            yield text[done:position]
            yield _Slot(slot[1], _QUOTE[within[-1]])
            done = position = slot.end()
            slots += 1
            continue
        kind = within[-1]
        if kind not in {"single quotes", "double quotes", "$'...'"}:
            here_document |= kind != "((...))" and bool(_HERE_DOCUMENT.match(text, position))
            if _starts_comment(text, position):
                line_end = text.find("\n", position)
                position = len(text) if line_end < 0 else line_end
                continue
        position += _step(text, position, within)
    if slots and len(within) > 1:
        raise TemplateFault(f"{within[-1]} in it do not end")
    yield text[done:]


def _step(text: str, position: int, within: list[str]) -> int:
    """Go in or out of quotes and brackets; how many characters that took."""
    kind = within[-1]
    if text[position] == "\\" and kind != "single quotes":
        return 2
    if text.startswith("<<<", position):  # a here string: its word is a word like any other
        return 3
    if len(within) > 1 and text.startswith(_CLOSED_BY[kind], position):
        within.pop()
        return len(_CLOSED_BY[kind])
    if position and kind not in _OPENED_IN and _SUBSCRIPT.match(text, position - 1):
        within.append("a subscript")
        return 1
    for opening, opened in _OPENED_IN.get(kind, _IN_CODE).items():
        if text.startswith(opening, position):
            within.append(opened)
            return len(opening)
    return 1


def _starts_comment(text: str, position: int) -> bool:
    return text[position] == "#" and (position == 0 or text[position - 1] in _WORD_STARTS_AFTER)
