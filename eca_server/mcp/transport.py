"""The seam between a conversation with a server and the way its messages travel.

A session runs `eca_protocol.peer.Peer` over a `ServerTransport`. The peer gives each message to
`send` alone, framed by `framing.encode`; what `receive` gives is cut by `framing.decoder()`. An
HTTP body is a frame of its own: such a transport frames with `BODIES`. What only the transport
knows of a request (a status, an empty answer) it says as a JSON-RPC error with that request's id.
"""

from __future__ import annotations

from typing import Final, Protocol

from eca_protocol.errors import LocalProtocolError
from eca_protocol.framing import Frames, Framing
from eca_protocol.outbox import WriteShape
from eca_protocol.streams import Transport
from eca_server.mcp.eras import Era
from eca_server.mcp.faults import MCPFault

__all__ = ["BODIES", "ServerTransport"]


class ServerTransport(Transport, Protocol):
    """A two-way stream of messages to one server; `aclose` is bounded, and ends what was begun."""

    @property
    def framing(self) -> Framing:
        """How messages are put into `send` and cut out of `receive`."""
        ...

    @property
    def shape(self) -> WriteShape:
        """How messages become writes: each by itself."""
        ...

    def agree(self, era: Era) -> None:
        """Hear which revision is spoken from now on."""
        ...

    async def run(self) -> None:
        """Its work beside the session, in the session's nursery; `aclose` ends it.

        Raises nothing: what goes wrong ends `receive`, and is told by `fault`.
        """
        ...

    async def fault(self) -> MCPFault | None:
        """Why the stream has ended, as far as it is known beyond its end; bounded."""
        ...


class _Bodies:
    """Every piece that is fed is one message, whole."""

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
"""The framing of transports that give and take one whole message at a time."""
