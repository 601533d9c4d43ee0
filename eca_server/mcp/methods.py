"""MCP's method table for our peer, and its codec.

A row's `params` and `result` are readers of raw JSON (`reading.py`); None means that nothing of
it is read. What we send are mappings, which an `Era` completes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from eca_protocol.endpoint import Direction, Method, Table
from eca_server.mcp.eras import Era
from eca_server.mcp.reading import (
    read_contents,
    read_discovered,
    read_initialized,
    read_input_required,
    read_log_message,
    read_page,
    read_progress,
    read_prompt,
    read_prompt_result,
    read_resource,
    read_template,
    read_tool,
    read_tool_result,
    read_updated,
)

__all__ = ["CAPABILITIES", "CLIENT", "TABLE", "MCPCodec"]

CLIENT: Final[Mapping[str, Any]] = {
    "name": "eca-for-python",
    "title": "ECA for Python",
    "version": "0.1.0",
}
"""Who we say we are."""

CAPABILITIES: Final[Mapping[str, Any]] = {"roots": {"listChanged": True}}
"""What servers may ask of us. Sampling and elicitation are not declared."""

_STATELESS_CAPABILITIES: Final[Mapping[str, Any]] = {"roots": {}}


def _row(
    name: str,
    direction: Direction,
    *,
    kind: Literal["request", "notification"] = "request",
    params: Any = None,
    result: Any = None,
) -> Method:
    return Method(name=name, kind=kind, direction=direction, params=params, result=result)


def _asked(name: str, result: Any = None) -> Method:
    return _row(name, "client_to_server", result=result)


def _told(name: str, params: Any = None) -> Method:
    return _row(f"notifications/{name}", "server_to_client", kind="notification", params=params)


TABLE: Final = Table(
    [
        _asked("initialize", read_initialized),
        _asked("server/discover", read_discovered),
        _asked("tools/list", read_page("tools", read_tool)),
        _asked("tools/call", read_tool_result),
        _asked("prompts/list", read_page("prompts", read_prompt)),
        _asked("prompts/get", read_prompt_result),
        _asked("resources/list", read_page("resources", read_resource)),
        _asked("resources/templates/list", read_page("resourceTemplates", read_template)),
        _asked("resources/read", read_contents),
        _asked("resources/subscribe"),
        _asked("subscriptions/listen"),
        _row("notifications/initialized", "client_to_server", kind="notification"),
        _row("notifications/roots/list_changed", "client_to_server", kind="notification"),
        _row("ping", "both"),
        _row("roots/list", "server_to_client"),
        _told("progress", read_progress),
        _told("message", read_log_message),
        _told("tools/list_changed"),
        _told("prompts/list_changed"),
        _told("resources/list_changed"),
        _told("resources/updated", read_updated),
    ]
)


class MCPCodec:
    """Raw JSON to messages and back, in one era."""

    def __init__(self, era: Era) -> None:
        self.era = era

    def decode_params(self, method: str, raw: Any) -> Any:
        """What a server asks or tells."""
        reader = TABLE[method].params
        return None if reader is None else reader(raw)

    def encode_params(self, method: str, params: Any) -> Any:
        """What we ask, with what the era adds."""
        given = {} if params is None else params
        return self.era.params(given, client=CLIENT, capabilities=_STATELESS_CAPABILITIES)

    def decode_result(self, method: str, raw: Any) -> Any:
        """What a server answered; `InputRequired` where it asks something first.

        Raises:
            MCPFault: the answer lacks its essential part.
        """
        if self.era.stateless:
            question = read_input_required(raw)
            if question is not None:
                return question
        reader = TABLE[method].result
        return None if reader is None else reader(raw)

    def encode_result(self, method: str, result: Any) -> Any:
        """What we answer: JSON already."""
        return result

    def incoming(self, method: str, raw: Any) -> Sequence[tuple[str, Any]]:
        """A notification of the server's."""
        return ((method, self.decode_params(method, raw)),)

    def outgoing(self, method: str, params: Any) -> Sequence[tuple[str, Any]]:
        """A notification of ours."""
        return ((method, params),)
