"""The Agent Client Protocol (ACP), stable wire version 1: its messages and its method table.

A `Peer` speaks it with `ACP`, `ACP_CODEC` and `ACP_DIALECT` over lines; `open_peer` makes one. The
version 2 is a draft that renames methods and replaces updates: it is no addition to these tables.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eca_protocol.acp import messages
    from eca_protocol.acp.methods import (
        ACP,
        ACP_CODEC,
        ACP_DIALECT,
        AUTHENTICATION_REQUIRED,
        PROTOCOL_VERSION,
        RESOURCE_NOT_FOUND,
    )
    from eca_protocol.acp.peers import open_peer

_MODULES = {
    "methods": (
        "ACP ACP_CODEC ACP_DIALECT AUTHENTICATION_REQUIRED PROTOCOL_VERSION RESOURCE_NOT_FOUND"
    ),
    "peers": "open_peer",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "ACP",
    "ACP_CODEC",
    "ACP_DIALECT",
    "AUTHENTICATION_REQUIRED",
    "PROTOCOL_VERSION",
    "RESOURCE_NOT_FOUND",
    "messages",
    "open_peer",
]


if not TYPE_CHECKING:  # a type checker would take any name

    def __getattr__(name: str) -> Any:
        if name == "messages":
            return importlib.import_module(f"{__name__}.messages")
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
