"""MCP servers for the client and its turns: statuses and tools (W-11, W-36).

The module is imported only if a server is configured or named. A turn uses the servers that run
when it begins, and waits briefly for starting ones.
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
from eca_server.chat import Turn
from eca_server.chat.citations import markdown_link
from eca_server.chat.outlet import Outlet
from eca_server.config import MCPServer, OutputTruncation
from eca_server.config.directories import home_directory
from eca_server.config.mcp_settings import original_text
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
"""Limit of tools in a request, that of the strictest API."""

MOST_NAMES = 10
"""Limit of starting servers that a turn names; further ones are counted."""

LARGEST_ANNOUNCEMENT = 1_000_000
"""Limit of descriptions and schemas, in bytes; further tools are announced in brief."""

_TRANSPORTS: Mapping[str | None, Literal["http", "sse"]] = {
    "http": "http",
    "streamable-http": "http",
    "sse": "sse",
}
_ANYTHING: Mapping[str, Any] = {"type": "object"}
_SLOW_TO_START = frozenset({"npx", "uvx", "docker", "bunx", "pnpm", "deno", "pipx", "podman"})
_SLOW_SECONDS = 300.0  # they may have to download the server first


def make_manager(connection: Connection) -> Manager:
    """Return the manager of a connection's servers."""

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
        _show_error(connection, server)

    def on_listed(server: Server) -> None:
        if _shows_others(connection):
            _announce(connection, server)

    def on_removed(server: Server) -> None:
        connection.announced.servers.pop(server.name, None)
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
    """Return the login at a server with a URL, which starts the server when it succeeds."""
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
    """Return the key of logins with this `authScope`: empty, the workspace's paths, or a name."""
    if scope == "workspace":
        return os.pathsep.join(sorted(str(root.path) for root in connection.session.roots))
    return "" if scope == "global" else scope


def _settings(connection: Connection, name: str, settings: MCPServer) -> ServerSettings:
    """Return the settings with every default filled in."""
    roots = connection.session.roots
    directory = roots[0].path if roots else home_directory(connection.options.environ)
    seconds = settings.start_timeout or connection.config.mcp_timeout
    if settings.start_timeout is None and Path(settings.command or "").stem in _SLOW_TO_START:
        seconds = max(seconds, _SLOW_SECONDS)
    own = os.path.expanduser(settings.cwd or "")  # noqa: PTH111 (pathlib raises for an unknown user)
    return ServerSettings(
        name=name,
        command=settings.command,
        args=settings.args,
        env=settings.env,
        directory=directory / own if own else None,
        url=settings.url,
        transport=_TRANSPORTS.get(settings.type),
        headers=settings.headers,
        revision=settings.protocol,
        start_seconds=seconds,
        keep_alive_seconds=connection.config.mcp_keep_alive,
    )


def announce_servers(connection: Connection) -> None:
    """Announce changed servers, as when a different behaviour disables different tools.

    A stopping server is announced when it has ended.
    """
    for server in connection.mcp:
        has_changed = announcement(connection, server) != connection.announced.servers.get(
            server.name
        )
        if has_changed and server.state is not State.STOPPING:
            _announce(connection, server)


def _announce(connection: Connection, server: Server) -> None:
    """Announce a server, even if it is unchanged (W-36)."""
    params = announcement(connection, server)
    connection.announced.servers[server.name] = params
    connection.session.notify("tool/serverUpdated", params)


def announcement(connection: Connection, server: Server) -> m.MCPServerUpdatedParams:
    """Return the announcement of a server, with its references unresolved."""
    from eca_server.features.configuration import select_behavior  # noqa: PLC0415 - it needs us

    policy = policy_of(connection.config, select_behavior(connection))
    settings = server.settings
    url = mask_url(original_text(settings.url)) if settings.url else None

    def shown(text: str) -> str:
        return mask(original_text(text), *settings.secrets)

    return m.MCPServerUpdatedParams(
        name=server.name,
        command="" if url else shown(settings.command or ""),
        args=() if url else tuple(map(shown, settings.args)),
        url=url,
        status=server.state.value,  # type: ignore[arg-type]  # `stopping` is never announced
        disabled=settings.disabled,
        has_auth=bool(url) and _has_login(connection, server.name),
        tools=tuple(_announced_tools(connection, server, policy)),
        **(_others(server) if _shows_others(connection) else {}),
    )


def _shows_others(connection: Connection) -> bool:
    """Return whether announcements of servers include prompts and resources."""
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
        yield announced(
            connection.session,
            name=tool.name,
            description=description,
            parameters=schema,
            disabled=_withheld_reason(policy, server, tool) is not None,
        )


def _show_error(connection: Connection, server: Server) -> None:
    error = server.error
    if error is None:
        return
    reason = mask(str(error), *server.settings.secrets)
    if server.state is State.REQUIRES_AUTH:
        link = f" Log in here: {error.url}" if error.url else ""
        text = f"The MCP server {server.name} needs a login: {reason}.{link}"
        connection.session.show("warning", text)
        if error.url and server.name in connection.announced.wanted_logins:
            connection.nursery.start_soon(open_page, error.url, connection.child_variables)
        connection.announced.wanted_logins.discard(server.name)
    elif server.state is State.FAILED:
        connection.session.show("error", f"The MCP server {server.name} failed: {reason}")
    else:
        text = f"The MCP server {server.name} is started again: {reason}"
        connection.session.show("warning", text)


def _forget_approvals(connection: Connection, server: Server) -> None:
    """Withdraw the session's approvals of tools whose description has changed.

    Of removed tools only approved ones are remembered, which limits the memory.
    """
    approved_as, listed = connection.announced.approved_as, set()
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
    """Wait briefly for starting servers, and tell the user which ones this turn lacks.

    Login links are shown here, too, because not every client shows messages outside of chats.
    """
    starting = connection.mcp.newly_starting
    if starting:
        turn.progress(f"Waiting for MCP servers: {_names(starting)}")
        late = await connection.mcp.settled()
        if late:
            turn.say(f"Still starting, and not in this turn: {_names(late)}.", role="system")
    for server in connection.mcp:
        link = server.error.url if server.error and server.state is State.REQUIRES_AUTH else None
        if link is None or link in connection.announced.links:
            continue
        connection.announced.links.add(link)
        profile = connection.session.profile
        if profile.has_plain_own_texts:  # links work in answers alone
            link_text = markdown_link(f"Log in to the MCP server {server.name}", link)
            turn.say(f"{link_text}\n\n")
        elif profile.shows_messages:  # else the turn repeats the message
            turn.say(f"The MCP server {server.name} needs a login: {link}", role="system")


def _names(servers: Sequence[str]) -> str:
    """Return a list of names, shortened if there are many."""
    more = len(servers) - MOST_NAMES
    return ", ".join(servers[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def served_tools(
    connection: Connection,
    turn: Turn,
    policy: Policy,
    native: ToolBox,
    limits: OutputTruncation,
) -> tuple[ServedTool, ...]:
    """Return the tools of the running servers, for one turn.

    Args:
        connection: the connection.
        turn: shows the progress of calls.
        policy: withholds tools.
        native: the native tools, whose names are taken.
        limits: the limits of outputs.
    """
    cap = Cap(lines=limits.lines, size=limits.size_kb * 1024)
    taken = frozenset(tool.name for tool in native.offered)
    listed = {
        (server.name, tool.name): (server, tool)
        for server in connection.mcp.running
        for tool in server.tools
    }
    names = tool_names(listed, taken)
    served, remaining = [], MOST_TOOLS - len(taken)
    if connection.config.mcp_tool_search:
        remaining = len(listed)  # the model searches for tools, so there is no limit
    for key, (server, tool) in listed.items():
        reason = _withheld_reason(policy, server, tool)
        remaining -= reason is None
        if reason is None and remaining < 0:
            reason = f"no more than {MOST_TOOLS} tools can be offered"
        made = server_tool(server.name, tool, partial(_call, server, turn, tool.name), cap)
        served.append(ServedTool(server=server.name, name=names[key], tool=made, withheld=reason))
    if remaining < 0 and not connection.announced.too_many_tools:
        connection.announced.too_many_tools = True
        connection.session.show(
            "warning",
            f"A request can have {MOST_TOOLS} tools at most: the last {-remaining} are left out. "
            "Disable others with `disabledTools`, or set `mcpToolSearch`.",
        )
    return tuple(served)


async def _call(
    server: Server, turn: Turn, shown: str, name: str, arguments: Mapping[str, object]
) -> ToolResult:
    try:
        return await server.call_tool(
            name, arguments, lambda how_far: turn.progress(f"{shown}: {how_far}")
        )
    except MCPError as error:
        reason = mask(error.message, *server.settings.secrets)
        raise MCPError(reason, kind=error.kind, url=error.url) from None


@attrs.frozen(kw_only=True)
class ResourceReader:
    """A reader of MCP resources, whose errors contain no secret.

    The resources that were read are recorded in the chat's ledger, which a cleared chat replaces.
    """

    servers: Manager
    chat: Outlet

    async def read(self, server: str, uri: str) -> tuple[ResourceContents, ...]:
        """Return the present content of a resource."""
        mcp_server = self.servers.get(server)
        if mcp_server is None:
            raise MCPError(f"there is no MCP server {server!r}")
        try:
            return await mcp_server.give_resource(self.chat.ledger, uri)
        except MCPError as error:
            reason = mask(str(error), *mcp_server.settings.secrets)
            raise MCPError(f"the MCP server {server} did not return it: {reason}") from None

    def changed(self) -> Sequence[tuple[str, str]]:
        """Return server and URI of resources that changed since the chat read them."""
        return [
            (server.name, uri)
            for server in self.servers.running
            for uri in server.resource_changes.changed_for(self.chat.ledger)
        ]


def _withheld_reason(policy: Policy, server: Server, tool: MCPTool) -> str | None:
    """Return the reason why a tool is withheld, or None."""
    return policy.withheld(server=server.name, tool=tool.name, effect=effect_of(tool.hints))


def instructions(connection: Connection) -> str:
    """Return the instructions of running servers for the model, each with its origin."""
    return "\n\n".join(
        f"Instructions of the MCP server {server.name} for its tools; they are not from the user:\n"
        f"<mcp-server-instructions>\n{server.instructions}\n</mcp-server-instructions>"
        for server in connection.mcp.running
        if server.instructions
    )
