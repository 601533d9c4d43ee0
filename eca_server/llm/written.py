"""Requests as JSON, of which what was written once is not written again. No I/O.

The rule it keeps: a history grows at its end, so a turn costs what is new in it; whatever begins
another way is written from its beginning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from eca_protocol import json
from eca_server.llm.history import Message, Repair

__all__ = ["Histories", "Waiting", "Writer", "Written", "encoded"]

_MOST_KEPT = 8
_LARGEST_KEPT = 8 * 2**20  # bytes

Waiting = list[Any]
"""What an API has no place for yet: it stands before, or in, a message that is still to come."""


class Writer(Protocol):
    """A history's messages in the words of an API."""

    def write(
        self, messages: Iterable[Message], waiting: Waiting
    ) -> tuple[list[dict[str, Any]], Waiting]:
        """Repaired messages, behind what waits; and what waits then."""
        ...

    def end(self, waiting: Waiting) -> list[dict[str, Any]]:
        """What becomes of what still waits where the history ends."""
        ...


@attrs.frozen
class Written:
    """A value that is JSON already, in pieces."""

    pieces: Sequence[bytes] = attrs.field(repr=False)


def encoded(payload: Mapping[str, Any]) -> bytes:
    """An object as JSON; values at its top level may be `Written`."""
    pieces: list[bytes] = []
    for name, value in payload.items():
        pieces += b"," if pieces else b"{", json.dumps(name), b":"
        pieces += value.pieces if isinstance(value, Written) else [json.dumps(value)]
    return b"".join([*pieces, b"}"])


class Histories:
    """Histories as JSON; of the latest ones it is kept how they begin.

    Args:
        writer: the API's words.
        mark: may change the written messages at the end of a history, in each request anew; the
            last two of the user's are among them.
    """

    def __init__(
        self, writer: Writer, *, mark: Callable[[list[dict[str, Any]]], None] | None = None
    ) -> None:
        self._writer = writer
        self._mark = mark or (lambda _written: None)
        self._beginnings: deque[_Beginning] = deque(maxlen=_MOST_KEPT)

    def written(
        self, messages: Sequence[Message], before: Sequence[Any] = (), behind: Sequence[Any] = ()
    ) -> Written:
        """The repaired messages, between what stands `before` and `behind` them, as an array."""
        history = list(messages)
        beginning = next((each for each in self._beginnings if each.begins(history)), None)
        if beginning is None:
            beginning = _Beginning(self._writer, self._mark)
        else:
            self._beginnings.remove(beginning)
        beginning.grow(history)
        if 0 < len(beginning.json) <= _LARGEST_KEPT:
            self._beginnings.append(beginning)
        end = (beginning.rest(history) + _members(behind)).removesuffix(b",")
        return Written([b"[", _members(before), bytes(beginning.json), end, b"]"])


class _Beginning:
    """How a history begins, repaired; nothing that follows will change it.

    Attributes:
        json: its messages, a comma behind each.
    """

    def __init__(self, writer: Writer, mark: Callable[[list[dict[str, Any]]], None]) -> None:
        self.json = bytearray()
        self._writer = writer
        self._mark = mark
        self._repair = Repair()
        self._waiting: Waiting = []

    def begins(self, history: list[Message]) -> bool:
        """Whether it is the beginning of that history."""
        return self._repair.continues(history)

    def grow(self, history: list[Message]) -> None:
        """Take over what is settled of a history that begins like this."""
        written, self._waiting = self._writer.write(self._repair.settle(history), self._waiting)
        self.json += _members(written)

    def rest(self, history: list[Message]) -> bytes:
        """The other messages of the history, a comma behind each."""
        written, waiting = self._writer.write(self._repair.rest(history), self._waiting)
        written += self._writer.end(waiting)
        self._mark(written)
        return _members(written)


def _members(array: Sequence[Any]) -> bytes:
    return json.dumps(array)[1:-1] + b"," if array else b""
