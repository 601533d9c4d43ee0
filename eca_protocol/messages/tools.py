"""Tools, and the servers they come from (chapters "Tool updated" and "Tool server removed")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import attrs

from eca_protocol.messages.marks import UnknownValue, ValueWindow, by_ruling, lenient
from eca_protocol.revisions import Revision, mark

__all__ = [
    "EcaServerName",
    "EcaServerStatus",
    "EcaServerUpdatedParams",
    "MCPServerStatus",
    "MCPServerUpdatedParams",
    "PromptArgument",
    "ServerPrompt",
    "ServerResource",
    "ServerTool",
    "ToolServerRemovedParams",
    "ToolServerUpdatedParams",
    "UnknownServerUpdatedParams",
]

EcaServerName: TypeAlias = Literal["ECA"] | UnknownValue
EcaServerStatus: TypeAlias = Literal["running"] | UnknownValue
MCPServerStatus: TypeAlias = (
    Literal["running", "starting", "stopped", "failed", "disabled"]
    | Annotated[Literal["requires-auth"], ValueWindow(since=Revision.CURRENT, fallback="failed")]
    | UnknownValue
)


@attrs.frozen(kw_only=True)
class ServerTool:
    """A tool; `parameters` is the JSON Schema of its arguments and passes untouched."""

    name: str
    description: str = attrs.field(default="", metadata=lenient("W-60"))
    parameters: Any
    disabled: bool | None = None


@attrs.frozen(kw_only=True)
class PromptArgument:
    """What is filled into a prompt."""

    name: str
    description: str = attrs.field(default="", metadata=lenient("W-60"))
    required: bool = attrs.field(default=False, metadata=lenient("W-60"))


@attrs.frozen(kw_only=True)
class ServerPrompt:
    """A prompt that an MCP server offers."""

    name: str
    description: str = attrs.field(default="", metadata=lenient("W-60"))
    arguments: tuple[PromptArgument, ...] | None = None


@attrs.frozen(kw_only=True)
class ServerResource:
    """A resource that an MCP server offers."""

    uri: str
    name: str = attrs.field(default="", metadata=lenient("W-60"))
    description: str = attrs.field(default="", metadata=lenient("W-60"))
    mime_type: str = attrs.field(default="", metadata=lenient("W-60"))


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

    `tools`, `prompts` and `resources` are left out where nothing is said. `url` is a server
    reached over HTTP; editions before CURRENT are told it as its `command` (W-36). `has_auth`: a
    login is stored for it.
    """

    type: ClassVar[Literal["mcp"]] = "mcp"
    name: str
    command: str = attrs.field(
        default="",
        metadata=lenient("W-60", optional_since=Revision.CURRENT, omit_default=True),
    )
    args: tuple[str, ...] = attrs.field(
        default=(),
        metadata=lenient("W-60", optional_since=Revision.CURRENT, omit_default=True),
    )
    url: str | None = attrs.field(
        default=None,
        metadata=mark(since=Revision.CURRENT) | by_ruling("W-36", fallback_key="command"),
    )
    status: MCPServerStatus = attrs.field(metadata=by_ruling("W-60"))
    disabled: bool = attrs.field(
        default=False, metadata=mark(since=Revision.CURRENT) | lenient("W-60")
    )
    has_auth: bool = attrs.field(
        default=False, metadata=mark(since=Revision.CURRENT) | lenient("W-60")
    )
    tools: tuple[ServerTool, ...] | None = None
    prompts: tuple[ServerPrompt, ...] | None = attrs.field(
        default=None, metadata=mark(since=Revision.CURRENT) | by_ruling("W-60")
    )
    resources: tuple[ServerResource, ...] | None = attrs.field(
        default=None, metadata=mark(since=Revision.CURRENT) | by_ruling("W-60")
    )


@attrs.frozen(kw_only=True)
class UnknownServerUpdatedParams:
    """A server of a type this package does not know; `raw` is written as it came."""

    type: str | None
    raw: Mapping[str, Any]


ToolServerUpdatedParams: TypeAlias = (
    EcaServerUpdatedParams | MCPServerUpdatedParams | UnknownServerUpdatedParams
)


@attrs.frozen(kw_only=True)
class ToolServerRemovedParams:
    """`tool/serverRemoved`: an MCP server is configured no more."""

    name: str
