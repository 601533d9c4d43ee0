"""An order for work that waits: whoever came first is done first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio

__all__ = ["Turnstile"]


class Turnstile:
    """Lets tasks through one at a time, in the order in which they were given their place."""

    def __init__(self) -> None:
        self._last = trio.Event()
        self._last.set()

    def place(self) -> AbstractAsyncContextManager[None]:
        """A place behind all that were given so far; it must be taken."""
        before, self._last = self._last, trio.Event()
        return _in_place(before, self._last)


@asynccontextmanager
async def _in_place(before: trio.Event, done: trio.Event) -> AsyncIterator[None]:
    try:
        await before.wait()
        yield
    finally:
        done.set()
