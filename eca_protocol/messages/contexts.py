"""What a user adds to a prompt beside its text (chapter "Chat Prompt", `ChatContext`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from eca_protocol.messages.editor import Range
from eca_protocol.messages.marks import lenient
from eca_protocol.revisions import Revision, Window

__all__ = [
    "ChatContext",
    "CursorContext",
    "DirectoryContext",
    "FileContext",
    "ImageContext",
    "LinesRange",
    "McpResourceContext",
    "RepoMapContext",
    "TextContext",
    "UnknownContext",
    "WebContext",
]


@attrs.frozen(kw_only=True)
class LinesRange:
    """Lines of a file, counted from 1, both ends included (W-41)."""

    start: int
    end: int


@attrs.frozen(kw_only=True)
class FileContext:
    """A file, or without `lines_range` the whole of it."""

    type: ClassVar[Literal["file"]] = "file"
    path: str
    lines_range: LinesRange | None = None


@attrs.frozen(kw_only=True)
class DirectoryContext:
    """A folder with what is in it."""

    type: ClassVar[Literal["directory"]] = "directory"
    path: str


@attrs.frozen(kw_only=True)
class WebContext:
    """A page on the web."""

    type: ClassVar[Literal["web"]] = "web"
    url: str


@attrs.frozen(kw_only=True)
class RepoMapContext:
    """The outline of the workspace. Deprecated: the directory tree tool took its place."""

    type: ClassVar[Literal["repoMap"]] = "repoMap"


@attrs.frozen(kw_only=True)
class CursorContext:
    """Where the editor's cursor is, and what is selected there."""

    type: ClassVar[Literal["cursor"]] = "cursor"
    path: str
    position: Range


@attrs.frozen(kw_only=True)
class McpResourceContext:
    """A resource offered by an MCP server."""

    type: ClassVar[Literal["mcpResource"]] = "mcpResource"
    uri: str
    name: str = attrs.field(default="", metadata=lenient("W-3"))
    description: str = attrs.field(default="", metadata=lenient("W-3"))
    mime_type: str = attrs.field(default="", metadata=lenient("W-3"))
    server: str


@attrs.frozen(kw_only=True)
class ImageContext:
    """A picture, its bytes as base64."""

    type: ClassVar[Literal["image"]] = "image"
    window: ClassVar[Window] = Window(since=Revision.CURRENT)
    media_type: str = attrs.field(default="", metadata=lenient("W-3"))
    base64: str


@attrs.frozen(kw_only=True)
class TextContext:
    """Text from elsewhere, under a label."""

    type: ClassVar[Literal["text"]] = "text"
    window: ClassVar[Window] = Window(since=Revision.CURRENT)
    label: str = attrs.field(default="", metadata=lenient("W-3"))
    content: str


@attrs.frozen(kw_only=True)
class UnknownContext:
    """A context of an unknown type, or without a member that its type needs (W-3).

    `raw` is written as it came.
    """

    type: str | None
    raw: Mapping[str, Any]


ChatContext: TypeAlias = (
    FileContext
    | DirectoryContext
    | WebContext
    | RepoMapContext
    | CursorContext
    | McpResourceContext
    | ImageContext
    | TextContext
    | UnknownContext
)
