"""The interface between a conversation with a server and its transport.

A session runs `eca_protocol.peer.Peer` over the messages of a `ServerTransport`. Errors that only
the transport sees (a status, an empty answer) become JSON-RPC errors with the request's id.
"""

from __future__ import annotations

from typing import Protocol

from eca_protocol.message_transport import MessageTransport, Reader
from eca_server.agent.mcp.eras import Era
from eca_server.agent.mcp.errors import MCPError


class ServerTransport(Protocol):
    """A connection to one server; closing its messages is bounded and ends its requests."""

    def messages(self, read: Reader) -> MessageTransport:
        """Return the messages to and from the server; `read` reads the received frames."""
        ...

    def agree(self, era: Era) -> None:
        """Set the negotiated revision."""
        ...

    async def error(self) -> MCPError | None:
        """Return the reason of the stream's end, if it is known; bounded."""
        ...
