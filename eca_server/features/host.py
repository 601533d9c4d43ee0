"""The process side of a connection."""

from __future__ import annotations

import attrs
import trio

from eca_protocol.http import HTTPClient
from eca_protocol.peer import Peer
from eca_server.features.options import Options

__all__ = ["Host"]


@attrs.frozen(eq=False, repr=False)
class Host:
    """The foundation of the parts of a connection: the peer, the tasks, the options, HTTP."""

    peer: Peer
    nursery: trio.Nursery
    options: Options
    http: HTTPClient
