"""MCP servers for the client and its turns: how they start, log in, and are announced (W-11, W-36).

The module is imported only if a server is configured or named.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import attrs
import trio

from eca_protocol import messages as m
from eca_server.agent.mcp.connection import connect
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.manager import IDLE, Manager
from eca_server.agent.mcp.server import RECONNECT_SECONDS, Connect, Server
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.agent.mcp.states import State
from eca_server.agent.tools.approval import policy_of
from eca_server.client.session import Session
from eca_server.config.mcp_settings import MCPServer
from eca_server.connection.features.announcer import Announcer
from eca_server.connection.features.approvals import Approvals
from eca_server.connection.features.current_models import CurrentModels
from eca_server.connection.features.host import Host
from eca_server.connection.features.mcp_announcements import announcement, shows_offers
from eca_server.connection.features.mcp_turns import TurnServers
from eca_server.connection.features.selection import Selection
from eca_server.connection.features.settings import Settings
from eca_server.models.credentials.logins import Logins
from eca_server.secret import Secret, mask
from eca_server.system.browser import open_page

if TYPE_CHECKING:
    from eca_server.agent.mcp.authorization.login import Login
    from eca_server.agent.mcp.session import Session as ServerSession

_log = logging.getLogger("eca_server")

_SLOW_TO_START: Final = frozenset(
    {"npx", "uvx", "docker", "bunx", "pnpm", "deno", "pipx", "podman"}
)
_SLOW_SECONDS: Final = 300.0  # they may have to download the server first
_FAILED: Final = "Correct its entry in `mcpServers`, or start it again."
_UNREACHABLE: Final = f"A new attempt is made every {RECONNECT_SECONDS:g} s."


@attrs.define(eq=False)
class MCPServers:
    """The MCP servers of a connection.

    Attributes:
        wanted_logins: the servers for which the user has requested a login.
    """

    session: Session
    settings: Settings
    host: Host
    models: CurrentModels
    selection: Selection
    announcer: Announcer
    approvals: Approvals
    logins: Logins
    wanted_logins: set[str] = attrs.field(factory=set)
    manager: Manager = attrs.field(init=False)
    in_turns: TurnServers = attrs.field(init=False)
    _logins_at: dict[str, tuple[MCPServer, Login]] = attrs.field(factory=dict, init=False)
    _errors: dict[str, str] = attrs.field(factory=dict, init=False)
    _following: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self.manager = Manager(
            nursery=self.host.nursery,
            connect_to=self._connect_to,
            secrets_of=self._secrets_of,
            on_change=self._changed,
            on_removed=self._removed,
            on_listed=self._listed,
        )
        self.in_turns = TurnServers(self.manager, self.session)

    def announcements(self) -> Iterator[m.MCPServerUpdatedParams]:
        """Yield the announcements of the servers."""
        for server in self.manager:
            yield self.announcement(server)

    def announcement(self, server: Server) -> m.MCPServerUpdatedParams:
        """Return the announcement of a server."""
        _, login = self._logins_at.get(server.name, (None, None))
        return announcement(
            self.session,
            server,
            policy_of(self.settings.config, self.selection.behavior_in_force()),
            has_login=login is not None and login.is_known,
        )

    def login_of(self, name: str, settings: MCPServer) -> Login | None:
        """Return the login at a server with a URL, which starts the server when it succeeds."""
        known = self._logins_at
        if settings.url and (name not in known or known[name][0] != settings):
            known[name] = settings, self._make_login(name, settings.url, settings)
        return known[name][1] if settings.url else None

    async def follow_logins(self) -> None:
        """Start the servers whose required login another server has stored."""
        async with self._following:  # else two of them would start a server twice
            for server in self.manager:
                _, login = self._logins_at.get(server.name, (None, None))
                if login is None or server.state is not State.REQUIRES_AUTH:
                    continue
                try:
                    is_stored = await login.was_made_elsewhere()
                except (MCPError, RuntimeError) as error:  # RuntimeError: there is no thread now
                    _log.info("MCP server %s: %s", server.name, error)
                    continue
                if is_stored and server.state is State.REQUIRES_AUTH:
                    login.give_up()
                    server.start()

    async def close(self) -> list[str]:
        """Stop all servers; return a sentence for each that did not end in time."""
        return [f"the MCP server {name} did not end" for name in await self.manager.close()]

    def _connect_to(self, name: str, settings: MCPServer) -> Connect:
        log = ServerLog(name)
        self.host.options.hide(settings.secrets)
        if name in self._logins_at and self._logins_at[name][0] != settings:
            self._logins_at[name][1].give_up()

        def connect_now() -> AbstractAsyncContextManager[ServerSession]:
            login = self.login_of(name, settings)
            return connect(
                settings,
                environment=self._environment(name, settings),
                roots=lambda: self.session.roots,
                log=log,
                http=self.host.http,
                login=login,
                start_seconds=self._start_seconds(settings),
                keep_alive_seconds=self.settings.config.mcp_keep_alive,
            )

        return connect_now

    def _changed(self, server: Server) -> None:
        self.approvals.follow(server)
        self.announcer.announce_server(self.announcement(server))
        self._show_error(server)

    def _listed(self, server: Server) -> None:
        if shows_offers(self.session):
            self.announcer.announce_server(self.announcement(server))

    def _removed(self, server: Server) -> None:
        gone = attrs.evolve(self.announcement(server), status="stopped", tools=(), has_auth=False)
        _, login = self._logins_at.pop(server.name, (None, None))
        if login is not None:
            login.give_up()
        self.approvals.forget(server.name)
        self.session.withdraw(self._errors.pop(server.name, ""))
        self.announcer.announce_removal(gone)

    def _make_login(self, name: str, url: str, settings: MCPServer) -> Login:
        from eca_server.agent.mcp.authorization import login  # noqa: PLC0415 - only where needed

        return login.Login(
            url=url,
            http=self.host.http,
            logins=self.logins,
            nursery=self.host.nursery,
            client=settings,
            shared_by=self._shared_by(settings.auth_scope),
            hide=self.host.options.hide,
            on_login=partial(self._logged_in, name),
            on_failure=partial(self._login_failed, name),
        )

    def _logged_in(self, name: str) -> None:
        """Start the server, unless the user has stopped it meanwhile."""
        server = self.manager.get(name)
        if server is not None and server.state not in IDLE:
            self.manager.start(name)

    def _login_failed(self, name: str, reason: str) -> None:
        """Show why a login failed, in place of its page, which is of no use any more."""
        server = self.manager.get(name)
        if server is not None and server.state is State.REQUIRES_AUTH:
            again = "Connect or start it to log in again"
            text = f"it requires a login; the last one failed: {reason}. {again}"
            server.error = MCPError(text, kind="login")
            self._show_error(server)

    def _shared_by(self, scope: str) -> str:
        """Return the key of logins with this `authScope`: empty, the workspace's paths, a name."""
        if scope == "workspace":
            return os.pathsep.join(sorted(str(root.path) for root in self.session.roots))
        return "" if scope == "global" else scope

    def _start_seconds(self, settings: MCPServer) -> float:
        """Return the time limit of a server's start."""
        is_slow = Path(settings.command or "").stem in _SLOW_TO_START
        common = max(self.settings.config.mcp_timeout, _SLOW_SECONDS if is_slow else 0)
        return settings.start_timeout or common

    def _secrets_of(self, name: str, settings: MCPServer) -> tuple[Secret, ...]:
        """Return the secrets to mask in texts of a server: configured ones, and its login's."""
        _, login = self._logins_at.get(name, (None, None))
        return (*settings.secrets, *(() if login is None else login.secrets))

    def _environment(self, name: str, settings: MCPServer) -> Mapping[str, str]:
        """Return the environment of a server, without the variables of other servers' secrets.

        A path is no secret: it may be that of a socket or a file which many programs use.
        """
        servers = self.settings.config.mcp_servers.items()
        of_others = {v for other, each in servers if other != name for v in each.secret_variables}
        withheld = of_others - settings.secret_variables
        return {
            variable: value
            for variable, value in self.models.child_variables.items()
            if variable not in withheld or os.path.isabs(value)  # noqa: PTH117 - it is only a text
        }

    def _show_error(self, server: Server) -> None:
        error = server.error
        self.session.withdraw(self._errors.pop(server.name, ""))
        if error is None:
            return
        level: Literal["error", "warning"] = "warning"
        reason = mask(str(error), *server.secrets())
        if server.state is State.REQUIRES_AUTH:
            link = f" Log in here: {error.url}" if error.url else ""
            text = f"The MCP server {server.name} {reason.removeprefix('it ')}.{link}"
            if error.url and server.name in self.wanted_logins:
                self.host.nursery.start_soon(open_page, error.url, self.models.child_variables)
            self.wanted_logins.discard(server.name)
        elif server.state is State.FAILED:
            level = "error"
            next_step = _UNREACHABLE if error.kind == "unreachable" else _FAILED
            text = f"The MCP server {server.name} failed: {_sentences(reason, next_step)}"
        else:
            text = f"The MCP server {server.name} is started again: {_sentences(reason)}"
        self._errors[server.name] = text
        self.session.show(level, text)


def _sentences(reason: str, next_step: str = "") -> str:
    """Return a reason as a sentence, and a second one; the output of a program stays as it is."""
    if "\n" in reason:
        return f"{reason}\n{next_step}".rstrip("\n")
    end = "" if reason.endswith((".", "!", "?")) else "."
    return f"{reason}{end} {next_step}".rstrip(" ")
