"""The content blocks of prompts, messages and tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from eca_protocol.messages.marks import Unknown, UnknownValue, wire_name

Role: TypeAlias = Literal["assistant", "user"] | UnknownValue


@attrs.frozen(kw_only=True)
class Extensible:
    """The base of a message: any object of ACP may have `_meta`, which has no fixed members."""

    meta: Mapping[str, Any] | None = attrs.field(default=None, metadata=wire_name("_meta"))


@attrs.frozen(kw_only=True)
class Empty(Extensible):
    """Params, a result or a capability without members."""


@attrs.frozen(kw_only=True)
class Annotations(Extensible):
    """Hints for the display of a block."""

    audience: tuple[Role, ...] | None = None
    last_modified: str | None = None
    priority: float | None = None


@attrs.frozen(kw_only=True)
class TextContent(Extensible):
    """A text in Markdown."""

    type: ClassVar[Literal["text"]] = "text"
    text: str
    annotations: Annotations | None = None


@attrs.frozen(kw_only=True)
class ImageContent(Extensible):
    """A picture, as base64."""

    type: ClassVar[Literal["image"]] = "image"
    data: str
    mime_type: str
    uri: str | None = None
    annotations: Annotations | None = None


@attrs.frozen(kw_only=True)
class AudioContent(Extensible):
    """A sound, as base64."""

    type: ClassVar[Literal["audio"]] = "audio"
    data: str
    mime_type: str
    annotations: Annotations | None = None


@attrs.frozen(kw_only=True)
class ResourceLink(Extensible):
    """A reference to a resource that the agent can read."""

    type: ClassVar[Literal["resource_link"]] = "resource_link"
    name: str
    uri: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None


@attrs.frozen(kw_only=True)
class ResourceContents(Extensible):
    """The contents of a resource: `text`, or base64 in `blob`."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


@attrs.frozen(kw_only=True)
class EmbeddedResource(Extensible):
    """A resource with its contents."""

    type: ClassVar[Literal["resource"]] = "resource"
    resource: ResourceContents
    annotations: Annotations | None = None


@attrs.frozen(kw_only=True)
class UnknownBlock(Unknown):
    """A block of an unknown type; `raw` is written unchanged."""


ContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownBlock
)
