"""JSON with comments, read so that a fault can be shown by line and column.

`//` and `/* */` comments are blanked, not removed: every character keeps its place, so an
offset in what the JSON reader sees is an offset in what the user wrote. Where a key stands is
looked up only when there is something to report about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from eca_protocol import json
from eca_protocol.errors import InvalidJSON

__all__ = ["BadText", "Places", "Spot", "blank_comments", "parse"]

# A string is matched first, so that slashes inside one are text; so is one that never ends.
_STRING = r'"(?:[^"\\\n]|\\.)*+"?'
_COMMENT = re.compile(rf"{_STRING}|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<open>/\*)", re.DOTALL)
_TOKEN = re.compile(rf'{_STRING}|[{{}}\[\],:]|[^\s{{}}\[\],:"]+')
_NOT_NEWLINE = re.compile(r"[^\n\r]")


class Spot(NamedTuple):
    """A place in a text; both count from 1."""

    line: int
    column: int


class BadText(Exception):
    """A text that is not JSON with comments; the message shows no text of it."""

    def __init__(self, message: str, spot: Spot | None) -> None:
        super().__init__(message)
        self.message = message
        self.spot = spot


def parse(text: str) -> object:
    """The value of a JSON text with comments; a text of nothing but comments is an empty object.

    Raises:
        BadText: it is not JSON; a trailing comma is not either.
    """
    plain = blank_comments(text)
    if not plain.strip():
        return {}
    try:
        return json.loads(plain)
    except InvalidJSON as fault:
        if fault.position is None:
            raise BadText(fault.message, None) from None
        offset, message = _explain(plain, fault.position)
        raise BadText(message, _spot(text, offset)) from None


def blank_comments(text: str) -> str:
    """`text` with every comment turned into spaces; line breaks and lengths stay.

    Raises:
        BadText: a `/*` without its `*/`.
    """

    def blank(match: re.Match[str]) -> str:
        if match["open"]:
            raise BadText("expected `*/` to end this comment", _spot(text, match.start()))
        comment = match["comment"]
        return _NOT_NEWLINE.sub(" ", comment) if comment else match[0]

    return _COMMENT.sub(blank, text) if "/" in text else text


class Places:
    """Where each key of a valid text stands; the text is walked at the first question."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._offsets: dict[tuple[str | int, ...], int] | None = None

    def spot(self, path: Sequence[str | int]) -> Spot | None:
        """The place of the key or list item at `path`, or of its nearest parent that is there.

        Of two equal keys it is the last one, as it is for the JSON reader.
        """
        if self._offsets is None:
            self._offsets = dict(_walk(blank_comments(self._text)))
        for length in range(len(path), 0, -1):
            offset = self._offsets.get(tuple(path[:length]))
            if offset is not None:
                return _spot(self._text, offset)
        return None


def _walk(text: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Every path of a valid JSON text with the offset of its key or item, in order."""
    path: list[str | int] = []  # one step for each open object or list
    expects_key = False
    for match in _TOKEN.finditer(text):
        part = match[0]
        if expects_key and part[0] == '"':
            path[-1] = str(json.loads(part))
            yield tuple(path), match.start()
            expects_key = False
        elif part in "}]":
            path.pop()
            expects_key = False
        elif part == ",":
            step = path[-1]
            expects_key = isinstance(step, str)
            if isinstance(step, int):
                path[-1] = step + 1
        elif part != ":":
            if path and isinstance(path[-1], int):
                yield tuple(path), match.start()
            if part in "{[":
                path.append("" if part == "{" else 0)
                expects_key = part == "{"


def _explain(text: str, offset: int) -> tuple[int, str]:
    """What is wrong near `offset`, and exactly where, in words that quote no value."""
    before = text[:offset].rstrip()
    comma = len(before) - 1 if before.endswith(",") else offset
    if text[comma : comma + 1] == "," and text[comma + 1 :].lstrip()[:1] in ("}", "]"):
        return comma, "expected no comma before the closing bracket: JSON has no trailing commas"
    got = text[offset : offset + 1]
    if not got:
        return offset, "expected more JSON, got the end of the text"
    if got in "\n\r\t":
        return offset, "expected no line break or tab inside a string"
    if got == '"':
        string = _TOKEN.match(text, offset)
        if string is None or len(string[0]) == 1 or not string[0].endswith('"'):
            return offset, "expected a quote to end this string"
        return offset, "expected a comma or a colon, got a string"
    return offset, f"expected JSON, got {got if got in '{}[],:' else 'something else'}"


def _spot(text: str, offset: int) -> Spot:
    return Spot(
        line=text.count("\n", 0, offset) + 1,
        column=offset - (text.rfind("\n", 0, offset) + 1) + 1,
    )
