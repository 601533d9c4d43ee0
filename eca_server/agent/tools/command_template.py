"""A custom tool's command: a shell script with `{{argument}}` as placeholders.

The rule of this module: a value never becomes part of the script. It is passed in a variable, and
the placeholder becomes a reference to that variable, quoted for its position. So a value is always
one word. A placeholder is an error where the shell would read a variable as code, or would not
expand it (arithmetic, subscripts, `[[ ]]`, `${ }`, backticks, here documents).

Programs that evaluate their words as code (`eval`, `let`, `bash -c "..."`, `python -c "..."`) are
not detected: there the author of the command has to pass the value as an argument.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import attrs

from eca_server.agent.tools.schemas import as_text

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


class TemplateError(ValueError):
    """A command with a placeholder at a position where none is allowed; the message says where."""


@attrs.frozen
class _Slot:
    name: str
    quote: str


class CommandTemplate:
    """A command with parsed placeholders.

    Args:
        text: the script; a placeholder without an argument of its name is literal text.

    Raises:
        TemplateError: a placeholder is at a position where a value cannot be passed safely.
    """

    def __init__(self, text: str, names: Collection[str]) -> None:
        self._pieces = tuple(_pieces(text, names))
        slots = (piece.name for piece in self._pieces if isinstance(piece, _Slot))
        self._variables = {
            name: f"{_VARIABLE}{number}" for number, name in enumerate(dict.fromkeys(slots), 1)
        }
        self.script = "".join(map(self._reference, self._pieces))

    def _reference(self, piece: str | _Slot) -> str:
        """Return a piece as text of the script; a missing argument expands to no word."""
        if isinstance(piece, str):
            return piece
        variable = self._variables[piece.name]
        if piece.quote == '"':
            return f"${{{variable}-}}"
        if piece.quote == "'":
            return f"'\"${{{variable}-}}\"'"
        return f'${{{variable}+"${{{variable}}}"}}'

    def variables(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Return the environment variables of the script: strings unchanged, the rest as JSON."""
        return {
            variable: as_text(arguments[name])
            for name, variable in self._variables.items()
            if arguments.get(name) is not None
        }

    def command(self, arguments: Mapping[str, Any]) -> str:
        """Return an equivalent command with the values in it, for people and for the rules."""
        shown = ""
        for piece in self._pieces:
            if isinstance(piece, str):
                shown += piece
            elif (value := arguments.get(piece.name)) is not None:
                shown += f"{piece.quote}{shlex.quote(as_text(value))}{piece.quote}"
        return shown


def _pieces(text: str, names: Collection[str]) -> Iterator[str | _Slot]:
    """Split the script at its placeholders, each with the quote around it."""
    within = ["code"]
    here_document = False
    end = position = 0
    slots = 0
    while position < len(text):
        slot = _SLOT.match(text, position)
        if slot and slot[1] in names:
            unsafe = [kind for kind in within if kind not in _QUOTE]
            if unsafe or here_document:
                place = (unsafe or ["a here document"])[-1]
                raise TemplateError(
                    f"{slot[0]} is in {place}, where no value can be inserted; "
                    f"write it outside, as in VALUE={slot[0]}"
                )
            yield text[end:position]
            yield _Slot(slot[1], _QUOTE[within[-1]])
            end = position = slot.end()
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
        raise TemplateError(f"{within[-1]} in it are not closed")
    yield text[end:]


def _step(text: str, position: int, within: list[str]) -> int:
    """Enter or leave quotes and brackets; return the number of characters read."""
    kind = within[-1]
    if text[position] == "\\" and kind != "single quotes":
        return 2
    if text.startswith("<<<", position):  # a here string: its word is an ordinary word
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
