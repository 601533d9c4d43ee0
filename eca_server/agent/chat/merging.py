"""Deltas that follow each other closely, merged into fewer contents (W-6).

Some clients paint each notification by itself, so a flood of small ones takes them minutes. The
first delta of a content is written at once, what follows is joined and written at most once in an
interval. A client that paints a whole content again at each delta gets a longer interval the longer
that content is, so that it has time left for the user's click on Stop. Any content of another kind
is written behind what is held, so the order stays. A source that is faster than a client can paint
waits (`drained`), so that a stop has little before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import trio

from eca_protocol import messages as m
from eca_protocol.server.texts import Role
from eca_server.client.profiles import Writing

_DELTAS: Mapping[type, tuple[str, str | None]] = {
    m.ChatTextContent: ("text", None),
    m.ChatReasonTextContent: ("text", "id"),
    m.ChatToolCallPrepareContent: ("arguments_text", "id"),
}
"""The field of a delta that is joined, and the one that names what it belongs to."""

_MOST_HELD = 65_536
"""Characters that are held at most."""

_PAINTING = 1 / 3
"""The part of its time that a client may paint a content again."""

_INVISIBLE = "\u034f"  # a combining grapheme joiner

_LONGEST = 2.0
"""Seconds that a delta is held at most, however long its content is."""


def _without_repeats(
    write: Callable[[Role, m.ChatContent], None],
) -> Callable[[Role, m.ChatContent], None]:
    """Return a function that writes contents to a client that drops repeats of the prompt.

    Such a text is cut in two, or has an invisible character appended if it is a single one.
    """
    prompt = ""

    def write_each(role: Role, content: m.ChatContent) -> None:
        nonlocal prompt
        pieces = [content]
        if isinstance(content, m.ChatTextContent):
            visible = content.text.strip()
            if role == "user":
                prompt = visible
            elif prompt and visible == prompt:
                text, middle = content.text, content.text.index(visible) + 1
                cut = [text[:middle], text[middle:]]
                texts = cut if len(visible) > 1 else [_INVISIBLE.join(cut)]
                pieces = [attrs.evolve(content, text=each) for each in texts]
        for piece in pieces:
            write(role, piece)

    return write_each


class Merger:
    """The deltas of one turn on their way to the client.

    Args:
        write: writes a content.
        writing: how long and how many deltas are joined for the client.
        nursery: where the task runs that writes what is held.
    """

    def __init__(
        self,
        write: Callable[[Role, m.ChatContent], None],
        writing: Writing,
        nursery: trio.Nursery,
    ) -> None:
        self._write = _without_repeats(write) if writing.drops_repeats else write
        self._writing = writing
        self._nursery = nursery
        self._key: tuple[object, ...] | None = None
        self._shown = 0
        self._last: tuple[Role, Any] | None = None
        self._held: list[str] = []
        self._size = 0
        self._written = -math.inf
        self._timer: trio.CancelScope | None = None
        self._flushed = trio.Event()

    @property
    def _interval(self) -> float:
        """The least time between two writes of the content that is written now."""
        painting = self._shown * self._writing.repaint_seconds
        return max(self._writing.merge_seconds, min(painting / _PAINTING, _LONGEST))

    @property
    def is_holding(self) -> bool:
        """True if deltas are held."""
        return self._size > 0

    def write(self, role: Role, content: m.ChatContent) -> None:
        """Write a content now, or hold it if one of the same was written a moment ago."""
        if not self._writing.merge_seconds:
            self._write(role, content)
            return
        fields = _DELTAS.get(type(content)) if role != "user" else None
        if fields is None:
            if self._last is not None:
                self.flush()
            self._written = -math.inf
            self._write(role, content)
            return
        text, name = fields
        key = (type(content), role, None if name is None else getattr(content, name))
        delta: str = getattr(content, text)
        now = trio.current_time()
        is_other = key != self._key
        if is_other or (not self._held and now - self._written >= self._interval):
            self.flush()
            self._key, self._written = key, now
            self._shown = len(delta) + (0 if is_other else self._shown)
            self._write(role, content)
            return
        self._last = role, content
        self._held.append(delta)
        self._size += len(delta)
        if self._size > _MOST_HELD:
            self.flush()
        elif self._timer is None:
            self._timer = trio.CancelScope(deadline=self._written + self._interval)
            self._nursery.start_soon(self._flush_in_time, self._timer)

    def wait_for_flush(self) -> None:
        """Keep what is held until `flush`, or until a content of another kind is written."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def drop(self) -> None:
        """Forget what is held."""
        self.wait_for_flush()
        self._last, self._held, self._size = None, [], 0
        self._flushed.set()

    def flush(self) -> None:
        """Write what is held."""
        self.wait_for_flush()
        if self._last is None:
            return
        (role, content), held = self._last, "".join(self._held)
        self._shown += self._size
        self._last, self._held, self._size = None, [], 0
        self._written = trio.current_time()
        self._flushed.set()
        self._flushed = trio.Event()
        field, _ = _DELTAS[type(content)]
        self._write(role, attrs.evolve(content, **{field: held}))

    async def drained(self) -> None:
        """Wait until few characters are held."""
        while self._size > self._writing.characters_per_second * self._interval:
            await self._flushed.wait()

    async def _flush_in_time(self, timer: trio.CancelScope) -> None:
        try:
            with timer:
                await trio.sleep_forever()
        finally:
            if self._timer is timer:
                self.flush()
