"""The Agent Client Protocol (ACP), stable wire version 1: its messages and its method table.

A `Peer` speaks it with `ACP`, `ACP_CODEC` and `ACP_DIALECT` over lines; `open_peer` makes one. The
version 2 is a draft that renames methods and replaces updates: it is no addition to these tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eca_protocol.lazy import export

if TYPE_CHECKING:
    from eca_protocol.acp import messages as messages
    from eca_protocol.acp.methods import ACP as ACP
    from eca_protocol.acp.methods import ACP_CODEC as ACP_CODEC
    from eca_protocol.acp.methods import ACP_DIALECT as ACP_DIALECT
    from eca_protocol.acp.methods import AUTHENTICATION_REQUIRED as AUTHENTICATION_REQUIRED
    from eca_protocol.acp.methods import PROTOCOL_VERSION as PROTOCOL_VERSION
    from eca_protocol.acp.methods import RESOURCE_NOT_FOUND as RESOURCE_NOT_FOUND
    from eca_protocol.acp.peers import open_peer as open_peer

_MODULES = {
    "methods": (
        "ACP ACP_CODEC ACP_DIALECT AUTHENTICATION_REQUIRED PROTOCOL_VERSION RESOURCE_NOT_FOUND"
    ),
    "peers": "open_peer",
}
export(globals(), _MODULES, ["messages"])
