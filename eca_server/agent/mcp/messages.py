"""The messages of servers that we use, as classes (MCP 2026-07-28 and before).

Arguments and structured results are the user's data and stay unchanged. Names and texts for models
and people have no invisible characters; a `wire_name` is the name as the server wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import attrs

from eca_server.models.history import ImagePart, TextPart

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Initialized:
    """The answer to `initialize` or to `server/discover`.

    Attributes:
        revisions: the negotiated one, or those that the server supports.
    """

    revisions: tuple[str, ...]
    capabilities: Mapping[str, Any] = attrs.field(factory=dict)
    instructions: str = ""


@attrs.frozen(kw_only=True)
class Page(Generic[T]):
    """One page of a list.

    Attributes:
        problems: a sentence for each invalid item.
        next_cursor: the server's cursor, of any type; None at the end.
    """

    items: tuple[T, ...]
    problems: tuple[str, ...] = ()
    next_cursor: Any = None


@attrs.frozen(kw_only=True)
class ToolHints:
    """A server's unverified hints on a tool's effects; None where they are missing."""

    read_only: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None


@attrs.frozen(kw_only=True)
class MCPTool:
    """A tool of a server.

    Attributes:
        name: its name for models and people.
        wire_name: its name in `tools/call`.
        input_schema: the JSON Schema of its arguments; `{}` if there is none.
    """

    name: str
    wire_name: str = attrs.field(default=attrs.Factory(lambda self: self.name, takes_self=True))
    title: str = ""
    description: str = ""
    input_schema: Mapping[str, Any] = attrs.field(factory=dict)
    hints: ToolHints = attrs.field(factory=ToolHints)


@attrs.frozen(kw_only=True)
class ResourceContents:
    """The contents of a resource: a text, or bytes (then `text` is None)."""

    uri: str
    mime_type: str = ""
    text: str | None = None
    blob: bytes = attrs.field(default=b"", repr=False)


Content: TypeAlias = TextPart | ImagePart | ResourceContents
"""A block of a result or a prompt: a part for the model, or a resource with its contents."""


@attrs.frozen(kw_only=True)
class ToolResult:
    """The result of a tool call.

    Attributes:
        content: its blocks, in order; may be empty.
        structured: the structured result, any JSON value; None: there is none.
        is_error: true if the tool failed or refused.
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
class Resource:
    """A resource that can be read by its URI, or a template of such URIs (RFC 6570)."""

    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""


@attrs.frozen(kw_only=True)
class Progress:
    """The progress of a call.

    Attributes:
        progress: the progress so far; a correct server only increases it.
        total: the final value; None: unknown.
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
    """A stateless server's questions before it answers (multi round-trip requests).

    Attributes:
        requests: the questions by the server's keys: `{"method": ..., "params": ...}`.
        state: a value to return unchanged; None: there is none.
    """

    requests: Mapping[str, Any]
    state: Any = None
