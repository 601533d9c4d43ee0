"""One typed method for each message that a client sends, named as in the method table."""

from __future__ import annotations

from eca_protocol import messages as m
from eca_protocol.client.chat_calls import ChatCalls
from eca_protocol.client.history_calls import HistoryCalls
from eca_protocol.client.server_calls import ServerCalls

__all__ = ["Calls"]


class Calls(ChatCalls, HistoryCalls, ServerCalls):
    """The client's side of the protocol, message by message; see `Caller` for its exceptions."""

    async def initialize(
        self, params: m.InitializeParams, *, deadline: float | None = None
    ) -> m.InitializeResponse:
        """Begin the connection (chapter "Initialize"); `connect` calls this."""
        try:
            result = await self._request("initialize", params, deadline)
        except BaseException:
            self._gate.record_answer("initialize", success=False)
            raise
        self._gate.record_answer("initialize", success=True)
        return result if isinstance(result, m.InitializeResponse) else m.InitializeResponse()

    def initialized(self) -> None:
        """Allow the server to send notifications; `connect` calls this."""
        self._notify("initialized", m.InitializedParams())

    async def shutdown(self, *, deadline: float | None = None) -> None:
        """Let the server clean up; leaving the client calls this."""
        await self._request("shutdown", None, deadline)

    def exit(self) -> None:
        """Let the server's process end; leaving the client calls this."""
        self._notify("exit")
