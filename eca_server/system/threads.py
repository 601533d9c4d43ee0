"""Worker threads on a machine that may start none for a while, as at a limit of processes.

`trio.to_thread.run_sync` raises RuntimeError then, which would end the connection if it were raised
in a task of its own. Here the work waits for its thread: for a new one, or for one that is free.
"""

from __future__ import annotations

import contextlib
import errno
import math
import socket
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, TypeVar

import trio

SWITCH_SECONDS: Final = 0.0005
"""The switch interval of the interpreter: the longest time that a busy thread delays the loop."""

THREAD_SECONDS: Final = 5.0
"""The longest wait for a thread in a turn."""

NAME_THREADS: Final = 64
"""The most threads that look up the names of hosts: a dead network holds each for a minute."""

MOST_PLACES: Final = 512
"""The most places that the default limiter gets for abandoned threads."""

_PAUSE: Final = 0.05
_GRACE: Final = 0.5  # seconds that a cancelled task waits for its work on a disk

_T = TypeVar("_T")


async def run_in_thread(
    work: Callable[[], _T],
    *,
    seconds: float = math.inf,
    abandon_on_cancel: bool = False,
    limiter: trio.CapacityLimiter | None = None,
) -> _T:
    """Return the result of work in a worker thread, as `trio.to_thread.run_sync` does.

    A thread abandoned by a cancelled task takes no place from the others of the default limiter, up
    to `MOST_PLACES`: a dead disk would hold them all.

    `seconds`: the longest wait for a thread.

    Raises:
        OSError: there was no thread in time.
    """
    has_started = has_ended = is_abandoned = has_own_place = False
    token = trio.lowlevel.current_trio_token()
    shared = trio.to_thread.current_default_thread_limiter()

    def run() -> _T:
        nonlocal has_started, has_ended
        has_started = True
        try:
            return work()
        finally:
            has_ended = True
            if is_abandoned:
                with contextlib.suppress(trio.RunFinishedError):
                    token.run_sync_soon(give_place_back)

    def give_place_back() -> None:
        shared.total_tokens -= has_own_place

    ending = trio.current_time() + seconds
    while True:
        try:
            return await trio.to_thread.run_sync(
                run, abandon_on_cancel=abandon_on_cancel, limiter=limiter
            )
        except trio.Cancelled:
            is_abandoned = True
            is_working = has_started and not has_ended
            has_own_place = is_working and limiter is None and shared.total_tokens < MOST_PLACES
            shared.total_tokens += has_own_place
            raise
        except RuntimeError as error:
            if has_started:
                raise
            if trio.current_time() >= ending:
                raise OSError(errno.EAGAIN, "no thread can be started") from error
        await trio.sleep(_PAUSE)


class NameLookups(trio.abc.HostnameResolver):
    """Look-ups of hosts in threads of their own.

    The thread of a cancelled look-up waits on. Among the threads of trio, those of a dead network
    would leave none for files and commands.
    """

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(NAME_THREADS)

    async def getaddrinfo(self, *arguments: Any) -> Any:
        """Return the addresses of a host, as `socket.getaddrinfo` does."""
        return await self._look_up(partial(socket.getaddrinfo, *arguments))

    async def getnameinfo(self, *arguments: Any) -> Any:
        """Return the name of an address, as `socket.getnameinfo` does."""
        return await self._look_up(partial(socket.getnameinfo, *arguments))

    async def _look_up(self, look_up: Callable[[], _T]) -> _T:
        return await run_in_thread(look_up, abandon_on_cancel=True, limiter=self._limiter)


async def run_on_disk(work: Callable[[], _T], *, seconds: float = math.inf) -> _T:
    """Return the result of work on a disk in a worker thread.

    If the task is cancelled it waits, for half a second, until the work ends or calls
    `trio.from_thread.check_cancelled`. The thread of a disk that does not answer, such as a dead
    network mount, is abandoned, so that it holds up no stop.

    `seconds`: the longest wait for a thread.

    Raises:
        OSError: there was no thread in time.
    """
    result: Future[_T] = Future()
    is_cancelled = False
    has_ended = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def run() -> None:
        if not result.set_running_or_notify_cancel():
            return
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised in the task
            result.set_exception(error)
        if is_cancelled:  # else the loop is woken by the end of the thread's work alone
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(has_ended.set)

    await trio.lowlevel.checkpoint_if_cancelled()
    try:
        await run_in_thread(run, seconds=seconds, abandon_on_cancel=True)
    except trio.Cancelled:
        is_cancelled = True
        if result.cancel():  # there was no thread for it yet
            raise
        if not result.done():
            with trio.move_on_after(_GRACE, shield=True):
                await has_ended.wait()
        if not result.done() or isinstance(result.exception(), trio.Cancelled):
            raise
    return result.result()
