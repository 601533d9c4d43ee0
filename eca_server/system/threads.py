"""Worker threads on a machine that may start none for a while, as at a limit of processes.

`trio.to_thread.run_sync` raises RuntimeError then, which would end the connection if it were raised
in a task of its own. Here the work waits for its thread: for a new one, or for one that is free.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Callable
from typing import Final, TypeVar

import trio

THREAD_SECONDS: Final = 5.0
"""The longest wait for a thread in a turn."""

_PAUSE: Final = 0.05

_T = TypeVar("_T")


async def run_in_thread(
    work: Callable[[], _T],
    *,
    seconds: float = math.inf,
    abandon_on_cancel: bool = False,
    limiter: trio.CapacityLimiter | None = None,
) -> _T:
    """Return the result of work in a worker thread, as `trio.to_thread.run_sync` does.

    `seconds`: the longest wait for a thread.

    Raises:
        OSError: there was no thread in time.
    """
    has_started = False

    def run() -> _T:
        nonlocal has_started
        has_started = True
        return work()

    ending = trio.current_time() + seconds
    while True:
        try:
            return await trio.to_thread.run_sync(
                run, abandon_on_cancel=abandon_on_cancel, limiter=limiter
            )
        except RuntimeError as error:
            if has_started:
                raise
            if trio.current_time() >= ending:
                raise OSError(errno.EAGAIN, "no thread can be started") from error
        await trio.sleep(_PAUSE)
