"""The signals that tell a command to end: whatever it has started ends with it.

The rule it keeps: no further signal disturbs an end that has begun. A handler stays in place as
long as children are started: they would inherit that a signal is ignored.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

import trio

__all__ = ["ignore_signals", "take_signals", "until_a_signal"]

_T = TypeVar("_T")

_ENDING: Final = {
    number
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1")
    if (number := getattr(signal, name, None)) is not None  # Windows lacks some
}


def take_signals(
    end: Callable[[int], None], *, even_ignored: Collection[signal.Signals]
) -> Mapping[int, Any]:
    """Have a function called in the event loop for each signal that ends, from now on.

    An interrupt is a signal like the others: as KeyboardInterrupt it could rise anywhere, also
    where whatever rises is lost.

    Args:
        end: given the number of the signal.
        even_ignored: the signals that count although the process was started to ignore them.

    Returns:
        The handlers that were in place.
    """
    token = trio.lowlevel.current_trio_token()

    def take(number: int, _: object) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(end, number, idempotent=True)

    ignored = {number for number in _ENDING if signal.getsignal(number) == signal.SIG_IGN}
    taken = _ENDING - ignored | _ENDING.intersection(even_ignored)
    return {number: signal.signal(number, take) for number in taken}


def ignore_signals() -> None:
    """Let no further signal change how this process ends; it must not start children after this.

    The interpreter takes handlers away a while before the process ends.
    """
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


async def until_a_signal(command: Callable[[], Awaitable[_T]]) -> tuple[_T | None, int | None]:
    """Run a command to its end, or until a signal cancels it (TERM, INT, HUP, QUIT, USR1).

    Signals that come while the command ends change nothing: what it has started is still ended in
    order.

    Returns:
        What the command gave, None if it was cancelled; and the number of the first signal.
    """
    outcome: _T | None = None
    came: list[int] = []
    running = trio.CancelScope()

    def cancel(number: int) -> None:
        came.append(number)
        running.cancel()

    before = take_signals(cancel, even_ignored=[signal.SIGTERM])
    try:
        with running:
            outcome = await command()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return outcome, came[0] if came else None
