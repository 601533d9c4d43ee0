"""Resources of MCP servers: which ones may be added to a prompt, and what they hold as a section.

The rules it keeps: whatever a server gives stands in the frame of its resource and cannot leave
it; what is no text and nothing that models are shown is named and left out. A template is offered
where the user has typed a URI that fills it, since only the user knows what to put into its holes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import attrs
import trio

from eca_protocol.messages import McpResourceContext
from eca_server.context.block import Section
from eca_server.context.limits import Limits
from eca_server.llm.attachments import Attachment, make_attachment, max_bytes_of, media_type_of
from eca_server.mcp.faults import MCPFault
from eca_server.tools.output import Cap, cut_end
from eca_server.workspace import NotText, TooLarge

if TYPE_CHECKING:
    from eca_server.mcp.messages import Resource, ResourceContents, ResourceTemplate
    from eca_server.mcp.server import Server

__all__ = [
    "GivenResource",
    "ResourceReader",
    "Resources",
    "give_resource",
    "matching_resources",
    "read_resources",
]

Key: TypeAlias = tuple[str, str]
"""The server's name and the resource's URI."""

Resources: TypeAlias = "Mapping[Key, tuple[ResourceContents, ...] | str]"
"""What each resource holds, or why that is not known."""

_MOST: Final = 100  # resources that are offered for one query
_LONGEST: Final = 500  # characters of what is shown of one
_LONGEST_URI: Final = 2000
_HOLE = re.compile(r"\{[^{}]*\}")


class ResourceReader(Protocol):
    """The way to the servers' resources, for one chat."""

    async def read(self, server: str, uri: str) -> tuple[ResourceContents, ...]:
        """Ask a server, by its name; raises MCPFault with what the user may read."""
        ...

    def changed(self) -> Sequence[Key]:
        """Those that were read for the chat and have changed since."""
        ...


@attrs.frozen(kw_only=True)
class GivenResource:
    """What one piece of a resource gave.

    Attributes:
        section: for the model.
        size: bytes of text in it.
        is_cut: some of the text had no room.
        attachment: goes beside the section.
    """

    section: Section
    size: int = 0
    is_cut: bool = False
    attachment: Attachment | None = None


def matching_resources(
    servers: Iterable[Server], query: str, given: Iterable[object]
) -> tuple[McpResourceContext, ...]:
    """The resources whose URI, name, `server:name` or description holds a query; or all, if blank.

    Args:
        servers: those that run.
        query: what the user has typed.
        given: the contexts that the client has already.
    """
    wanted = query.strip()
    has = {(each.server, each.uri) for each in given if isinstance(each, McpResourceContext)}
    found: dict[Key, McpResourceContext] = {}
    for server in servers:
        for uri, resource in _matching(server, wanted):
            key = server.name, uri
            if key not in has and key not in found and len(uri) <= _LONGEST_URI:
                found[key] = McpResourceContext(
                    uri=uri,
                    name=resource.name[:_LONGEST],
                    description=(resource.description or resource.title)[:_LONGEST],
                    mime_type=resource.mime_type[:_LONGEST] or "text/plain",
                    server=server.name,
                )
            if len(found) >= _MOST:
                return tuple(found.values())
    return tuple(found.values())


def _matching(server: Server, wanted: str) -> Iterator[tuple[str, Resource | ResourceTemplate]]:
    folded = wanted.casefold()
    for resource in server.resources:
        shown = f"{server.name}:{resource.name}"  # as clients list it, and complete it
        told = (resource.uri, resource.name, resource.title, resource.description, shown)
        if any(folded in each[:_LONGEST_URI].casefold() for each in told):
            yield resource.uri, resource
    for template in server.templates:
        if _fills(wanted, template.uri_template):
            yield wanted, template


def _fills(uri: str, template: str) -> bool:
    """Whether a URI is a template (RFC 6570) with something in each of its holes."""
    first, *between = _HOLE.split(template)
    if ":" not in first or not between or not uri.startswith(first):
        return False
    end = len(first)
    for literal in between[:-1]:
        start = uri.find(literal, end + 1)
        if start < 0:
            return False
        end = start + len(literal)
    return uri.endswith(between[-1]) and len(uri) - len(between[-1]) > end


async def read_resources(wanted: Iterable[Key], reader: ResourceReader) -> Resources:
    """Ask for each resource, all of them at once."""
    found: dict[Key, tuple[ResourceContents, ...] | str] = {}

    async def ask(server: str, uri: str) -> None:
        try:
            found[server, uri] = await reader.read(server, uri)
        except MCPFault as fault:
            found[server, uri] = str(fault)

    async with trio.open_nursery() as nursery:
        for server, uri in wanted:
            nursery.start_soon(ask, server, uri)
    return found


def give_resource(
    server: str, contents: ResourceContents, *, room: int, limits: Limits
) -> GivenResource:
    """One piece of a resource: a text, a picture, a document.

    Args:
        server: who gave it.
        contents: the piece.
        room: bytes that are left for text.
        limits: how much of everything.

    Raises:
        FileFault: it is nothing that a model can be shown, or too large.
    """
    attributes = {"server": server, "uri": contents.uri[:_LONGEST_URI]}
    if contents.mime_type:
        attributes["type"] = contents.mime_type[:_LONGEST]
    if contents.text is not None:
        size = min(limits.resource, room)
        text = cut_end(contents.text, Cap(lines=size, size=size))
        section = Section(name="resource", attributes=attributes, body=(text,))
        return GivenResource(section=section, size=len(text.encode()), is_cut=text != contents.text)
    return GivenResource(
        section=Section(name="resource", attributes=attributes),
        attachment=_attachment(contents),
    )


def _attachment(contents: ResourceContents) -> Attachment:
    data = contents.blob
    media_type = media_type_of(data)
    if media_type is None:
        told = f" of the type {contents.mime_type}" if contents.mime_type else ""
        raise NotText(f"it is binary: {len(data)} bytes{told}")
    if len(data) > max_bytes_of(media_type):
        raise TooLarge(f"expected at most {max_bytes_of(media_type)} bytes, got {len(data)}")
    name = contents.uri.rstrip("/").rpartition("/")[2] or "resource"
    return make_attachment(media_type, name, data)
