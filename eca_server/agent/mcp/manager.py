"""The configured MCP servers of a connection.

Rules: servers start in parallel in the background, and every wait for one is bounded; a change of
the configuration restarts only the changed servers; no two servers run under one name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio

from eca_server.agent.mcp.server import Connect, Server
from eca_server.agent.mcp.states import State
from eca_server.config.mcp_settings import MCPServer
from eca_server.secret import Secret

if TYPE_CHECKING:
    from eca_server.agent.mcp.session import Session

START_WAIT_SECONDS: Final = 2.0
"""Seconds that a prompt waits for starting servers."""

CLOSE_SECONDS: Final = 1.8
"""Seconds within which all servers must have ended: a shutdown has two (ruling W-13)."""

IDLE: Final = frozenset({State.STOPPED, State.STOPPING, State.DISABLED})
"""The states of a server that does not run and is not starting."""


@attrs.define(kw_only=True, eq=False)
class Manager:
    """The servers by name, in the order of the configuration.

    Args:
        connect_to: returns the function that starts or reaches a server.
        secrets_of: returns the secrets to mask in texts of a server; default: configured ones.
        on_change: called after a change of a server's status or tools; must not wait.
        on_listed: called after a change of its prompts or resources only; must not wait.
        on_removed: called for each server removed from the configuration, as the last callback.
    """

    _nursery: trio.Nursery
    _connect_to: Callable[[str, MCPServer], Connect]
    _on_change: Callable[[Server], None]
    _secrets_of: Callable[[str, MCPServer], Iterable[Secret]] = lambda _, settings: settings.secrets
    _on_removed: Callable[[Server], None] = lambda _: None
    _on_listed: Callable[[Server], None] = lambda _: None
    _servers: dict[str, Server] = attrs.field(factory=dict, init=False)
    _leaving: set[Server] = attrs.field(factory=set, init=False)
    _spawning: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)

    def __iter__(self) -> Iterator[Server]:
        return iter(tuple(self._servers.values()))

    def get(self, name: str) -> Server | None:
        """Return the server with this name, or None."""
        return self._servers.get(name)

    @property
    def running(self) -> tuple[Server, ...]:
        """The running servers."""
        return tuple(server for server in self if server.state is State.RUNNING)

    def start(self, name: str) -> bool:
        """Start a server; return False if there is none with this name."""
        server = self._servers.get(name)
        if server is not None and not self._is_closed:
            server.start()
        return server is not None

    def stop(self, name: str) -> bool:
        """Stop a server; return False if there is none with this name."""
        server = self._servers.get(name)
        if server is not None and not self._is_closed:
            server.stop()
        return server is not None

    def configure(self, settings: Mapping[str, MCPServer]) -> None:
        """Set the configured servers; unchanged ones continue to run."""
        if self._is_closed:
            return
        before, self._servers = self._servers, {}
        for name, each in settings.items():
            old = before.pop(name, None)
            if old is not None and _is_unaffected(old.settings, each):
                old.settings = each
                self._servers[name] = old
            else:
                self._replace(name, each, old)
        for old in before.values():
            self._on_removed(old)
            self._remove(old)

    def roots_changed(self) -> None:
        """Notify the running servers that the workspace's folders have changed."""
        for server in self.running:
            server.session.roots_changed()

    def renew(self, name: str) -> None:
        """Replace a running or failed server by a new one."""
        server = self._servers.get(name)
        if server is not None and not self._is_closed and server.state not in IDLE:
            self._replace(name, server.settings, server)

    def _replace(self, name: str, settings: MCPServer, old: Server | None) -> None:
        server = self._servers[name] = Server(
            name,
            settings,
            connect=partial(self._connect_in_turn, name, self._connect_to(name, settings)),
            nursery=self._nursery,
            on_change=self._changed,
            on_listed=self._on_listed,
            secrets=partial(self._secrets_of, name, settings),
        )
        if old is not None:
            self._remove(old)
        if settings.disabled:
            self._on_change(server)
        else:
            server.start()

    @asynccontextmanager
    async def _connect_in_turn(self, name: str, connect: Connect) -> AsyncIterator[Session]:
        """Connect after predecessors of the same name have ended, and after a checkpoint.

        Spawning many processes in one step would block the event loop.
        """
        for predecessor in [each for each in self._leaving if each.name == name]:
            await predecessor.ended()
        async with self._spawning:
            await trio.lowlevel.checkpoint()
        async with connect() as session:
            yield session

    def _remove(self, server: Server) -> None:
        self._leaving.add(server)
        server.stop()
        self._nursery.start_soon(self._forget_when_ended, server)

    async def _forget_when_ended(self, server: Server) -> None:
        await server.ended()
        self._leaving.discard(server)

    def _changed(self, server: Server) -> None:
        """Report a change, unless the server was removed or replaced."""
        if self._servers.get(server.name) is server:
            self._on_change(server)

    @property
    def newly_starting(self) -> tuple[str, ...]:
        """The names of the starting servers that no prompt has waited for."""
        return tuple(server.name for server in self if server.is_newly_starting)

    async def settled(self, seconds: float = START_WAIT_SECONDS) -> tuple[str, ...]:
        """Wait for starting servers, once for each start; return the names of those still starting.

        Args:
            seconds: the longest wait.
        """
        new = [server for server in self if server.is_newly_starting]
        with trio.move_on_after(seconds):
            for server in new:
                await server.settled()
        for server in new:
            server.was_awaited = True
        return tuple(server.name for server in new if server.is_starting)

    async def close(self) -> tuple[str, ...]:
        """Stop all servers in parallel; return the names of those that did not end in time."""
        self._is_closed = True
        alive = {each for each in (*self._servers.values(), *self._leaving) if each.is_alive}
        for server in alive:
            server.stop()
        with trio.move_on_after(CLOSE_SECONDS):
            for server in alive:
                await server.ended()
        return tuple(sorted({server.name for server in alive if server.is_alive}))


def _is_unaffected(predecessors: MCPServer, now: MCPServer) -> bool:
    """Return whether new settings need no restart: time limits are read at each call."""
    same = attrs.evolve(
        predecessors, call_timeout=now.call_timeout, tool_timeouts=now.tool_timeouts
    )
    return same == now
