"""MCP's method table for our peer, and its codec.

A row's `params` and `result` are readers of raw JSON (`readers.py`); None means that it is not
read. We send mappings, which an `Era` completes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from eca_protocol.endpoint import Direction, Method, Table
from eca_server.agent.mcp import readers
from eca_server.agent.mcp.eras import Era

CLIENT: Final[Mapping[str, Any]] = {
    "name": "eca-for-python",
    "title": "ECA for Python",
    "version": "0.1.0",
}
"""Our name and version for servers."""

CAPABILITIES: Final[Mapping[str, Any]] = {"roots": {"listChanged": True}}
"""Our capabilities. Sampling and elicitation are not declared."""

_STATELESS_CAPABILITIES: Final[Mapping[str, Any]] = {"roots": {}}


def _row(
    name: str,
    direction: Direction,
    *,
    kind: Literal["request", "notification"] = "request",
    params: Any = None,
    result: Any = None,
) -> Method:
    return Method(name=name, kind=kind, direction=direction, types=lambda: (params, result))


def _request_row(name: str, result: Any = None) -> Method:
    return _row(name, "client_to_server", result=result)


def _notification(name: str, params: Any = None) -> Method:
    return _row(f"notifications/{name}", "server_to_client", kind="notification", params=params)


TABLE: Final = Table(
    [
        _request_row("initialize", readers.read_initialized),
        _request_row("server/discover", readers.read_discovered),
        _request_row("tools/list", readers.read_page("tools", readers.read_tool)),
        _request_row("tools/call", readers.read_tool_result),
        _request_row("prompts/list", readers.read_page("prompts", readers.read_prompt)),
        _request_row("prompts/get", readers.read_prompt_result),
        _request_row("resources/list", readers.read_page("resources", readers.read_resource)),
        _request_row(
            "resources/templates/list",
            readers.read_page("resourceTemplates", readers.read_template),
        ),
        _request_row("resources/read", readers.read_contents),
        _request_row("resources/subscribe"),
        _request_row("subscriptions/listen"),
        _row("notifications/initialized", "client_to_server", kind="notification"),
        _row("notifications/roots/list_changed", "client_to_server", kind="notification"),
        _row("ping", "both"),
        _row("roots/list", "server_to_client"),
        _notification("progress", readers.read_progress),
        _notification("message", readers.read_log_message),
        _notification("tools/list_changed"),
        _notification("prompts/list_changed"),
        _notification("resources/list_changed"),
        _notification("resources/updated", readers.read_updated),
    ]
)


class MCPCodec:
    """Converts raw JSON to messages and back, in one era."""

    def __init__(self, era: Era) -> None:
        self.era = era

    def decode_params(self, method: str, raw: Any) -> Any:
        """Read the params of a server's request or notification."""
        reader = TABLE[method].params
        return None if reader is None else reader(raw)

    def encode_params(self, method: str, params: Any) -> Any:
        """Return our params with the era's additions."""
        values = {} if params is None else params
        return self.era.params(values, client=CLIENT, capabilities=_STATELESS_CAPABILITIES)

    def decode_result(self, method: str, raw: Any) -> Any:
        """Read a server's answer; return `InputRequired` if it asks a question first.

        Raises:
            MCPError: the answer lacks a required part.
        """
        if self.era.stateless:
            question = readers.read_input_required(raw)
            if question is not None:
                return question
        reader = TABLE[method].result
        return None if reader is None else reader(raw)

    def encode_result(self, method: str, result: Any) -> Any:
        """Return our result, which is JSON already."""
        return result

    def incoming(self, method: str, raw: Any) -> Sequence[tuple[str, Any]]:
        """Read a server's notification."""
        return ((method, self.decode_params(method, raw)),)

    def outgoing(self, method: str, params: Any) -> Sequence[tuple[str, Any]]:
        """Return our notification unchanged."""
        return ((method, params),)
