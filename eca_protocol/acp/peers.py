"""A `Peer` that speaks ACP over a byte stream of lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from eca_protocol.acp.methods import ACP, ACP_CODEC, ACP_DIALECT
from eca_protocol.endpoint import Side
from eca_protocol.framing import LINES
from eca_protocol.message_transport import StreamTransport
from eca_protocol.peer import Peer
from eca_protocol.streams import Transport

__all__ = ["open_peer"]


def open_peer(
    transport: Transport, *, side: Side, handlers: Mapping[str, Callable[[Any], Any]]
) -> Peer:
    """Return a peer to enter with `async with`; an agent's side is `server`."""
    return Peer(
        StreamTransport(transport, framing=LINES),
        side=side,
        table=ACP,
        codec=ACP_CODEC,
        handlers=handlers,
        dialect=ACP_DIALECT,
    )
