"""Histories as JSON, encoded incrementally. No I/O.

A history grows at its end, so a turn encodes only what is new. A history with a different beginning
is encoded as a whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import attrs

from eca_protocol import json
from eca_server.models.history import Message, Origin, Repair, neutral_answer

_MOST_CACHED = 8
_LARGEST_CACHED = 8 * 2**20  # bytes


class Writer(ABC):
    """A writer of a history in the format of an API.

    An answer has an origin if this very model made it, and is written as it came; others consist of
    texts and calls. A writer holds what later messages need: the ids of calls, and content that the
    API can only place before, or in, a later message.
    """

    @abstractmethod
    def write(self, messages: Iterable[Message]) -> list[dict[str, Any]]:
        """Write the next repaired messages of the history."""

    def end(self) -> list[dict[str, Any]]:
        """Write the content that is left at the end of the history."""
        return []


@attrs.frozen
class EncodedJSON:
    """A value as JSON, in pieces."""

    pieces: Sequence[bytes] = attrs.field(repr=False)


def encoded(payload: Mapping[str, Any]) -> bytes:
    """Encode an object as JSON; values at its top level may be `EncodedJSON`."""
    pieces: list[bytes] = []
    for name, value in payload.items():
        pieces += b"," if pieces else b"{", json.dumps(name), b":"
        pieces += value.pieces if isinstance(value, EncodedJSON) else [json.dumps(value)]
    return b"".join([*pieces, b"}"])


class HistoryEncoder:
    """An encoder of histories, with a cache of the latest encoded prefixes.

    Args:
        writer: a writer that has written nothing; each history gets a copy.
        origin: the model that reads the histories, whose own answers it gets as they came.
        mark: may change the written messages at the end of a history, anew in each request; they
            include the last two user messages.
    """

    def __init__(
        self,
        writer: Writer,
        origin: Origin,
        *,
        mark: Callable[[list[dict[str, Any]]], None] = lambda _written: None,
    ) -> None:
        self._writer = writer
        self._origin = origin
        self._mark = mark
        self._prefixes: deque[_Prefix] = deque(maxlen=_MOST_CACHED)

    def written(
        self, messages: Sequence[Message], before: Sequence[Any] = (), trailing: Sequence[Any] = ()
    ) -> EncodedJSON:
        """Encode the repaired messages as an array, between the values `before` and `trailing`."""
        history = list(messages)
        prefix = next((each for each in self._prefixes if each.matches(history)), None)
        if prefix is None:
            prefix = _Prefix(self._writer, self._origin, self._mark)
        else:
            self._prefixes.remove(prefix)
        prefix.grow(history)
        if 0 < len(prefix.json) <= _LARGEST_CACHED:
            self._prefixes.append(prefix)
        end = (prefix.rest(history) + _members(trailing)).removesuffix(b",")
        return EncodedJSON([b"[", _members(before), bytes(prefix.json), end, b"]"])


class _Prefix:
    """The settled beginning of a history, which later messages cannot change.

    Attributes:
        json: its encoded messages, each with a comma after it.
    """

    def __init__(
        self, writer: Writer, origin: Origin, mark: Callable[[list[dict[str, Any]]], None]
    ) -> None:
        self.json = bytearray()
        self._writer = deepcopy(writer)
        self._origin = origin
        self._mark = mark
        self._repair = Repair()

    def matches(self, history: list[Message]) -> bool:
        return self._repair.continues(history)

    def grow(self, history: list[Message]) -> None:
        settled = self._readable(self._repair.settle(history))
        self.json += _members(self._writer.write(settled))

    def rest(self, history: list[Message]) -> bytes:
        """Encode the messages after the prefix, each with a comma after it."""
        writer = deepcopy(self._writer)
        written = [*writer.write(self._readable(self._repair.rest(history))), *writer.end()]
        self._mark(written)
        return _members(written)

    def _readable(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield messages, the answers of different models without their private data."""
        for message in messages:
            is_foreign = message.role == "assistant" and message.origin != self._origin
            yield neutral_answer(message) if is_foreign else message


def _members(array: Sequence[Any]) -> bytes:
    return json.dumps(array)[1:-1] + b"," if array else b""
