r"""EDN, the notation of upstream's exported chats: values to text, and text to values.

A value without a type in Python is read as the nearest one: a keyword as a `Keyword`, a set and a
list as a list, a tagged value as the value without its tag.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from eca_protocol import json
from eca_protocol.errors import ECAError

DEEPEST: Final = 128
"""The deepest nesting of collections."""

_TOKEN = re.compile(
    r"(?:[\s,]++|;[^\n]*+)*+"
    r'(?P<token>"[^"\\]*+(?:\\.[^"\\]*+)*+"|#\{|#_|#:|[(\[{)\]}]|#?\\?[^\s,;"(\[{)\]}]+|$)',
    re.DOTALL,
)
_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,999})N?")
_FLOAT = re.compile(r"[+-]?[0-9]{1,400}(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,4})?M?")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", '"': '"'}
_WORDS: Final = {"nil": None, "true": True, "false": False}
_CLOSERS: Final = {"(": ")", "[": "]", "{": "}", "#{": "}"}
_PAUSE: Final = 10_000  # values between two checkpoints


class BadEDN(ECAError):
    """A text that is not EDN, or uses a part of EDN that is not supported."""


class Keyword(str):
    """A keyword without its colon; equal to the text."""

    __slots__ = ()


def dumps(value: Any) -> str:
    """Return a value as EDN, with a line for each entry of the outer collections."""
    return "".join((*_pieces(value, 0), "\n"))


def _pieces(value: Any, depth: int) -> Iterator[str]:
    """Yield the text of a value in pieces: long texts are not joined at each depth again."""
    between = " " if depth > 3 else f"\n{' ' * (depth + 1)}"
    match value:
        case None | bool():
            yield {None: "nil", True: "true", False: "false"}[value]
        case Keyword():
            yield f":{value}"
        case Mapping():
            yield "{"
            for number, (key, held) in enumerate(value.items()):
                yield between if number else ""
                yield from _pieces(key, depth)
                yield " "
                yield from _pieces(held, depth + 1)
            yield "}"
        case str():
            yield json.dumps(value).decode()
        case int() | float():
            yield repr(value)
        case Sequence():
            yield "["
            for number, each in enumerate(value):
                yield between if number else ""
                yield from _pieces(each, depth + 1)
            yield "]"
        case _:
            raise BadEDN(f"expected a value of JSON, got {type(value).__name__}")


def loads(text: str, *, checkpoint: Callable[[], object] = lambda: None) -> Any:
    """Return the value of a text in EDN.

    Raises:
        BadEDN: it holds no value, several, or one that is nested too deeply.
    """
    reader = _Reader(text, checkpoint)
    value = reader.value(reader.next(0), 0)
    if reader.next(0):
        raise reader.fault("the end")
    return value


def plain(value: Any) -> Any:
    """Return a value of JSON: keywords become strings."""
    match value:
        case Mapping():
            return {str(key): plain(held) for key, held in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case str():
            return str(value)
        case _:
            return value


class _Reader:
    def __init__(self, text: str, checkpoint: Callable[[], object]) -> None:
        self._text = text
        self._checkpoint = checkpoint
        self._place = 0
        self._values = 0

    def next(self, depth: int) -> str:
        """Return the next token that is not discarded; empty at the end."""
        while (token := self._token()) == "#_":
            self._must_not_be_too_deep(depth)
            self.value(self.next(depth + 1), depth + 1)
        return token

    def _token(self) -> str:
        match = _TOKEN.match(self._text, self._place)
        if match is None:
            raise self.fault("a value")
        self._place = match.end()
        return match["token"]

    def _must_not_be_too_deep(self, depth: int) -> None:
        if depth > DEEPEST:
            raise BadEDN(f"expected at most {DEEPEST} collections in each other, got more")

    def value(self, token: str, depth: int) -> Any:
        """Return the value that begins with a token."""
        self._values += 1
        if not self._values % _PAUSE:
            self._checkpoint()
        self._must_not_be_too_deep(depth)
        if token in {"(", "[", "#{"}:
            return list(self._until(_CLOSERS[token], depth))
        if token == "{":  # noqa: S105 - as above
            return self._map(depth)
        if token.startswith('"'):
            return _joined(_ESCAPE.sub(self._escaped, token[1:-1]))
        if token.startswith(":") and len(token) > 1:
            return Keyword(token[1:])
        if token.startswith("#") and token[1:2].isalpha():
            return self.value(self.next(depth + 1), depth + 1)
        return self._atom(token)

    def _atom(self, token: str) -> Any:
        if token in _WORDS:
            return _WORDS[token]
        if _INTEGER.fullmatch(token):
            return int(token.removesuffix("N"))
        if _FLOAT.fullmatch(token) and math.isfinite(number := float(token.removesuffix("M"))):
            return number
        if len(token) == 2 and token.startswith("\\"):
            return token[1]
        raise self.fault("a value")

    def _map(self, depth: int) -> dict[Any, Any]:
        held = list(self._until("}", depth))
        keys = held[::2]
        if len(held) % 2 or not all(isinstance(key, str | int) for key in keys):
            raise self.fault("a map of keywords and texts to values")
        return dict(zip(keys, held[1::2], strict=True))

    def _until(self, closer: str, depth: int) -> Iterator[Any]:
        while (token := self.next(depth)) != closer:
            yield self.value(token, depth + 1)

    def _escaped(self, match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] not in _ESCAPES:
            raise self.fault("an escape of EDN's in a text")
        return _ESCAPES[match[2]]

    def fault(self, expected: str) -> BadEDN:
        line = self._text.count("\n", 0, self._place) + 1
        return BadEDN(f"expected {expected}, got something else or the end, in line {line}")


def _joined(text: str) -> str:
    """Join pairs of escaped surrogates into characters."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
