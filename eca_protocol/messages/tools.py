"""Tools, and the servers they come from (chapters "Tool updated" to "Start MCP server")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import attrs

from eca_protocol.messages.marks import Late, UnknownValue, allowed, forgiven
from eca_protocol.revisions import Revision, mark

__all__ = [
    "EcaServerName",
    "EcaServerStatus",
    "EcaServerUpdatedParams",
    "MCPServerStatus",
    "MCPServerUpdatedParams",
    "MCPStartServerParams",
    "MCPStopServerParams",
    "ServerTool",
    "ToolServerUpdatedParams",
    "UnknownServerUpdatedParams",
]

EcaServerName: TypeAlias = Literal["ECA"] | UnknownValue
EcaServerStatus: TypeAlias = Literal["running"] | UnknownValue
MCPServerStatus: TypeAlias = (
    Literal["running", "starting", "stopped", "failed", "disabled"]
    | Annotated[Literal["requires-auth"], Late(since=Revision.CURRENT, fallback="failed")]
    | UnknownValue
)


@attrs.frozen(kw_only=True)
class ServerTool:
    """A tool; `parameters` is the JSON Schema of its arguments and passes untouched."""

    name: str
    description: str = attrs.field(default="", metadata=forgiven("W-60"))
    parameters: Any
    disabled: bool | None = None


@attrs.frozen(kw_only=True)
class EcaServerUpdatedParams:
    """`tool/serverUpdated` of the tools that are built into the server."""

    type: ClassVar[Literal["native"]] = "native"
    name: EcaServerName
    status: EcaServerStatus
    tools: tuple[ServerTool, ...]


@attrs.frozen(kw_only=True)
class MCPServerUpdatedParams:
    """`tool/serverUpdated` of an MCP server: how it is started, how it is, what it offers.

    `tools` is None where nothing is said about them. `url` is a server reached over HTTP, which
    editions before CURRENT spell in `command` (W-36).
    """

    type: ClassVar[Literal["mcp"]] = "mcp"
    name: str
    command: str = attrs.field(default="", metadata=forgiven("W-60"))
    args: tuple[str, ...] = attrs.field(default=(), metadata=forgiven("W-60"))
    url: str | None = attrs.field(
        default=None, metadata=mark(since=Revision.CURRENT) | allowed("W-60")
    )
    status: MCPServerStatus = attrs.field(metadata=allowed("W-60"))
    tools: tuple[ServerTool, ...] | None = None


@attrs.frozen(kw_only=True)
class UnknownServerUpdatedParams:
    """A server of a type this package does not know; `raw` is written as it came."""

    type: str | None
    raw: Mapping[str, Any]


ToolServerUpdatedParams: TypeAlias = (
    EcaServerUpdatedParams | MCPServerUpdatedParams | UnknownServerUpdatedParams
)


@attrs.frozen(kw_only=True)
class MCPStopServerParams:
    """`mcp/stopServer`: end an MCP server's process."""

    name: str = attrs.field(default="", metadata=forgiven("W-3"))


@attrs.frozen(kw_only=True)
class MCPStartServerParams:
    """`mcp/startServer`: start an MCP server that is not running."""

    name: str = attrs.field(default="", metadata=forgiven("W-3"))
