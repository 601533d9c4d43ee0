"""The sending of a client's messages, checked by the lifecycle and with a deadline."""

from __future__ import annotations

from typing import Any

from eca_protocol.lifecycle import LifecycleGate
from eca_protocol.peer import Peer, PendingCall

__all__ = ["Caller"]


class Caller:
    """The base of a client's methods.

    Requests raise the exceptions of `PendingCall.result`. A message that the lifecycle does not
    allow, and a request that is not in the revision, raises LocalProtocolError. A notification on
    a closed connection raises ConnectionClosed.

    Attributes:
        deadline: the default limit of a request, in seconds; None: no limit.
    """

    def __init__(self, peer: Peer, *, deadline: float | None) -> None:
        self._peer = peer
        self._gate = LifecycleGate()
        self.deadline = deadline

    def start_request(self, method: str, params: Any) -> PendingCall:
        """Send a request; await the returned call's `result()` for its answer."""
        self._gate.check_sending(method, "request")
        return self._peer.start_call(method, params)

    async def _request(self, method: str, params: Any, deadline: float | None = None) -> Any:
        return await self.start_request(method, params).result(deadline=deadline or self.deadline)

    def _notify(self, method: str, params: Any = None) -> None:
        self._gate.check_sending(method, "notification")
        self._peer.notify(method, params)
