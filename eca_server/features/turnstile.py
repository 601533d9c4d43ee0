"""An order for work that waits: whoever came first is done first."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio

__all__ = ["Turnstile"]


class Turnstile:
    """Lets tasks through one at a time, in the order in which they were given their place."""

    def __init__(self) -> None:
        self._places: deque[trio.Event] = deque()

    def place(self) -> AbstractAsyncContextManager[None]:
        """A place behind all that were given so far; it must be taken."""
        place = trio.Event()
        self._places.append(place)
        return self._in_place(place)

    @asynccontextmanager
    async def _in_place(self, place: trio.Event) -> AsyncIterator[None]:
        try:
            self._call()
            await place.wait()
            yield
        finally:
            self._places.remove(place)
            self._call()

    def _call(self) -> None:
        if self._places:
            self._places[0].set()
