"""Resources of MCP servers: the search for them, and their contents as sections.

The rules of this module: the content of a resource is inside its tags and cannot close them. A
content of an unsupported type is named and left out. A template is offered only if the typed URI
fills it, since only the user knows the values of its variables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import trio

from eca_protocol.messages import McpResourceContext
from eca_server.agent.context.block import Content, Section
from eca_server.agent.context.limits import Limits
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.tools.files import Ledger
from eca_server.agent.tools.output import Cap, cut_end
from eca_server.models.attachments import Attachment, make_attachment, max_bytes_of, media_type_of
from eca_server.secret import mask
from eca_server.workspace.errors import NotText, TooLarge

if TYPE_CHECKING:
    from eca_server.agent.mcp.manager import Manager
    from eca_server.agent.mcp.messages import Resource, ResourceContents
    from eca_server.agent.mcp.server import Server

Key: TypeAlias = tuple[str, str]
"""The server's name and the resource's URI."""

Resources: TypeAlias = "Mapping[Key, tuple[ResourceContents, ...] | str]"
"""The contents of each resource, or the reason why they are missing."""

_MOST: Final = 100  # resources offered for one query
_LONGEST: Final = 500  # characters of a name or description
_LONGEST_URI: Final = 2000
_VARIABLE = re.compile(r"\{[^{}]*\}")


@attrs.frozen
class ResourceReader:
    """A reader of the resources of MCP servers for one chat; its errors contain no secret.

    Attributes:
        ledger: returns the chat's ledger, which records what was read; a cleared chat replaces it.
        is_preview: record nothing, since no model is sent it.
    """

    servers: Manager
    ledger: Callable[[], Ledger]
    is_preview: bool = attrs.field(kw_only=True)

    async def read(self, server: str, uri: str) -> tuple[ResourceContents, ...]:
        """Read a resource of a server; raise MCPError with a message for the user."""
        mcp_server = self.servers.get(server)
        if mcp_server is None:
            raise MCPError(f"there is no MCP server {server!r}")
        try:
            reader = Ledger() if self.is_preview else self.ledger()
            return await mcp_server.give_resource(reader, uri)
        except MCPError as error:
            reason = mask(str(error), *mcp_server.secrets())
            raise MCPError(f"the MCP server {server} did not return it: {reason}") from None

    def changed(self) -> Sequence[Key]:
        """Return the resources that changed since they were read for the chat."""
        return [
            (server.name, uri)
            for server in self.servers.running
            for uri in server.resource_changes.changed_for(self.ledger())
        ]


def matching_resources(
    servers: Iterable[Server], query: str, existing: Iterable[object]
) -> tuple[McpResourceContext, ...]:
    """Return the resources whose URI, name, `server:name` or description contains a query.

    A blank query matches all.

    Args:
        servers: the running servers.
        query: as typed.
        existing: the contexts of the client, which are left out.
    """
    query = query.strip()
    keys = {(each.server, each.uri) for each in existing if isinstance(each, McpResourceContext)}
    matches: dict[Key, McpResourceContext] = {}
    for server in servers:
        for resource in _matching(server, query):
            key = server.name, resource.uri
            if key not in keys and key not in matches and len(resource.uri) <= _LONGEST_URI:
                matches[key] = McpResourceContext(
                    uri=resource.uri,
                    name=resource.name[:_LONGEST],
                    description=(resource.description or resource.title)[:_LONGEST],
                    mime_type=resource.mime_type[:_LONGEST] or "text/plain",
                    server=server.name,
                )
            if len(matches) >= _MOST:
                return tuple(matches.values())
    return tuple(matches.values())


def _matching(server: Server, query: str) -> Iterator[Resource]:
    folded = query.casefold()
    for resource in server.resources:
        shown = f"{server.name}:{resource.name}"  # as clients list and complete it
        texts = (resource.uri, resource.name, resource.title, resource.description, shown)
        if any(folded in each[:_LONGEST_URI].casefold() for each in texts):
            yield resource
    for template in server.templates:
        if _fills(query, template.uri):
            yield attrs.evolve(template, uri=query)


def _fills(uri: str, template: str) -> bool:
    """Return True if a URI is an expansion of a template (RFC 6570) without empty variables."""
    first, *between = _VARIABLE.split(template)
    if ":" not in first or not between or not uri.startswith(first):
        return False
    end = len(first)
    for literal in between[:-1]:
        start = uri.find(literal, end + 1)
        if start < 0:
            return False
        end = start + len(literal)
    return uri.endswith(between[-1]) and len(uri) - len(between[-1]) > end


async def read_resources(keys: Iterable[Key], reader: ResourceReader) -> Resources:
    """Read resources concurrently."""
    resources: dict[Key, tuple[ResourceContents, ...] | str] = {}

    async def read(server: str, uri: str) -> None:
        try:
            resources[server, uri] = await reader.read(server, uri)
        except MCPError as error:
            resources[server, uri] = str(error)

    async with trio.open_nursery() as nursery:
        for server, uri in keys:
            nursery.start_soon(read, server, uri)
    return resources


def resource_content(
    server: str, contents: ResourceContents, *, budget: int, limits: Limits
) -> Content:
    """Return the content of one piece of a resource: a text, a picture, a document.

    Args:
        server: the name of the server.
        contents: the piece.
        budget: the remaining bytes for text.
        limits: of sizes and numbers.

    Raises:
        FileError: its type is not supported, or it is too large.
    """
    attributes = {"server": server, "uri": contents.uri[:_LONGEST_URI]}
    if contents.mime_type:
        attributes["type"] = contents.mime_type[:_LONGEST]
    if contents.text is not None:
        size = min(limits.resource, budget)
        text = cut_end(contents.text, Cap(lines=size, size=size))
        section = Section(name="resource", attributes=attributes, body=(text,))
        left_out = max(len(contents.text.encode("utf-8", "surrogatepass")) - size, 0)
        return Content(section=section, size=len(text.encode()), left_out=left_out)
    section = Section(name="resource", attributes=attributes)
    return Content(section=section, attachment=_attachment(contents))


def _attachment(contents: ResourceContents) -> Attachment:
    data = contents.blob
    media_type = media_type_of(data)
    if media_type is None:
        kind = f" of the type {contents.mime_type}" if contents.mime_type else ""
        raise NotText(f"it is binary: {len(data)} bytes{kind}")
    if len(data) > max_bytes_of(media_type):
        raise TooLarge(f"expected at most {max_bytes_of(media_type)} bytes, got {len(data)}")
    name = contents.uri.rstrip("/").rpartition("/")[2] or "resource"
    return make_attachment(media_type, name, data)
