"""Announcements of MCP servers: status, tools, and for some clients prompts and resources (W-36).

Announcements are limited; everything that a server has can be used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from eca_protocol import json
from eca_protocol import messages as m
from eca_server.agent.mcp.messages import MCPTool
from eca_server.agent.mcp.schemas import is_presentable
from eca_server.agent.mcp.server import Server
from eca_server.agent.mcp.tools import effect_of
from eca_server.agent.tools.approval import Policy
from eca_server.client.session import Session
from eca_server.config.mcp_settings import original_text
from eca_server.connection.features.tool_sets import BRIEF, announced_tool
from eca_server.secret import mask, mask_url

LARGEST_ANNOUNCEMENT: Final = 1_000_000
"""Limit of descriptions and schemas, in bytes; further tools are announced in brief."""

_ANYTHING: Final[Mapping[str, Any]] = {"type": "object"}
_MOST: Final = 500  # prompts or resources of a server
_MOST_ARGUMENTS: Final = 20
_LONGEST: Final = 500  # characters of a text
_LONGEST_URI: Final = 2000


def announcement(
    session: Session, server: Server, policy: Policy, *, has_login: bool
) -> m.MCPServerUpdatedParams:
    """Return the announcement of a server, with its references unresolved."""
    settings = server.settings
    url = mask_url(original_text(settings.url)) if settings.url else None

    def shown(text: str) -> str:
        return mask(original_text(text), *settings.secrets)

    offers: dict[str, Any] = {}
    if shows_offers(session):
        offers = {"prompts": tuple(_prompts(server)), "resources": tuple(_resources(server))}
    return m.MCPServerUpdatedParams(
        name=server.name,
        command="" if url else shown(settings.command or ""),
        args=() if url else tuple(map(shown, settings.args)),
        url=url,
        status=server.status.value,  # type: ignore[arg-type]  # it is never `stopping`
        disabled=settings.disabled,
        has_auth=bool(url) and has_login,
        tools=tuple(_tools(session, server, policy)),
        **offers,
    )


def shows_offers(session: Session) -> bool:
    """Return whether announcements of servers include prompts and resources."""
    return session.writes(m.MCPServerUpdatedParams, "prompts")


def withheld_reason(policy: Policy, server: Server, tool: MCPTool) -> str | None:
    """Return the reason why a tool is withheld, or None."""
    return policy.withheld(server=server.name, tool=tool.name, effect=effect_of(tool.hints))


def _tools(session: Session, server: Server, policy: Policy) -> Iterator[m.ServerTool]:
    """Yield the tools as their server describes them, in brief beyond the limit."""
    remaining = LARGEST_ANNOUNCEMENT
    for tool in server.tools:
        description, schema = tool.description, tool.input_schema
        if is_presentable(schema):
            remaining -= len(description) + len(json.dumps(schema))
        else:
            schema = _ANYTHING
        if remaining < 0:
            description, schema = description[:BRIEF], _ANYTHING
        yield announced_tool(
            session,
            name=tool.name,
            description=description,
            parameters=schema,
            disabled=withheld_reason(policy, server, tool) is not None,
        )


def _prompts(server: Server) -> Iterator[m.ServerPrompt]:
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


def _resources(server: Server) -> Iterator[m.ServerResource]:
    """Yield the resources of a server, except those with a very long URI."""
    for resource in server.resources[:_MOST]:
        if len(resource.uri) <= _LONGEST_URI:
            yield m.ServerResource(
                uri=resource.uri,
                name=resource.name[:_LONGEST],
                description=(resource.description or resource.title)[:_LONGEST],
                mime_type=resource.mime_type[:_LONGEST] or "text/plain",
            )
