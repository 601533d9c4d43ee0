"""A first-in, first-out lock."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio

__all__ = ["Turnstile"]


class Turnstile:
    """A lock that tasks hold one at a time, in the order of their places."""

    def __init__(self) -> None:
        self._places: deque[trio.Event] = deque()

    def place(self) -> AbstractAsyncContextManager[None]:
        """Return the next place, a context manager that must be entered."""
        place = trio.Event()
        self._places.append(place)
        return self._in_place(place)

    @asynccontextmanager
    async def _in_place(self, place: trio.Event) -> AsyncIterator[None]:
        try:
            self._wake_first()
            await place.wait()
            yield
        finally:
            self._places.remove(place)
            self._wake_first()

    def _wake_first(self) -> None:
        if self._places:
            self._places[0].set()
