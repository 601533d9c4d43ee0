"""What a client does with MCP servers (chapters "Stop MCP server" to "Remove MCP Server").

All but start and stop are CURRENT's. `env` and `headers` are the user's own keys, untouched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs

from eca_protocol.messages.marks import UnknownValue, lenient
from eca_protocol.messages.tools import MCPServerUpdatedParams

__all__ = [
    "MCPAddServerParams",
    "MCPAddServerResult",
    "MCPConnectServerParams",
    "MCPDisableServerParams",
    "MCPEnableServerParams",
    "MCPLogoutServerParams",
    "MCPRemoveServerParams",
    "MCPRemoveServerResult",
    "MCPScope",
    "MCPStartServerParams",
    "MCPStopServerParams",
    "MCPUpdateServerParams",
    "MCPUpdateServerResult",
]

MCPScope: TypeAlias = Literal["global", "workspace"] | UnknownValue


@attrs.frozen(kw_only=True)
class MCPStopServerParams:
    """`mcp/stopServer`: end an MCP server's process."""

    name: str = attrs.field(default="", metadata=lenient("W-3"))


@attrs.frozen(kw_only=True)
class MCPStartServerParams:
    """`mcp/startServer`: start an MCP server that is not running."""

    name: str = attrs.field(default="", metadata=lenient("W-3"))


@attrs.frozen(kw_only=True)
class MCPConnectServerParams:
    """`mcp/connectServer`: log in to an MCP server that asks for it."""

    name: str = attrs.field(default="", metadata=lenient("W-3"))


@attrs.frozen(kw_only=True)
class MCPLogoutServerParams:
    """`mcp/logoutServer`: forget the login, and start the server again without it."""

    name: str = attrs.field(default="", metadata=lenient("W-3"))


@attrs.frozen(kw_only=True)
class MCPDisableServerParams:
    """`mcp/disableServer`: stop an MCP server, and keep it from starting until it is enabled."""

    name: str = attrs.field(default="", metadata=lenient("W-3"))


@attrs.frozen(kw_only=True)
class MCPEnableServerParams:
    """`mcp/enableServer`: let an MCP server run again, and start it."""

    name: str = attrs.field(default="", metadata=lenient("W-3"))


@attrs.frozen(kw_only=True)
class MCPUpdateServerParams:
    """`mcp/updateServer`: change how an MCP server is reached; what is left out stays."""

    name: str
    command: str | None = None
    args: tuple[str, ...] | None = None
    url: str | None = None
    env: Mapping[str, Any] | None = None
    headers: Mapping[str, Any] | None = None


@attrs.frozen(kw_only=True)
class MCPUpdateServerResult:
    """The answer to `mcp/updateServer`; it says nothing more."""


@attrs.frozen(kw_only=True)
class MCPAddServerParams:
    """`mcp/addServer`: an MCP server more, over stdio (`command`) or over HTTP (`url`).

    `scope` says whether it is the user's everywhere or that of the workspace `workspace_uri`.
    """

    name: str
    command: str | None = None
    args: tuple[str, ...] | None = None
    env: Mapping[str, Any] | None = None
    url: str | None = None
    headers: Mapping[str, Any] | None = None
    client_id: str | None = None
    client_secret: str | None = attrs.field(default=None, repr=False)
    oauth_port: int | None = None
    auth_scope: str | None = None
    disabled: bool | None = None
    scope: MCPScope | None = None
    workspace_uri: str | None = None


@attrs.frozen(kw_only=True)
class MCPAddServerResult:
    """The answer to `mcp/addServer`; what becomes of the server comes as `tool/serverUpdated`."""

    server: MCPServerUpdatedParams | None = None


@attrs.frozen(kw_only=True)
class MCPRemoveServerParams:
    """`mcp/removeServer`: stop an MCP server and forget it."""

    name: str


@attrs.frozen(kw_only=True)
class MCPRemoveServerResult:
    """The answer to `mcp/removeServer`."""

    name: str | None = None
    removed: bool | None = None
