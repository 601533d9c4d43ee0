"""What servers say, as values: the part of MCP's messages that we use (MCP 2026-07-28 and before).

Arguments and structured results are the user's data: they stay as they came. Names and texts that
models and people read have no unseen characters; by its `wire_name` the server knows a thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import attrs

__all__ = [
    "AudioContent",
    "Content",
    "EmbeddedResource",
    "ImageContent",
    "Initialized",
    "InputRequired",
    "LogMessage",
    "MCPTool",
    "Page",
    "Progress",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "PromptResult",
    "Resource",
    "ResourceContents",
    "ResourceLink",
    "ResourceTemplate",
    "ServerInfo",
    "TextContent",
    "ToolHints",
    "ToolResult",
]

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class ServerInfo:
    """What a server calls itself; each empty where it does not say."""

    name: str = ""
    version: str = ""
    title: str = ""


@attrs.frozen(kw_only=True)
class Initialized:
    """The answer to `initialize` or to `server/discover`.

    Attributes:
        revisions: the one that was agreed on, or those the server offers.
    """

    revisions: tuple[str, ...]
    capabilities: Mapping[str, Any] = attrs.field(factory=dict)
    info: ServerInfo = attrs.field(factory=ServerInfo)
    instructions: str = ""


@attrs.frozen(kw_only=True)
class Page(Generic[T]):
    """One page of a list.

    Attributes:
        items: what could be read of it.
        problems: a sentence for each item that could not.
        next_cursor: as the server gave it, whatever its type; None at the end.
    """

    items: tuple[T, ...]
    problems: tuple[str, ...] = ()
    next_cursor: Any = None


@attrs.frozen(kw_only=True)
class ToolHints:
    """What a server says of a tool's effects; None where it says nothing. Nobody checks it."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


@attrs.frozen(kw_only=True)
class MCPTool:
    """A tool of a server.

    Attributes:
        name: for models and people.
        wire_name: what `tools/call` calls it.
        input_schema: the JSON Schema of its arguments; `{}` where there is none.
        output_schema: of its structured result; None: it has none.
    """

    name: str
    wire_name: str = attrs.field(default=attrs.Factory(lambda self: self.name, takes_self=True))
    title: str = ""
    description: str = ""
    input_schema: Mapping[str, Any] = attrs.field(factory=dict)
    output_schema: Mapping[str, Any] | None = None
    hints: ToolHints = attrs.field(factory=ToolHints)


@attrs.frozen(kw_only=True)
class TextContent:
    """A text."""

    text: str


@attrs.frozen(kw_only=True)
class ImageContent:
    """A picture; its type is told from its bytes where they tell it."""

    data: bytes = attrs.field(repr=False)
    mime_type: str


@attrs.frozen(kw_only=True)
class AudioContent:
    """A sound."""

    data: bytes = attrs.field(repr=False)
    mime_type: str


@attrs.frozen(kw_only=True)
class ResourceContents:
    """What a resource holds: a text, or bytes (then `text` is None)."""

    uri: str
    mime_type: str = ""
    text: str | None = None
    blob: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen(kw_only=True)
class EmbeddedResource:
    """A resource given whole."""

    contents: ResourceContents


@attrs.frozen(kw_only=True)
class ResourceLink:
    """A resource that may be read, or not."""

    uri: str
    name: str = ""
    title: str = ""
    description: str = ""
    mime_type: str = ""


Content: TypeAlias = TextContent | ImageContent | AudioContent | EmbeddedResource | ResourceLink


@attrs.frozen(kw_only=True)
class ToolResult:
    """What came of a call.

    Attributes:
        content: in order; may be empty.
        structured: the structured result, any JSON value; None: there is none.
        is_error: the tool failed, or refused.
    """

    content: tuple[Content, ...] = ()
    structured: Any = None
    is_error: bool = False


@attrs.frozen(kw_only=True)
class PromptArgument:
    """An argument of a prompt; its value is a text."""

    name: str
    wire_name: str = attrs.field(default=attrs.Factory(lambda self: self.name, takes_self=True))
    description: str = ""
    required: bool = False


@attrs.frozen(kw_only=True)
class Prompt:
    """A prompt that a server offers."""

    name: str
    wire_name: str = attrs.field(default=attrs.Factory(lambda self: self.name, takes_self=True))
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@attrs.frozen(kw_only=True)
class PromptMessage:
    """One message of a prompt."""

    role: Literal["user", "assistant"]
    content: Content


@attrs.frozen(kw_only=True)
class PromptResult:
    """A prompt with its arguments filled in."""

    messages: tuple[PromptMessage, ...]
    description: str = ""


@attrs.frozen(kw_only=True)
class Resource:
    """A resource that can be read by its URI."""

    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size: int | None = None


@attrs.frozen(kw_only=True)
class ResourceTemplate:
    """A family of resources: a URI with holes (RFC 6570)."""

    uri_template: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""


@attrs.frozen(kw_only=True)
class Progress:
    """How far a call of ours has come.

    Attributes:
        token: what we named the call.
        progress: grows, so far as the server keeps the rule.
        total: where it ends; None: unknown.
        message: one short line, or empty.
    """

    token: str | int
    progress: float
    total: float | None = None
    message: str = ""


@attrs.frozen(kw_only=True)
class LogMessage:
    """A line for our log."""

    level: str
    text: str


@attrs.frozen(kw_only=True)
class InputRequired:
    """A stateless server's question before it answers (multi round-trip requests).

    Attributes:
        requests: by the server's own key, what it asks: `{"method": ..., "params": ...}`.
        state: to be given back unchanged; None: there is none.
    """

    requests: Mapping[str, Any]
    state: Any = None
