"""The wait for the answer to one of our requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import anyio

from eca_protocol.endpoint import CallAnswered
from eca_protocol.errors import ConnectionClosed, DeadlineExceeded
from eca_protocol.jsonrpc import Id, Request

__all__ = ["PendingCall"]

R = TypeVar("R")


class PendingCall(Generic[R]):
    """One of our requests that was sent; await `result()` once.

    Attributes:
        on_answer: called with the answer when it arrives, also after the wait for it was given up;
            None: an abandoned call is forgotten.
    """

    def __init__(
        self,
        request: Request,
        *,
        decode: Callable[[str, Any], R],
        abandon: Callable[[PendingCall[R]], None],
    ) -> None:
        self._decode = decode
        self._abandon = abandon
        self.id: Id = request.id
        self.method: str = request.method
        self.on_answer: Callable[[CallAnswered], None] | None = None
        self._event: anyio.Event | None = None  # while the answer is waited for
        self._outcome: CallAnswered | ConnectionClosed | None = None

    def settle(self, outcome: CallAnswered | ConnectionClosed) -> None:
        """Store the outcome and wake the waiting task; the peer calls this."""
        self._outcome = outcome
        if self._event is not None:
            self._event.set()
        if self.on_answer is not None and isinstance(outcome, CallAnswered):
            self.on_answer(outcome)

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
        try:
            if deadline is None:
                await self._event.wait()
            else:
                with anyio.move_on_after(deadline):
                    await self._event.wait()
        finally:
            if self._outcome is None:
                self._abandon(self)
