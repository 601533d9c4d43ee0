"""MCP servers towards the client and its turns: their statuses and tools (W-11, W-36).

The rule it keeps: this chapter is loaded only where a server is configured or spoken of; a turn
takes what runs when it begins, and waits for the rest no longer than a moment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs

from eca_protocol import json
from eca_protocol import messages as m
from eca_server.browser import open_page
from eca_server.chat import Chat, Turn
from eca_server.chat.citations import markdown_link
from eca_server.config import MCPServer, OutputTruncation
from eca_server.config.folders import home_folder
from eca_server.config.mcp_settings import as_written
from eca_server.features.connection import Connection
from eca_server.features.tools import BRIEF, announced
from eca_server.mcp.connection import connect
from eca_server.mcp.errors import MCPError
from eca_server.mcp.manager import Manager
from eca_server.mcp.messages import MCPTool, ResourceContents, ToolResult
from eca_server.mcp.names import tool_names
from eca_server.mcp.schemas import is_presentable
from eca_server.mcp.server import Connect, Server, ServerSession
from eca_server.mcp.server_log import ServerLog
from eca_server.mcp.settings import ServerSettings
from eca_server.mcp.states import State
from eca_server.mcp.tools import effect_of, server_tool
from eca_server.secret import mask, mask_url
from eca_server.tools.approval import Policy, policy_of
from eca_server.tools.output import Cap
from eca_server.tools.toolbox import ServedTool, ToolBox

if TYPE_CHECKING:
    from eca_server.mcp.authorization.login import Login

__all__ = [
    "ResourceReader",
    "announce_servers",
    "announcement",
    "instructions",
    "login_of",
    "make_manager",
    "served_tools",
    "wait_for_servers",
]

MOST_TOOLS = 128
"""Tools of a request, at the strictest of the APIs."""

MOST_NAMES = 10
"""Servers that a turn names as starting still; of more it tells the number."""

LARGEST_ANNOUNCEMENT = 1_000_000
"""Bytes of descriptions and schemas; behind it the tools of a server are told in brief."""

_TRANSPORTS: Mapping[str | None, Literal["http", "sse"]] = {
    "http": "http",
    "streamable-http": "http",
    "sse": "sse",
}
_ANYTHING: Mapping[str, Any] = {"type": "object"}
_SLOW_TO_START = frozenset({"npx", "uvx", "docker", "bunx", "pnpm", "deno", "pipx", "podman"})
_SLOW_SECONDS = 300.0  # they may have to download the server first


def make_manager(connection: Connection) -> Manager:
    """What runs the servers of a connection."""

    def connect_to(name: str, settings: MCPServer) -> Connect:
        log = ServerLog(name)
        connection.options.hide(settings.secrets)
        if name in connection.mcp_logins and connection.mcp_logins[name][0] != settings:
            connection.mcp_logins[name][1].give_up()

        def connect_now() -> AbstractAsyncContextManager[ServerSession]:
            login = login_of(connection, name, settings)
            return connect(
                _settings(connection, name, settings),
                environment=connection.child_variables,
                roots=lambda: connection.session.roots,
                log=log,
                http=connection.http,
                login=login,
            )

        return connect_now

    def on_change(server: Server) -> None:
        _forget_approvals(connection, server)
        _announce(connection, server)
        _tell_fault(connection, server)

    def on_listed(server: Server) -> None:
        if _shows_others(connection):
            _announce(connection, server)

    def on_removed(server: Server) -> None:
        connection.told.servers.pop(server.name, None)
        _, login = connection.mcp_logins.pop(server.name, (None, None))
        if login is not None:
            login.give_up()
        connection.memos -= {memo for memo in connection.memos if memo.server == server.name}
        gone = attrs.evolve(announcement(connection, server), status="stopped", tools=())
        connection.session.notify("tool/serverUpdated", gone)
        removed = m.ToolServerRemovedParams(name=server.name)
        connection.session.notify("tool/serverRemoved", removed)

    return Manager(
        nursery=connection.nursery,
        connect_to=connect_to,
        on_change=on_change,
        on_removed=on_removed,
        on_listed=on_listed,
    )


def login_of(connection: Connection, name: str, settings: MCPServer) -> Login | None:
    """The login at a server with a URL; the server is started once the user has logged in."""
    logins = connection.mcp_logins
    if settings.url and (name not in logins or logins[name][0] != settings):
        logins[name] = settings, _login(connection, name, settings.url, settings)
    return logins[name][1] if settings.url else None


def _login(connection: Connection, name: str, url: str, settings: MCPServer) -> Login:
    from eca_server.mcp.authorization import login  # noqa: PLC0415 - only where needed

    return login.Login(
        url,
        http=connection.http,
        logins=connection.logins,
        nursery=connection.nursery,
        client_id=settings.client_id,
        client_secret=settings.client_secret,
        client_name=settings.client_name,
        client_metadata_url=settings.client_metadata_url,
        port=settings.oauth_port,
        shared_by=_shared_by(connection, settings.auth_scope),
        hide=connection.options.hide,
        on_login=lambda: connection.mcp.start(name),
    )


def _shared_by(connection: Connection, scope: str) -> str:
    """Whose logins are told apart by `authScope`: nobody's, a workspace's, or a name's."""
    if scope == "workspace":
        return os.pathsep.join(sorted(str(root.path) for root in connection.session.roots))
    return "" if scope == "global" else scope


def _settings(connection: Connection, name: str, settings: MCPServer) -> ServerSettings:
    """The settings with every default filled in."""
    roots = connection.session.roots
    folder = roots[0].path if roots else home_folder(connection.options.environ)
    seconds = settings.start_timeout or connection.config.mcp_timeout
    if settings.start_timeout is None and Path(settings.command or "").stem in _SLOW_TO_START:
        seconds = max(seconds, _SLOW_SECONDS)
    own = os.path.expanduser(settings.cwd or "")  # noqa: PTH111 (pathlib raises for an unknown user)
    return ServerSettings(
        name=name,
        command=settings.command,
        args=settings.args,
        env=settings.env,
        directory=folder / own if own else None,
        url=settings.url,
        transport=_TRANSPORTS.get(settings.type),
        headers=settings.headers,
        revision=settings.protocol,
        start_seconds=seconds,
        keep_alive_seconds=connection.config.mcp_keep_alive,
    )


def announce_servers(connection: Connection) -> None:
    """Tell the client what is news of the servers: another behaviour disables other tools.

    One that is just being stopped is told of when it has ended.
    """
    for server in connection.mcp:
        is_news = announcement(connection, server) != connection.told.servers.get(server.name)
        if is_news and server.state is not State.STOPPING:
            _announce(connection, server)


def _announce(connection: Connection, server: Server) -> None:
    """Tell how a server is; as often as it is asked (W-36)."""
    params = announcement(connection, server)
    connection.told.servers[server.name] = params
    connection.session.notify("tool/serverUpdated", params)


def announcement(connection: Connection, server: Server) -> m.MCPServerUpdatedParams:
    """How a server is, as the client is told of it; what a reference stands for is not shown."""
    from eca_server.features.configuration import select_behavior  # noqa: PLC0415 - it needs us

    policy = policy_of(connection.config, select_behavior(connection))
    settings = server.settings
    url = mask_url(as_written(settings.url)) if settings.url else None

    def shown(text: str) -> str:
        return mask(as_written(text), *settings.secrets)

    return m.MCPServerUpdatedParams(
        name=server.name,
        command="" if url else shown(settings.command or ""),
        args=() if url else tuple(map(shown, settings.args)),
        url=url,
        status=server.state.value,  # type: ignore[arg-type]  # but for `stopping`, never told
        disabled=settings.disabled,
        has_auth=bool(url) and _has_login(connection, server.name),
        tools=tuple(_announced_tools(connection, server, policy)),
        **(_others(server) if _shows_others(connection) else {}),
    )


def _shows_others(connection: Connection) -> bool:
    """Whether the client is told of prompts and resources here, and not only when it asks."""
    return connection.session.writes(m.MCPServerUpdatedParams, "prompts")


def _others(server: Server) -> dict[str, Any]:
    from eca_server.features import mcp_offers  # noqa: PLC0415 - few editions tell of them

    return {
        "prompts": tuple(mcp_offers.announced_prompts(server)),
        "resources": tuple(mcp_offers.announced_resources(server)),
    }


def _has_login(connection: Connection, name: str) -> bool:
    _, login = connection.mcp_logins.get(name, (None, None))
    return login is not None and login.is_known


def _announced_tools(
    connection: Connection, server: Server, policy: Policy
) -> Iterator[m.ServerTool]:
    """The tools as their server describes them, as far as all of them are not too much."""
    left = LARGEST_ANNOUNCEMENT
    for tool in server.tools:
        description, schema = tool.description, tool.input_schema
        if is_presentable(schema):
            left -= len(description) + len(json.dumps(schema))
        else:
            schema = _ANYTHING
        if left < 0:
            description, schema = description[:BRIEF], _ANYTHING
        yield announced(
            connection.session,
            name=tool.name,
            description=description,
            parameters=schema,
            disabled=_why(policy, server, tool) is not None,
        )


def _tell_fault(connection: Connection, server: Server) -> None:
    fault = server.error
    if fault is None:
        return
    reason = mask(str(fault), *server.settings.secrets)
    if server.state is State.REQUIRES_AUTH:
        link = f" Log in here: {fault.url}" if fault.url else ""
        text = f"The MCP server {server.name} needs a login: {reason}.{link}"
        connection.session.show("warning", text)
        if fault.url and server.name in connection.told.wanted_logins:
            connection.nursery.start_soon(open_page, fault.url, connection.child_variables)
        connection.told.wanted_logins.discard(server.name)
    elif server.state is State.FAILED:
        connection.session.show("error", f"The MCP server {server.name} failed: {reason}")
    else:
        text = f"The MCP server {server.name} is started again: {reason}"
        connection.session.show("warning", text)


def _forget_approvals(connection: Connection, server: Server) -> None:
    """What was approved for the session was the tool as it was described then.

    Of tools that are gone only the approved are remembered, however many a server has had.
    """
    approved_as, listed = connection.told.approved_as, set()
    for tool in server.tools:
        key = server.name, tool.name
        listed.add(key)
        known = approved_as.setdefault(key, tool)
        if known != tool:
            approved_as[key] = tool
            connection.memos -= {
                memo for memo in connection.memos if (memo.server, memo.tool) == key
            }
    needed = listed | {(memo.server, memo.tool) for memo in connection.memos}
    for key in [each for each in approved_as if each[0] == server.name]:
        if key not in needed:
            del approved_as[key]


async def wait_for_servers(connection: Connection, turn: Turn) -> None:
    """Give servers that are starting a moment, and say which are not in this turn.

    That one wants a login is said here, too: not every client shows what is said outside of chats.
    """
    starting = connection.mcp.newly_starting
    if starting:
        turn.progress(f"Waiting for MCP servers: {_names(starting)}")
        late = await connection.mcp.settled()
        if late:
            turn.say(f"Still starting, and not in this turn: {_names(late)}.", role="system")
    for server in connection.mcp:
        link = server.error.url if server.error and server.state is State.REQUIRES_AUTH else None
        if link is None or link in connection.told.links:
            continue
        connection.told.links.add(link)
        profile = connection.session.profile
        if profile.has_plain_own_texts:  # an answer alone has links that can be clicked
            words = markdown_link(f"Log in to the MCP server {server.name}", link)
            turn.say(f"{words}\n\n")
        elif profile.shows_messages:  # else the message is in the turn
            turn.say(f"The MCP server {server.name} needs a login: {link}", role="system")


def _names(servers: Sequence[str]) -> str:
    """Return names for a line of text; of many only the first ones."""
    more = len(servers) - MOST_NAMES
    return ", ".join(servers[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def served_tools(
    connection: Connection,
    turn: Turn,
    policy: Policy,
    native: ToolBox,
    limits: OutputTruncation,
) -> tuple[ServedTool, ...]:
    """The tools of the servers that run, for one turn.

    Args:
        connection: whose servers.
        turn: it shows the progress of calls.
        policy: what is withheld.
        native: the native tools that stand before them.
        limits: of their outputs.
    """
    cap = Cap(lines=limits.lines, size=limits.size_kb * 1024)
    taken = frozenset(tool.name for tool in native.offered)
    listed = {
        (server.name, tool.name): (server, tool)
        for server in connection.mcp.running
        for tool in server.tools
    }
    names = tool_names(listed, taken)
    served, left = [], MOST_TOOLS - len(taken)
    if connection.config.mcp_tool_search:
        left = len(listed)  # their number does not matter to an API
    for key, (server, tool) in listed.items():
        why = _why(policy, server, tool)
        left -= why is None
        if why is None and left < 0:
            why = f"no more than {MOST_TOOLS} tools can be offered"
        made = server_tool(server.name, tool, partial(_call, server, turn, tool.name), cap)
        served.append(ServedTool(server=server.name, name=names[key], tool=made, withheld=why))
    if left < 0 and not connection.told.too_many_tools:
        connection.told.too_many_tools = True
        connection.session.show(
            "warning",
            f"Models are offered {MOST_TOOLS} tools at most: the last {-left} are left out. "
            "`disabledTools` can make room.",
        )
    return tuple(served)


async def _call(
    server: Server, turn: Turn, shown: str, name: str, arguments: Mapping[str, object]
) -> ToolResult:
    try:
        return await server.call_tool(
            name, arguments, lambda how_far: turn.progress(f"{shown}: {how_far}")
        )
    except MCPError as fault:
        reason = mask(fault.message, *server.settings.secrets)
        raise MCPError(reason, kind=fault.kind, url=fault.url) from None


@attrs.frozen(kw_only=True)
class ResourceReader:
    """Asks the servers for resources; a fault says why, without a secret.

    What was given is remembered with the chat's ledger: a chat that is cleared has another one.
    """

    servers: Manager
    chat: Chat

    async def read(self, server: str, uri: str) -> tuple[ResourceContents, ...]:
        """What a resource holds now."""
        asked = self.servers.get(server)
        if asked is None:
            raise MCPError(f"there is no MCP server {server!r}")
        try:
            return await asked.give_resource(self.chat.ledger, uri)
        except MCPError as fault:
            reason = mask(str(fault), *asked.settings.secrets)
            raise MCPError(f"the MCP server {server} does not give it: {reason}") from None

    def changed(self) -> Sequence[tuple[str, str]]:
        """Server and URI of what the chat was given and what is another by now."""
        return [
            (server.name, uri)
            for server in self.servers.running
            for uri in server.resource_changes.changed_for(self.chat.ledger)
        ]


def _why(policy: Policy, server: Server, tool: MCPTool) -> str | None:
    """Why a tool is not offered; None: it is."""
    return policy.withheld(server=server.name, tool=tool.name, effect=effect_of(tool.hints))


def instructions(connection: Connection) -> str:
    """What the servers that run want the model to know, each marked as its own word."""
    return "\n\n".join(
        f"What the MCP server {server.name} says of itself (not the user's words):\n"
        f"<mcp-server-instructions>\n{server.instructions}\n</mcp-server-instructions>"
        for server in connection.mcp.running
        if server.instructions
    )
