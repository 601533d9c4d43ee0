"""The signals that end a command, together with its children.

Invariant: no further signal disturbs a shutdown that has begun. A handler stays in place while
children may be started, because they would inherit an ignored signal.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

import trio

from eca_server.system.clock import RunningClock

_T = TypeVar("_T")

_ENDING: Final = {
    number
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1")
    if (number := getattr(signal, name, None)) is not None  # Windows lacks some
}


def take_signals(
    end: Callable[[int], None], *, even_ignored: Collection[signal.Signals]
) -> Mapping[int, Any]:
    """Call a function in the event loop for each terminating signal.

    SIGINT is among them: a KeyboardInterrupt could be raised anywhere, even where it is lost.

    Args:
        end: called with the number of the signal.
        even_ignored: signals to handle even if the process was started with them ignored.

    Returns:
        The previous handlers.
    """
    token = trio.lowlevel.current_trio_token()

    def take(number: int, _: object) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(end, number, idempotent=True)

    ignored = {number for number in _ENDING if signal.getsignal(number) == signal.SIG_IGN}
    handled = _ENDING - ignored | _ENDING.intersection(even_ignored)
    return {number: signal.signal(number, take) for number in handled}


def ignore_signals() -> None:
    """Ignore all further signals; the process must not start children after this.

    The interpreter removes handlers some time before the process exits.
    """
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def run_until_a_signal(command: Callable[[], Awaitable[_T]]) -> tuple[_T | None, int | None]:
    """Run an event loop with a command, and return what `until_a_signal` returns."""
    return trio.run(until_a_signal, command, clock=RunningClock())


async def until_a_signal(command: Callable[[], Awaitable[_T]]) -> tuple[_T | None, int | None]:
    """Run a command until it ends or a signal (TERM, INT, HUP, QUIT, USR1) cancels it.

    Further signals are ignored while the command cleans up.

    Returns:
        The result of the command, or None if it was cancelled, and the number of the first signal.
    """
    outcome: _T | None = None
    numbers: list[int] = []
    running = trio.CancelScope()

    def cancel(number: int) -> None:
        numbers.append(number)
        running.cancel()

    previous = take_signals(cancel, even_ignored=[signal.SIGTERM])
    try:
        with running:
            outcome = await command()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return outcome, numbers[0] if numbers else None
