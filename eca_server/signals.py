"""A command that is told to end: whatever it has started ends with it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

__all__ = ["until_a_signal"]

_T = TypeVar("_T")


async def until_a_signal(command: Callable[[], Awaitable[_T]]) -> tuple[_T | None, int | None]:
    """Run a command to its end, or until a signal (INT, TERM, HUP) cancels it.

    An interrupt is a signal like the others: as KeyboardInterrupt it could rise anywhere, also
    where whatever rises is lost. Signals that come while the command ends change nothing: what it
    has started is still ended in order.

    Returns:
        What the command gave, None if it was cancelled; and the number of the first signal.
    """
    numbers = [signal.SIGTERM]
    may_be_ignored = [signal.SIGINT]
    if sys.platform != "win32":
        may_be_ignored.append(signal.SIGHUP)  # the terminal was closed
    numbers += [each for each in may_be_ignored if signal.getsignal(each) != signal.SIG_IGN]
    outcome: _T | None = None
    came: list[int] = []
    running = trio.CancelScope()
    with trio.open_signal_receiver(*numbers) as received:
        async with trio.open_nursery() as nursery:

            async def listen() -> None:
                async for number in received:
                    came.append(number)
                    running.cancel()

            nursery.start_soon(listen)
            with running:
                outcome = await command()
            nursery.cancel_scope.cancel()
    return outcome, came[0] if came else None
