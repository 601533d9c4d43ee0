"""The contexts that a user adds to a prompt (chapter "Chat Prompt", `ChatContext`)."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import attrs

from eca_protocol.messages.editor import Range
from eca_protocol.messages.marks import Unknown, lenient, marked
from eca_protocol.revisions import Revision, Window


@attrs.frozen(kw_only=True)
class LinesRange:
    """Lines of a file, counted from 1, both ends included (W-41)."""

    start: int
    end: int


@attrs.frozen(kw_only=True)
class FileContext:
    """A file, or its lines in `lines_range`."""

    type: ClassVar[Literal["file"]] = "file"
    path: str
    lines_range: LinesRange | None = None


@attrs.frozen(kw_only=True)
class DirectoryContext:
    """A directory with its contents."""

    type: ClassVar[Literal["directory"]] = "directory"
    path: str


@attrs.frozen(kw_only=True)
class WebContext:
    """A page on the web."""

    type: ClassVar[Literal["web"]] = "web"
    url: str


@attrs.frozen(kw_only=True)
class RepoMapContext:
    """The outline of the workspace. Deprecated: replaced by the directory tree tool."""

    type: ClassVar[Literal["repoMap"]] = "repoMap"


@attrs.frozen(kw_only=True)
class CursorContext:
    """The position of the editor's cursor, or the selected range."""

    type: ClassVar[Literal["cursor"]] = "cursor"
    path: str
    position: Range


@attrs.frozen(kw_only=True)
class McpResourceContext:
    """A resource of an MCP server."""

    type: ClassVar[Literal["mcpResource"]] = "mcpResource"
    uri: str
    name: str = marked(lenient("W-3"), default="")
    description: str = marked(lenient("W-3"), default="")
    mime_type: str = marked(lenient("W-3"), default="")
    server: str


@attrs.frozen(kw_only=True)
class ImageContext:
    """A picture, its bytes as base64."""

    type: ClassVar[Literal["image"]] = "image"
    window: ClassVar[Window] = Window(since=Revision.CURRENT)
    media_type: str = marked(lenient("W-3"), default="")
    base64: str


@attrs.frozen(kw_only=True)
class TextContext:
    """A text from any source, under a label."""

    type: ClassVar[Literal["text"]] = "text"
    window: ClassVar[Window] = Window(since=Revision.CURRENT)
    label: str = marked(lenient("W-3"), default="")
    content: str


@attrs.frozen(kw_only=True)
class UnknownContext(Unknown):
    """A context of an unknown type, or without a required member (W-3).

    `raw` is written unchanged.
    """


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
