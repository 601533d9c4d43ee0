"""Announcements of MCP servers' prompts and resources, for clients that show them.

Announcements are limited; all prompts and resources can be used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from eca_protocol import messages as m
from eca_server.mcp.server import Server

__all__ = ["announced_prompts", "announced_resources"]

_MOST: Final = 500  # prompts or resources of a server
_MOST_ARGUMENTS: Final = 20
_LONGEST: Final = 500  # characters of a text
_LONGEST_URI: Final = 2000


def announced_prompts(server: Server) -> Iterator[m.ServerPrompt]:
    """Yield the prompts of a server, under its own names."""
    for prompt in server.prompts[:_MOST]:
        yield m.ServerPrompt(
            name=prompt.name[:_LONGEST],
            description=(prompt.description or prompt.title)[:_LONGEST],
            arguments=tuple(
                m.PromptArgument(
                    name=each.name[:_LONGEST],
                    description=each.description[:_LONGEST],
                    required=each.required,
                )
                for each in prompt.arguments[:_MOST_ARGUMENTS]
            ),
        )


def announced_resources(server: Server) -> Iterator[m.ServerResource]:
    """Yield the resources of a server, except those with a very long URI."""
    for resource in server.resources[:_MOST]:
        if len(resource.uri) <= _LONGEST_URI:
            yield m.ServerResource(
                uri=resource.uri,
                name=resource.name[:_LONGEST],
                description=(resource.description or resource.title)[:_LONGEST],
                mime_type=resource.mime_type[:_LONGEST] or "text/plain",
            )
