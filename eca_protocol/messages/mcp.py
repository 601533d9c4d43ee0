"""A client's messages about MCP servers (chapters "Stop MCP server" to "Remove MCP Server").

All but start and stop exist only in CURRENT. `env` and `headers` have keys of the user's choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs

from eca_protocol.messages.marks import UnknownValue, lenient, marked
from eca_protocol.messages.tools import MCPServerUpdatedParams

MCPScope: TypeAlias = Literal["global", "workspace"] | UnknownValue


@attrs.frozen(kw_only=True)
class _NamedServer:
    name: str = marked(lenient("W-3"), default="")


@attrs.frozen(kw_only=True)
class MCPStopServerParams(_NamedServer):
    """`mcp/stopServer`: end an MCP server's process."""


@attrs.frozen(kw_only=True)
class MCPStartServerParams(_NamedServer):
    """`mcp/startServer`: start a stopped MCP server."""


@attrs.frozen(kw_only=True)
class MCPConnectServerParams(_NamedServer):
    """`mcp/connectServer`: log in to an MCP server that requires it."""


@attrs.frozen(kw_only=True)
class MCPLogoutServerParams(_NamedServer):
    """`mcp/logoutServer`: delete the login, and restart the server without it."""


@attrs.frozen(kw_only=True)
class MCPDisableServerParams(_NamedServer):
    """`mcp/disableServer`: stop and disable an MCP server."""


@attrs.frozen(kw_only=True)
class MCPEnableServerParams(_NamedServer):
    """`mcp/enableServer`: enable and start an MCP server."""


@attrs.frozen(kw_only=True)
class MCPUpdateServerParams:
    """`mcp/updateServer`: change an MCP server's command or URL; absent members are unchanged."""

    name: str
    command: str | None = None
    args: tuple[str, ...] | None = None
    url: str | None = None
    env: Mapping[str, Any] | None = None
    headers: Mapping[str, Any] | None = None


@attrs.frozen(kw_only=True)
class MCPUpdateServerResult:
    """The answer to `mcp/updateServer`, without members."""


@attrs.frozen(kw_only=True)
class MCPAddServerParams:
    """`mcp/addServer`: add an MCP server, over stdio (`command`) or HTTP (`url`).

    `scope`: for all workspaces of the user, or for the workspace `workspace_uri`.
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
    """The answer to `mcp/addServer`; the server's status comes as `tool/serverUpdated`."""

    server: MCPServerUpdatedParams | None = None


@attrs.frozen(kw_only=True)
class MCPRemoveServerParams:
    """`mcp/removeServer`: stop and remove an MCP server."""

    name: str


@attrs.frozen(kw_only=True)
class MCPRemoveServerResult:
    """The answer to `mcp/removeServer`."""

    name: str | None = None
    removed: bool | None = None
