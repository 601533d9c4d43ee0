"""Fields and values that occurred in a conversation: their rows pass if none is broken.

A server's field counts when it occurs. A client's field counts when the server accepts it: in a
request with its result, in a notification at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eca_protocol.methods import ECA
from eca_protocol.testing.watching import Side
from eca_protocol.testing.watching.field_rows import rows_used

_NATIVE_OR_MCP = "ToolServerUpdatedParams"


class ObservedFields:
    """The rows of one conversation."""

    def __init__(self) -> None:
        self.rows: set[str] = set()
        self._pending: dict[tuple[Side, str], tuple[str, set[str]]] = {}

    def take(self, side: Side, message: Mapping[str, Any], key: str) -> None:
        """Take the next message."""
        method = message.get("method")
        if not isinstance(method, str):
            self._take_answer(side, message, key)
        elif method in ECA:
            rows = set(rows_used(_interface(ECA[method].params), message.get("params")))
            if "id" in message and side == "client":
                self._pending[side, key] = (method, rows)
            else:
                self.rows |= rows

    def _take_answer(self, side: Side, message: Mapping[str, Any], key: str) -> None:
        requester: Side = "client" if side == "server" else "server"
        method, rows = self._pending.pop((requester, key), ("", set()))
        if method and "result" in message:
            self.rows |= rows
            self.rows |= set(rows_used(_interface(ECA[method].result), message["result"]))


def _interface(hint: object) -> str:
    return hint.__name__ if isinstance(hint, type) else _NATIVE_OR_MCP
