"""Tools and their servers (chapters "Tool updated" and "Tool server removed")."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import attrs

from eca_protocol.messages.marks import (
    Unknown,
    UnknownValue,
    ValueWindow,
    by_ruling,
    lenient,
    marked,
)
from eca_protocol.revisions import Revision, mark

EcaServerName: TypeAlias = Literal["ECA"] | UnknownValue
EcaServerStatus: TypeAlias = Literal["running"] | UnknownValue
MCPServerStatus: TypeAlias = (
    Literal["running", "starting", "stopped", "failed", "disabled"]
    | Annotated[Literal["requires-auth"], ValueWindow(since=Revision.CURRENT, fallback="failed")]
    | UnknownValue
)


@attrs.frozen(kw_only=True)
class ServerTool:
    """A tool; `parameters` is the JSON Schema of its arguments, unchanged."""

    name: str
    description: str = marked(lenient("W-60"), default="")
    parameters: Any
    disabled: bool | None = None


@attrs.frozen(kw_only=True)
class PromptArgument:
    """An argument of a prompt."""

    name: str
    description: str = marked(lenient("W-60"), default="")
    required: bool = marked(lenient("W-60"), default=False)


@attrs.frozen(kw_only=True)
class ServerPrompt:
    """A prompt of an MCP server."""

    name: str
    description: str = marked(lenient("W-60"), default="")
    arguments: tuple[PromptArgument, ...] | None = None


@attrs.frozen(kw_only=True)
class ServerResource:
    """A resource of an MCP server."""

    uri: str
    name: str = marked(lenient("W-60"), default="")
    description: str = marked(lenient("W-60"), default="")
    mime_type: str = marked(lenient("W-60"), default="")


@attrs.frozen(kw_only=True)
class EcaServerUpdatedParams:
    """`tool/serverUpdated` of the server's native tools."""

    type: ClassVar[Literal["native"]] = "native"
    name: EcaServerName
    status: EcaServerStatus
    tools: tuple[ServerTool, ...]


@attrs.frozen(kw_only=True)
class MCPServerUpdatedParams:
    """`tool/serverUpdated` of an MCP server: its command or URL, status, tools and the like.

    Absent `tools`, `prompts` and `resources` are unknown. `url` is for a server over HTTP; editions
    before CURRENT get it as `command` (W-36). `has_auth`: a login is stored for the server.
    """

    type: ClassVar[Literal["mcp"]] = "mcp"
    name: str
    command: str = marked(
        lenient("W-60", optional_since=Revision.CURRENT, omit_default=True), default=""
    )
    args: tuple[str, ...] = marked(
        lenient("W-60", optional_since=Revision.CURRENT, omit_default=True), default=()
    )
    url: str | None = marked(
        mark(since=Revision.CURRENT) | by_ruling("W-36", fallback_key="command")
    )
    status: MCPServerStatus = attrs.field(metadata=by_ruling("W-60"))
    disabled: bool = marked(mark(since=Revision.CURRENT) | lenient("W-60"), default=False)
    has_auth: bool = marked(mark(since=Revision.CURRENT) | lenient("W-60"), default=False)
    tools: tuple[ServerTool, ...] | None = None
    prompts: tuple[ServerPrompt, ...] | None = marked(
        mark(since=Revision.CURRENT) | by_ruling("W-60")
    )
    resources: tuple[ServerResource, ...] | None = marked(
        mark(since=Revision.CURRENT) | by_ruling("W-60")
    )


@attrs.frozen(kw_only=True)
class UnknownServerUpdatedParams(Unknown):
    """A server of an unknown type; `raw` is written unchanged."""


ToolServerUpdatedParams: TypeAlias = (
    EcaServerUpdatedParams | MCPServerUpdatedParams | UnknownServerUpdatedParams
)


@attrs.frozen(kw_only=True)
class ToolServerRemovedParams:
    """`tool/serverRemoved`: an MCP server was removed from the configuration."""

    name: str
