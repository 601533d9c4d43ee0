"""How a client sends its messages: through the lifecycle's gate, with a deadline."""

from __future__ import annotations

from typing import Any

from eca_protocol.lifecycle import LifecycleGate
from eca_protocol.peer import Peer, PendingCall

__all__ = ["Caller"]


class Caller:
    """What every method of a client does.

    Requests raise what `PendingCall.result` raises; a message that the lifecycle does not allow
    now, and a request that the revision does not know, is a LocalProtocolError, a notification to
    a server that is gone a ConnectionClosed. `deadline` is in seconds.
    """

    def __init__(self, peer: Peer, *, deadline: float | None) -> None:
        self._peer = peer
        self._gate = LifecycleGate()
        self.deadline = deadline

    def start_request(self, method: str, params: Any) -> PendingCall:
        """Send a request; its answer is `await call.result()`."""
        self._gate.check_sending(method, "request")
        return self._peer.start_call(method, params)

    async def _request(self, method: str, params: Any, deadline: float | None = None) -> Any:
        return await self.start_request(method, params).result(deadline=deadline or self.deadline)

    def _notify(self, method: str, params: Any = None) -> None:
        self._gate.check_sending(method, "notification")
        self._peer.notify(method, params)
