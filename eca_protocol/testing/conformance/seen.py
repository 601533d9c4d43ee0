"""Which fields and values passed in a conversation: their rows are kept if none is broken.

What the server wrote counts when it came. What the client wrote counts when the server took it: a
field of a request when that had a result, a field of a notification at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eca_protocol.methods import ECA
from eca_protocol.testing.watching import Side
from eca_protocol.testing.watching.field_rows import rows_used

__all__ = ["Seen"]

_NATIVE_OR_MCP = "ToolServerUpdatedParams"


class Seen:
    """The rows of one conversation.

    Attributes:
        rows: the ids.
    """

    def __init__(self) -> None:
        self.rows: set[str] = set()
        self._asked: dict[tuple[Side, str], tuple[str, set[str]]] = {}

    def take(self, side: Side, message: Mapping[str, Any], key: str) -> None:
        """Take the next message.

        Args:
            side: who wrote it.
            message: the whole message.
            key: its id as JSON, if it has one.
        """
        method = message.get("method")
        if not isinstance(method, str):
            self._answered(side, message, key)
        elif method in ECA:
            rows = set(rows_used(_interface(ECA[method].params), message.get("params")))
            if "id" in message and side == "client":
                self._asked[side, key] = (method, rows)
            else:
                self.rows |= rows

    def _answered(self, side: Side, message: Mapping[str, Any], key: str) -> None:
        asker: Side = "client" if side == "server" else "server"
        method, rows = self._asked.pop((asker, key), ("", set()))
        if method and "result" in message:
            self.rows |= rows
            self.rows |= set(rows_used(_interface(ECA[method].result), message["result"]))


def _interface(hint: object) -> str:
    return getattr(hint, "__name__", _NATIVE_OR_MCP)
