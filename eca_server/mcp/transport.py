"""The interface between a conversation with a server and its transport.

A session runs `eca_protocol.peer.Peer` over a `ServerTransport`. The peer passes each message to
`send` by itself, framed by `framing.encode`; the bytes of `receive` are split by
`framing.decoder()`. An HTTP body is one frame: such a transport uses `BODIES`. Errors that only the
transport sees (a status, an empty answer) become JSON-RPC errors with the request's id.
"""

from __future__ import annotations

from typing import Final, Protocol

from eca_protocol.errors import LocalProtocolError
from eca_protocol.framing import Frames, Framing
from eca_protocol.outbox import WriteShape
from eca_protocol.streams import Transport
from eca_server.mcp.eras import Era
from eca_server.mcp.errors import MCPError

__all__ = ["BODIES", "ServerTransport"]


class ServerTransport(Transport, Protocol):
    """A two-way stream of messages to one server; `aclose` is bounded and ends its requests."""

    @property
    def framing(self) -> Framing:
        """The framing of messages in `send` and `receive`."""
        ...

    @property
    def shape(self) -> WriteShape:
        """The shape of writes: one message each."""
        ...

    def agree(self, era: Era) -> None:
        """Set the negotiated revision."""
        ...

    async def run(self) -> None:
        """Do background work in the session's nursery until `aclose`.

        Raises nothing: an error ends `receive`, and `error` returns it.
        """
        ...

    async def error(self) -> MCPError | None:
        """Return the reason of the stream's end, if it is known; bounded."""
        ...


class _Bodies:
    """A decoder for which every chunk is one whole message."""

    def __init__(self) -> None:
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def feed(self, data: bytes) -> Frames:
        if self._closed:
            raise LocalProtocolError("expected no body after the end of the stream, got one")
        return [data]

    def feed_eof(self) -> Frames:
        self._closed = True
        return []


def _as_it_is(body: bytes) -> bytes:
    return body


BODIES: Final = Framing(decoder=_Bodies, encode=_as_it_is)
"""The framing of transports that send and receive one whole message at a time."""
