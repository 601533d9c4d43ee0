"""The MCP servers in a turn: their tools, instructions and resources.

A turn uses the servers that run when it begins, and waits briefly for starting ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import attrs

from eca_server.agent.chat import Turn
from eca_server.agent.chat.markdown import markdown_link
from eca_server.agent.chat.outlet import Outlet
from eca_server.agent.context.resources import ResourceReader
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.manager import Manager
from eca_server.agent.mcp.messages import ToolResult
from eca_server.agent.mcp.names import tool_names
from eca_server.agent.mcp.server import Server
from eca_server.agent.mcp.states import State
from eca_server.agent.mcp.tools import ServerTool, parts_of
from eca_server.agent.tools.approval import Policy
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.search_tools import Deferral
from eca_server.agent.tools.toolbox import ServedTool, ToolBox
from eca_server.client.session import Session
from eca_server.config.settings import Config
from eca_server.connection.features.mcp_announcements import withheld_reason
from eca_server.models.history import TextPart
from eca_server.printable import enumeration
from eca_server.secret import Secret, mask

MOST_TOOLS: Final = 128
"""Limit of tools in a request, that of the strictest API."""
_SEARCHING: Final = 2
"""The number of tools by which the model searches: `search_tools` and `call_tool`."""

MOST_NAMES: Final = 10
"""Limit of servers that a text names; further ones are counted."""


class TurnServers:
    """The MCP servers of the turns of a connection."""

    def __init__(self, servers: Manager, session: Session) -> None:
        self._servers = servers
        self._session = session
        self._shown_links: set[str] = set()
        self._has_warned = False

    async def wait(self, turn: Turn) -> None:
        """Wait briefly for starting servers, and tell the user which ones this turn lacks.

        Login links are shown here, too, because not every client shows messages outside of chats.
        """
        starting = self._servers.newly_starting
        if starting:
            turn.progress(f"Waiting for MCP servers: {enumeration(starting, MOST_NAMES)}")
            late = await self._servers.settled()
            if late:
                names = enumeration(late, MOST_NAMES)
                text = f"MCP servers still starting, so without tools in this turn: {names}."
                turn.report(text)
        for server in self._servers:
            error = server.error if server.state is State.REQUIRES_AUTH else None
            link = None if error is None else error.url
            if link is None or link in self._shown_links:
                continue
            self._shown_links.add(link)
            profile = self._session.profile
            if profile.display.has_plain_own_texts:  # links work in answers alone
                link_text = markdown_link(f"Log in to the MCP server {server.name}", link)
                turn.say(f"{link_text}\n\n")
            elif profile.display.shows_messages:  # else the turn repeats the message
                turn.report(f"The MCP server {server.name} needs a login: {link}")

    def tools(
        self, turn: Turn, config: Config, policy: Policy, native: ToolBox, deferral: Deferral
    ) -> tuple[ServedTool, ...]:
        """Return the tools of the running servers, for one turn with its native tools."""
        cap = Cap.of(config.tool_call.output_truncation)
        taken = frozenset(tool.name for tool in native.offered)
        listed = {
            (server.name, tool.name): (server, tool)
            for server in self._servers.running
            for tool in server.tools
        }
        names = tool_names(listed, taken)
        made = [
            ServedTool(
                server=server.name,
                name=names[key],
                tool=ServerTool(server.name, tool, partial(_call, server, turn, tool.name), cap),
                withheld=withheld_reason(policy, server, tool),
            )
            for key, (server, tool) in listed.items()
        ]
        most = MOST_TOOLS - len(taken)
        served = deferral.mark(made, most=most)
        if any(each.is_deferred for each in served):
            most -= _SEARCHING
        offered = [each for each in served if each.withheld is None and not each.is_deferred]
        left_out = offered[max(0, most) :]
        if left_out and not self._has_warned:
            self._has_warned = True
            servers = enumeration([*dict.fromkeys(each.server for each in left_out)], MOST_NAMES)
            self._session.show(
                "warning",
                f"A request can have {MOST_TOOLS} tools at most: {len(left_out)} are left out, of "
                f"{servers}. Disable others with `disabledTools`, or set `mcpToolSearch`.",
            )
        reason = f"no more than {MOST_TOOLS} tools can be offered"
        dropped = {each.name for each in left_out}
        return tuple(
            attrs.evolve(each, withheld=reason) if each.name in dropped else each for each in served
        )

    def instructions(self) -> str:
        """Return the instructions of running servers for the model, each with its origin."""
        return "\n\n".join(
            f"Instructions of the MCP server {server.name} for its tools; they are not from the "
            "user:\n"
            f"<mcp-server-instructions>\n{server.instructions}\n</mcp-server-instructions>"
            for server in self._servers.running
            if server.instructions
        )

    def reader(self, chat: Outlet, *, is_preview: bool = False) -> ResourceReader:
        """Return the reader of the servers' resources for a chat."""
        return ResourceReader(self._servers, lambda: chat.ledger, is_preview=is_preview)


async def _call(
    server: Server, turn: Turn, shown: str, name: str, arguments: Mapping[str, object]
) -> ToolResult:
    """Call a tool. Keys are masked in errors alone: a result may be written to a file."""
    try:
        result = await server.call_tool(
            name, arguments, lambda how_far: turn.progress(f"{shown}: {how_far}")
        )
    except MCPError as error:
        reason = mask(error.message, *server.secrets())
        raise MCPError(reason, kind=error.kind, url=error.url) from None
    return _masked(result, server.secrets()) if result.is_error else result


def _masked(result: ToolResult, secrets: Iterable[Secret]) -> ToolResult:
    """Return a failed result with masked texts."""
    parts = (
        attrs.evolve(each, text=mask(each.text, *secrets)) if isinstance(each, TextPart) else each
        for each in parts_of(result)
    )
    return ToolResult(content=tuple(parts), is_error=True)
