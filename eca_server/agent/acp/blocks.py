"""Parts of a message as blocks of ACP, and blocks as texts and pictures."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator

from eca_protocol.acp import messages as acp
from eca_server.models.history import FilePart, ImagePart, Part, TextPart


def prompt_blocks(
    parts: Iterable[Part], accepted: acp.PromptCapabilities
) -> Iterator[acp.ContentBlock]:
    """Yield the blocks of a prompt; what the agent does not take is named."""
    for part in parts:
        match part:
            case TextPart(text):
                yield acp.TextContent(text=text)
            case ImagePart() if accepted.image:
                data = base64.b64encode(part.data).decode()
                yield acp.ImageContent(data=data, mime_type=part.media_type)
            case FilePart() if accepted.embedded_context:
                blob = base64.b64encode(part.data).decode()
                contents = acp.ResourceContents(
                    uri=f"attachment:{part.name}", mime_type=part.media_type, blob=blob
                )
                yield acp.EmbeddedResource(resource=contents)
            case ImagePart() | FilePart():
                yield acp.TextContent(text=f"[a {part.media_type} that you cannot read]")


def shown(block: acp.ContentBlock) -> TextPart | ImagePart:
    """Return a block of the agent as a text in Markdown, or as a picture."""
    match block:
        case acp.TextContent():
            return TextPart(block.text)
        case acp.ImageContent():
            try:
                data = base64.b64decode(block.data, validate=True)
            except ValueError:  # also text outside ASCII
                return TextPart("[an unreadable picture]")
            return ImagePart(media_type=block.mime_type, data=data)
        case acp.ResourceLink():
            return TextPart(f"[{block.title or block.name}]({block.uri})")
        case acp.EmbeddedResource():
            return TextPart(block.resource.text or f"[{block.resource.uri}]")
        case _:
            return TextPart(f"[{block.type}]")
