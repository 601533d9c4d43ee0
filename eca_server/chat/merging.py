"""Deltas that follow each other closely, merged into fewer contents (W-6).

Some clients paint each notification by itself, so a flood of small ones takes them minutes. The
first delta of a content is written at once, what follows is joined and written at most once in an
interval. Any content of another kind is written behind what is held, so the order stays. A source
that is faster than a client can paint waits (`drained`), so that a stop has little before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import trio

from eca_protocol.messages import (
    ChatContent,
    ChatReasonTextContent,
    ChatTextContent,
    ChatToolCallPrepareContent,
)
from eca_server.content_formatting import Role

__all__ = ["Merger"]

_DELTAS: Mapping[type, tuple[str, str | None]] = {
    ChatTextContent: ("text", None),
    ChatReasonTextContent: ("text", "id"),
    ChatToolCallPrepareContent: ("arguments_text", "id"),
}
"""The field of a delta that is joined, and the one that names what it belongs to."""

_MOST_HELD = 65_536
"""Characters that are held at most."""

_PACE = 68_000
"""Characters a second that a source of many deltas may write: Emacs paints 100 KB a second."""


class Merger:
    """The deltas of one turn on their way to the client.

    Args:
        write: writes a content.
        seconds: the interval; 0: each delta is written as it comes.
        nursery: where the task runs that writes what is held.
    """

    def __init__(
        self,
        write: Callable[[Role, ChatContent], None],
        seconds: float,
        nursery: trio.Nursery,
    ) -> None:
        self._write = write
        self._seconds = seconds
        self._nursery = nursery
        self._key: tuple[object, ...] | None = None
        self._last: tuple[Role, Any] | None = None
        self._held: list[str] = []
        self._size = 0
        self._written = 0.0
        self._is_timed = False
        self._flushed = trio.Event()

    def write(self, role: Role, content: ChatContent) -> None:
        """Write a content now, or hold it if one of the same was written a moment ago."""
        fields = _DELTAS.get(type(content)) if self._seconds and role != "user" else None
        if fields is None:
            self.flush()
            self._key = None
            self._write(role, content)
            return
        text, name = fields
        key = (type(content), role, None if name is None else getattr(content, name))
        now = trio.current_time()
        if key != self._key or (not self._held and now - self._written >= self._seconds):
            self.flush()
            self._key, self._written = key, now
            self._write(role, content)
            return
        self._last = role, content
        self._held.append(getattr(content, text))
        self._size += len(self._held[-1])
        if self._size > _MOST_HELD:
            self.flush()
        elif not self._is_timed:
            self._is_timed = True
            self._nursery.start_soon(self._flush_in_time)

    def flush(self) -> None:
        """Write what is held."""
        if self._last is None:
            return
        (role, content), held = self._last, "".join(self._held)
        self._last, self._held, self._size = None, [], 0
        self._written = trio.current_time()
        self._flushed.set()
        self._flushed = trio.Event()
        field, _ = _DELTAS[type(content)]
        self._write(role, attrs.evolve(content, **{field: held}))

    async def drained(self) -> None:
        """Wait until few characters are held."""
        while self._size > _PACE * self._seconds:
            await self._flushed.wait()

    async def _flush_in_time(self) -> None:
        try:
            await trio.sleep_until(self._written + self._seconds)
        finally:
            self._is_timed = False
            self.flush()
