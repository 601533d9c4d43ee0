"""MCP tools as tools of a turn, and their results as outputs.

The rules they keep: what a server says of its own tools makes us more careful, never less; however
much a result is, what is kept of it is bounded; a call that fails, in whatever spelling, is an
output for the model and never the end of a turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import attrs

from eca_protocol import json
from eca_server.llm.attachments import IMAGE_TYPES, MAX_IMAGE_BYTES, SIGNATURE_BYTES, media_type_of
from eca_server.llm.history import ImagePart, TextPart
from eca_server.mcp.faults import MCPFault
from eca_server.mcp.messages import (
    AudioContent,
    Content,
    EmbeddedResource,
    ImageContent,
    MCPTool,
    ResourceContents,
    ResourceLink,
    TextContent,
    ToolHints,
    ToolResult,
)
from eca_server.mcp.schemas import Cleaned, cleaned
from eca_server.tools.output import Cap, cut_end
from eca_server.tools.tool import Effect, PreparedCall, ToolError, ToolOutput

__all__ = [
    "MOST_PICTURES",
    "ServerTool",
    "effect_of",
    "output_of",
    "part_of",
    "server_tool",
]

MOST_PICTURES = 5
"""Pictures of one result."""

_LONGEST_DESCRIPTION = 4_096  # characters, for the model
_LONGEST_SUMMARY = 80

CallTool = Callable[[str, Mapping[str, Any]], Awaitable[ToolResult]]


@attrs.frozen(kw_only=True)
class ServerTool:
    """A tool of an MCP server.

    Attributes:
        server: the name the user gave it.
        name: of the tool, for models and people.
        wire_name: as the server calls it.
        description: for the model.
        effect: `write` where the server says so; it is never believed that a tool only reads.
        warning: what the server warns of, for people.
        call: has the server do it.
        cap: how much text of a result is kept.
    """

    server: str
    name: str
    wire_name: str
    description: str
    effect: Effect
    warning: str | None
    call: CallTool
    cap: Cap
    _cleaned: Cleaned

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments, as every API takes it."""
        return self._cleaned.schema

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """`Calling 'tool' (MCP server 'name')`."""
        text = f"Calling '{self.name}' (MCP server '{self.server}')"
        return text if len(text) <= _LONGEST_SUMMARY else f"{text[: _LONGEST_SUMMARY - 3]}..."

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Nothing of the world can be looked at: the server alone knows what it will do."""

        async def run() -> ToolOutput:
            try:
                result = await self.call(self.wire_name, self._cleaned.arguments(arguments))
            except MCPFault as fault:
                raise ToolError(f"The MCP server {self.server} did not do it: {fault}") from None
            return output_of(result, self.cap)

        return PreparedCall(run=run, summary=self.summary(arguments), warning=self.warning)


def server_tool(server: str, tool: MCPTool, call: CallTool, cap: Cap) -> ServerTool:
    """A tool as its server lists it, for turns."""
    description = tool.description or tool.title or f"The tool {tool.name} of {server}."
    if len(description) > _LONGEST_DESCRIPTION:
        description = cut_end(description, Cap(lines=10_000, size=_LONGEST_DESCRIPTION))
    return ServerTool(
        server=server,
        name=tool.name,
        wire_name=tool.wire_name,
        description=description,
        effect=effect_of(tool.hints),
        warning=_warning(tool.hints),
        call=call,
        cap=cap,
        cleaned=cleaned(tool.input_schema),
    )


def effect_of(hints: ToolHints) -> Effect:
    """What a tool may do at most, as far as its server's word makes us more careful."""
    changes = hints.read_only is False or (hints.destructive is True and not hints.read_only)
    return "write" if changes else "run"


def _warning(hints: ToolHints) -> str | None:
    if hints.destructive is True:
        return "it may destroy something"
    if hints.open_world is True and hints.read_only is not True:
        return "it changes something outside of this machine"
    return None


def output_of(result: ToolResult, cap: Cap) -> ToolOutput:
    """What a model is given of a result: texts within the cap together, and pictures."""
    parts: list[TextPart | ImagePart] = []
    left, pictures = cap.size, 0
    for part in _parts(result):
        if isinstance(part, ImagePart):
            pictures += 1
            if pictures > MOST_PICTURES or len(part.data) > MAX_IMAGE_BYTES:
                why = "one too many" if pictures > MOST_PICTURES else f"{len(part.data)} bytes"
                parts.append(TextPart(f"(a picture that is left out: {why})"))
            else:
                parts.append(part)
        elif left > 0 or not parts:
            text = cut_end(part.text, attrs.evolve(cap, size=left))
            left -= len(part.text.encode("utf-8", "replace"))
            parts.append(TextPart(text))
        elif parts[-1] != _MORE:
            parts.append(_MORE)
    if not parts:
        told = "The tool failed without a message." if result.is_error else "(no output)"
        parts.append(TextPart(told))
    return ToolOutput(parts=tuple(parts), is_error=result.is_error)


_MORE = TextPart("(more texts are left out)")


def _parts(result: ToolResult) -> Iterator[TextPart | ImagePart]:
    has_text = False
    for content in result.content:
        part = part_of(content)
        if isinstance(part, ImagePart) or part.text:
            has_text = has_text or isinstance(part, TextPart)
            yield part
    if result.structured is not None and not has_text:
        yield TextPart(json.dumps(result.structured).decode())


def part_of(content: Content) -> TextPart | ImagePart:
    """One block of what a server says, as a model is given it."""
    match content:
        case TextContent(text=text):
            return TextPart(_whole(text))
        case ImageContent(data=data, mime_type=mime_type):
            return _picture(data, mime_type)
        case AudioContent(data=data, mime_type=mime_type):
            return TextPart(f"(a sound of {len(data)} bytes, {mime_type}, is left out)")
        case ResourceLink(uri=uri, name=name, description=description):
            about = f": {description}" if description else ""
            return TextPart(_whole(f"Resource {name or uri} ({uri}){about}"))
        case EmbeddedResource(contents=contents):
            return _resource(contents)


def _resource(contents: ResourceContents) -> TextPart | ImagePart:
    if contents.text is not None:
        return TextPart(_whole(f"{contents.uri}:\n{contents.text}"))
    kind = media_type_of(contents.blob[:SIGNATURE_BYTES])
    if kind in IMAGE_TYPES or contents.mime_type.startswith("image/"):
        return _picture(contents.blob, contents.mime_type)
    return TextPart(_whole(f"({contents.uri}: {len(contents.blob)} bytes, {contents.mime_type})"))


def _picture(data: bytes, label: str) -> TextPart | ImagePart:
    """A picture of a kind that models are shown, else words; bytes are believed before labels."""
    media_type = media_type_of(data[:SIGNATURE_BYTES]) or label
    if media_type in IMAGE_TYPES:
        return ImagePart(media_type=media_type, data=data)
    why = f"{len(data)} bytes, {_whole(label)}, which models are not shown"
    return TextPart(f"(a picture that is left out: {why})")


def _whole(text: str) -> str:
    """A text without halves of characters, which neither a client nor a model could be sent."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
