"""The waits for the answers to our requests, and their deadlines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import anyio

from eca_protocol.endpoint import CallAnswered
from eca_protocol.errors import ConnectionClosed, DeadlineExceeded
from eca_protocol.jsonrpc import Id, Request

__all__ = ["CallDeadlines", "PendingCall"]

LONGEST_PAUSE: Final = 60.0
"""The longest pause of the watch, in seconds: it does not wake long after the last call."""

R = TypeVar("R")


class PendingCall(Generic[R]):
    """One of our requests that was sent; await `result()` once.

    Attributes:
        on_answer: called with the answer when it arrives, also after the wait for it was given up;
            None: an abandoned call is forgotten.
        expires_at: the time of the event loop at which the wait ends without an answer; while the
            wait lasts, it may be moved to a later time.
    """

    def __init__(
        self,
        request: Request,
        *,
        decode: Callable[[str, Any], R],
        abandon: Callable[[PendingCall[R]], None],
        deadlines: CallDeadlines,
    ) -> None:
        self._decode = decode
        self._abandon = abandon
        self._deadlines = deadlines
        self.id: Id = request.id
        self.method: str = request.method
        self.on_answer: Callable[[CallAnswered], None] | None = None
        self.expires_at: float = math.inf
        self._event: anyio.Event | None = None  # while the answer is waited for
        self._outcome: CallAnswered | ConnectionClosed | None = None

    def settle(self, outcome: CallAnswered | ConnectionClosed) -> None:
        """Store the outcome and wake the waiting task; the peer calls this."""
        self._outcome = outcome
        self.end_wait()
        if self.on_answer is not None and isinstance(outcome, CallAnswered):
            self.on_answer(outcome)

    def end_wait(self) -> None:
        """Wake the waiting task, if there is one."""
        if self._event is not None:
            self._event.set()

    @property
    def is_answered(self) -> bool:
        """True if the answer has arrived, even if `result()` has not returned it yet."""
        return self._outcome is not None

    async def result(self, *, deadline: float | None = None) -> R:
        """Wait for the typed result.

        A cancelled or expired wait cancels the request at the other side.

        Args:
            deadline: seconds to wait; None: no limit.

        Raises:
            RequestFailed: the other side answered with an error.
            DeadlineExceeded: no answer came within `deadline`.
            ConnectionClosed: the connection ended before the answer.
            DecodeError: the answer does not fit its type.
        """
        if self._outcome is None:
            await self._wait(deadline)
        if self._outcome is None:
            assert deadline is not None
            raise DeadlineExceeded(f"the answer to {self.method}", deadline)
        if isinstance(self._outcome, ConnectionClosed):
            raise self._outcome
        if self._outcome.error is not None:
            raise self._outcome.error
        return self._decode(self.method, self._outcome.result)

    async def _wait(self, deadline: float | None) -> None:
        self._event = anyio.Event()
        if deadline is not None:
            self.expires_at = anyio.current_time() + deadline
            self._deadlines.add(self.expires_at)
        try:
            await self._event.wait()
        finally:
            if self._outcome is None:
                self._abandon(self)


class CallDeadlines:
    """The deadlines of a connection's calls, all watched by one task.

    A cancel scope for each call takes several times as long.

    Args:
        calls: the pending calls by their ids; the caller changes it.
    """

    def __init__(self, calls: Mapping[Id, PendingCall[Any]]) -> None:
        self._calls = calls
        self._pause = anyio.CancelScope()
        self._is_closed = False

    def add(self, expires_at: float) -> None:
        """Note that a pending call expires at this time."""
        if expires_at < self._pause.deadline:
            self._pause.deadline = min(expires_at, anyio.current_time() + LONGEST_PAUSE)

    async def watch(self) -> None:
        """End the wait for each call that expires, until closed."""
        while not self._is_closed:
            with self._pause:
                await anyio.sleep_forever()
            now, self._pause = anyio.current_time(), anyio.CancelScope()
            for call in self._calls.values():
                if call.expires_at <= now:
                    call.expires_at = math.inf
                    call.end_wait()
                self.add(call.expires_at)

    def close(self) -> None:
        """End the watch: no call is pending any longer."""
        self._is_closed = True
        self._pause.cancel()
