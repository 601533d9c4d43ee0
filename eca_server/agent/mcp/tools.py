"""MCP tools as tools of a turn, and their results as outputs.

Rules: a server's hints can only tighten approvals; the size of a result is limited; a failed call
is an output for the model and never ends a turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import attrs

from eca_protocol import json
from eca_server.agent.mcp import messages as m
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.readers import picture
from eca_server.agent.mcp.schemas import CleanSchema, clean_schema
from eca_server.agent.tools.output import Cap, cut_end
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolError, ToolOutput
from eca_server.models.attachments import (
    IMAGE_TYPES,
    MAX_IMAGE_BYTES,
    SIGNATURE_BYTES,
    media_type_of,
)
from eca_server.models.history import ImagePart, TextPart

MAX_PICTURES = 5
"""Maximum number of pictures in one result."""

_MAX_DESCRIPTION = 4_096  # characters, for the model
_MAX_SUMMARY = 80
_UNKNOWN_EFFECT = ("closed", "timeout")  # kinds of errors

CallTool = Callable[[str, Mapping[str, Any]], Awaitable[m.ToolResult]]


@attrs.frozen
class ServerTool:
    """A tool of an MCP server.

    Attributes:
        server: the server's name in the configuration.
        tool: the tool as the server lists it.
        cap: the limit of a result's text.
    """

    server: str
    tool: m.MCPTool
    call: CallTool
    cap: Cap

    @property
    def name(self) -> str:
        """The tool's name for models and people."""
        return self.tool.name

    @property
    def description(self) -> str:
        """The server's description, cut if it is long."""
        own = self.tool.description or self.tool.title
        text = own or f"The tool {self.name} of {self.server}."
        is_long = len(text) > _MAX_DESCRIPTION
        return cut_end(text, Cap(lines=10_000, size=_MAX_DESCRIPTION)) if is_long else text

    @property
    def effect(self) -> Effect:
        """`write` if the server says so; a claim that it only reads is not trusted."""
        return effect_of(self.tool.hints)

    @cached_property
    def _clean_schema(self) -> CleanSchema:
        """The schema for models, made at its first use: a server may have thousands of tools."""
        return clean_schema(self.tool.input_schema)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments, valid for every API."""
        return self._clean_schema.schema

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return `Calling 'tool' (MCP server 'name')`."""
        text = f"Calling '{self.name}' (MCP server '{self.server}')"
        return text if len(text) <= _MAX_SUMMARY else f"{text[: _MAX_SUMMARY - 3]}..."

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Prepare a call; only the server knows its effects."""

        async def run() -> ToolOutput:
            try:
                own_arguments = self._clean_schema.arguments(arguments)
                result = await self.call(self.tool.wire_name, own_arguments)
            except MCPError as error:
                hint = ". The tool may have run." if error.kind in _UNKNOWN_EFFECT else ""
                text = f"The call of the MCP server {self.server} failed: {error}{hint}"
                raise ToolError(text) from None
            return output_of(result, self.cap)

        return PreparedCall(
            run=run, summary=self.summary(arguments), warning=_warning(self.tool.hints)
        )


def effect_of(hints: m.ToolHints) -> Effect:
    """Return the effect of a tool; hints can only make it stricter."""
    changes = hints.read_only is False or (hints.destructive is True and not hints.read_only)
    return "write" if changes else "run"


def _warning(hints: m.ToolHints) -> str | None:
    if hints.destructive is True:
        return "it may delete or overwrite data"
    if hints.open_world is True and hints.read_only is not True:
        return "it may change data outside this machine"
    return None


def output_of(result: m.ToolResult, cap: Cap) -> ToolOutput:
    """Return a result as an output for the model: texts within the cap, and pictures."""
    parts = parts_within(parts_of(result), cap)
    if not parts:
        message = "The tool failed without a message." if result.is_error else "(no output)"
        parts.append(TextPart(message))
    return ToolOutput(parts=tuple(parts), is_error=result.is_error)


def parts_within(contents: Iterable[TextPart | ImagePart], cap: Cap) -> list[TextPart | ImagePart]:
    """Return texts within the cap, and a few pictures that are not too large."""
    parts: list[TextPart | ImagePart] = []
    remaining, pictures = cap.size, 0
    for part in contents:
        if isinstance(part, ImagePart):
            pictures += 1
            if pictures > MAX_PICTURES or len(part.data) > MAX_IMAGE_BYTES:
                why = "one too many" if pictures > MAX_PICTURES else f"{len(part.data)} bytes"
                parts.append(TextPart(f"(a picture was left out: {why})"))
            else:
                parts.append(part)
        elif remaining > 0 or not parts:
            text = cut_end(part.text, attrs.evolve(cap, size=remaining))
            remaining -= len(part.text.encode("utf-8", "replace"))
            parts.append(TextPart(text))
        elif parts[-1] != _MORE:
            parts.append(_MORE)
    return parts


_MORE = TextPart("(more texts were left out)")


def parts_of(result: m.ToolResult) -> Iterator[TextPart | ImagePart]:
    """Yield the texts and pictures of a result; its structured content if it has no text."""
    has_text = False
    for content in result.content:
        part = _resource(content) if isinstance(content, m.ResourceContents) else content
        if isinstance(part, ImagePart) or part.text:
            has_text = has_text or isinstance(part, TextPart)
            yield part
    if result.structured is not None and not has_text:
        yield TextPart(json.dumps(result.structured).decode())


def _resource(contents: m.ResourceContents) -> TextPart | ImagePart:
    if contents.text is not None:
        return TextPart(f"{contents.uri}:\n{contents.text}")
    kind = media_type_of(contents.blob[:SIGNATURE_BYTES])
    if kind in IMAGE_TYPES or contents.mime_type.startswith("image/"):
        return picture(contents.blob, contents.mime_type)
    return TextPart(f"({contents.uri}: {len(contents.blob)} bytes, {contents.mime_type})")
