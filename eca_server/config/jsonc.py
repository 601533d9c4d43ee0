"""JSON with comments and trailing commas, whose errors are located by line and column.

`//` and `/* */` comments and trailing commas are replaced by spaces, so an offset in the parsed
text is an offset in the user's text. Positions of keys are computed only when there is an error to
report.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from json import JSONDecoder
from typing import NamedTuple

from eca_protocol import json
from eca_protocol.errors import InvalidJSON

# A string, even an unterminated one, is matched first: slashes inside it are text.
_STRING = r'"(?:[^"\\\n]|\\.)*+"?'
_COMMENT = re.compile(rf"{_STRING}|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<open>/\*)", re.DOTALL)
_TRAILING = re.compile(rf"(?P<value>{_STRING}|[\[{{]\s*,)|,(?=\s*[\]}}])")
_TOKEN = re.compile(rf'{_STRING}|[{{}}\[\],:]|[^\s{{}}\[\],:"]+')
_HINTS = {
    "'": "a single quote (texts and keys are in double quotes)",
    "#": "`#` (comments begin with `//`)",
}
_NOT_NEWLINE = re.compile(r"[^\n\r]")


class Position(NamedTuple):
    """A place in a text; both count from 1."""

    line: int
    column: int


class InvalidText(Exception):
    """A text that is not JSON with comments; the message quotes nothing of it."""

    def __init__(self, message: str, position: Position | None) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


def parse(text: str) -> object:
    """Parse JSON with comments and trailing commas; comments alone are an empty object.

    Raises:
        InvalidText: the text is not JSON.
    """
    plain = plain_json(text)
    if not plain.strip():
        return {}
    try:
        return json.loads(plain)
    except InvalidJSON as error:
        if error.position is None:
            raise InvalidText(error.message, None) from None
        offset = error.position
        raise InvalidText(_explain(plain, offset), _position(text, offset)) from None


def plain_json(text: str) -> str:
    """Return `text` with spaces for comments and trailing commas; line breaks and lengths stay.

    Raises:
        InvalidText: a `/*` has no `*/`.
    """

    def blank(match: re.Match[str]) -> str:
        if match["open"]:
            raise InvalidText("expected `*/` to end this comment", _position(text, match.start()))
        comment = match["comment"]
        return _NOT_NEWLINE.sub(" ", comment) if comment else match[0]

    without_comments = _COMMENT.sub(blank, text) if "/" in text else text
    return _TRAILING.sub(lambda match: match["value"] or " ", without_comments)


class Positions:
    """The positions of the keys in a valid text, computed at the first lookup."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._offsets: dict[tuple[str | int, ...], int] | None = None

    def position(self, path: Sequence[str | int]) -> Position | None:
        """Return the position of the key or list item at `path`, or of its nearest existing parent.

        The last one of duplicate keys counts, as for the JSON parser.
        """
        if self._offsets is None:
            self._offsets = dict(_walk(plain_json(self._text)))
        for length in range(len(path), 0, -1):
            offset = self._offsets.get(tuple(path[:length]))
            if offset is not None:
                return _position(self._text, offset)
        return None


def duplicate_keys(text: str) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of each key that an object of a valid text has more than once."""
    text = plain_json(text)
    if not _has_duplicates(text):
        return
    paths: set[tuple[str | int, ...]] = set()
    repeated: set[tuple[str | int, ...]] = set()
    for path, _ in _walk(text):
        if path in paths and not any(
            path[:length] in repeated for length in range(1, len(path) + 1)
        ):
            repeated.add(path)
            yield path
        paths.add(path)


def _has_duplicates(text: str) -> bool:
    """Return whether an object has a key twice; much faster than a walk."""
    has_duplicates = False

    def check(pairs: list[tuple[str, object]]) -> None:
        nonlocal has_duplicates
        has_duplicates |= len(dict(pairs)) < len(pairs)

    if text.strip():
        JSONDecoder(object_pairs_hook=check).decode(text)
    return has_duplicates


def _walk(text: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Yield every path of a valid JSON text with the offset of its key or item, in order."""
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


def _explain(text: str, offset: int) -> str:
    """Return a message about the error at `offset` that quotes no value."""
    got = text[offset : offset + 1]
    if not got:
        return "expected more JSON, got the end of the text"
    if got in "\n\r\t":
        return "expected no line break or tab inside a string"
    if got == '"':
        string = _TOKEN.match(text, offset)
        if string is None or len(string[0]) == 1 or not string[0].endswith('"'):
            return "expected a quote to end this string"
        return "expected a comma or a colon, got a string"
    shown = repr(got) if got in "{}[],:" else _HINTS.get(got, "something else")
    return f"expected JSON, got {shown}"


def _position(text: str, offset: int) -> Position:
    return Position(
        line=text.count("\n", 0, offset) + 1,
        column=offset - (text.rfind("\n", 0, offset) + 1) + 1,
    )
