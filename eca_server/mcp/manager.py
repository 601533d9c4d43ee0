"""The configured MCP servers of a connection: all at once, each on its own.

The rules it keeps: servers start in parallel in the background and nobody waits for one but within
a bound; a change of the configuration restarts what it changes and nothing else; no two run under
one name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, Protocol

import attrs
import trio

from eca_server.config import MCPServer
from eca_server.mcp.server import Connect, Server, ServerSession
from eca_server.mcp.states import State

__all__ = ["CLOSE_SECONDS", "PATIENCE", "ConnectTo", "Manager"]

PATIENCE: Final = 2.0
"""Seconds that a prompt waits for servers which are starting."""

CLOSE_SECONDS: Final = 1.8
"""Seconds within which all servers together have to be gone: a shutdown has two (ruling W-13)."""

_AT_REST: Final = frozenset({State.STOPPED, State.STOPPING, State.DISABLED})


class ConnectTo(Protocol):
    """How a server is started or reached, for its name and its settings."""

    def __call__(self, name: str, settings: MCPServer) -> Connect: ...  # noqa: D102


class Manager:
    """Servers by the user's names for them, in the order of the configuration.

    Args:
        nursery: where they live.
        connect_to: how each is started or reached.
        on_change: told of each change of a server's status or tools; must not wait.
        on_listed: told of each change of its prompts or resources alone; likewise.
        on_removed: told of each that is configured no more; nothing else is told of it then.
    """

    def __init__(
        self,
        *,
        nursery: trio.Nursery,
        connect_to: ConnectTo,
        on_change: Callable[[Server], None],
        on_removed: Callable[[Server], None] = lambda _: None,
        on_listed: Callable[[Server], None] = lambda _: None,
    ) -> None:
        self._nursery = nursery
        self._connect_to = connect_to
        self._on_change = on_change
        self._on_listed = on_listed
        self._on_removed = on_removed
        self._servers: dict[str, Server] = {}
        self._leaving: set[Server] = set()
        self._delayed: set[Server] = set()
        self._spawning = trio.Lock()
        self._is_closed = False

    def __iter__(self) -> Iterator[Server]:
        return iter(tuple(self._servers.values()))

    def get(self, name: str) -> Server | None:
        """The server of that name, if it is configured."""
        return self._servers.get(name)

    @property
    def running(self) -> tuple[Server, ...]:
        """Those that can be used now."""
        return tuple(server for server in self if server.state is State.RUNNING)

    def start(self, name: str) -> bool:
        """Let a server run; False if there is none of that name."""
        server = self._servers.get(name)
        if server is not None and not self._is_closed:
            self._start(server)
        return server is not None

    def stop(self, name: str) -> bool:
        """Let a server end; False if there is none of that name."""
        server = self._servers.get(name)
        if server is not None and not self._is_closed:
            self._delayed.discard(server)
            server.stop()
        return server is not None

    def configure(self, settings: Mapping[str, MCPServer]) -> None:
        """Let these be the servers; those that are configured as before are left alone."""
        if self._is_closed:
            return
        before, self._servers = self._servers, {}
        for name, each in settings.items():
            old = before.pop(name, None)
            if old is not None and _can_go_on(old.settings, each):
                old.settings = each
                self._servers[name] = old
            else:
                self._replace(name, each, old)
        for old in before.values():
            self._on_removed(old)
            self._dismiss(old)

    def roots_changed(self) -> None:
        """The folders of the workspace are others now: tell those that run."""
        for server in self.running:
            server.session.roots_changed()

    def renew(self, name: str) -> None:
        """Let a server that runs, or failed, begin from nothing."""
        server = self._servers.get(name)
        if server is not None and not self._is_closed and server.state not in _AT_REST:
            self._replace(name, server.settings, server)

    def _replace(self, name: str, settings: MCPServer, old: Server | None) -> None:
        if old is not None:
            self._dismiss(old)
        server = self._servers[name] = Server(
            name,
            settings,
            connect=partial(self._connect_in_turn, self._connect_to(name, settings)),
            nursery=self._nursery,
            on_change=self._changed,
            on_listed=self._on_listed,
        )
        if settings.disabled:
            self._on_change(server)
        else:
            self._start(server)

    @asynccontextmanager
    async def _connect_in_turn(self, connect: Connect) -> AsyncIterator[ServerSession]:
        """Connect in a step of the loop of its own: spawning many processes in one holds it up."""
        async with self._spawning:
            await trio.lowlevel.checkpoint()
        async with connect() as session:
            yield session

    def _start(self, server: Server) -> None:
        """Let it run as soon as nobody else is left who had its name."""
        before = [each for each in self._leaving if each.name == server.name and each.is_alive]
        if before:
            self._delayed.add(server)
            self._nursery.start_soon(self._start_after, before, server)
        else:
            server.start()

    async def _start_after(self, before: Iterable[Server], server: Server) -> None:
        for each in before:
            await each.ended()
        if server in self._delayed and not self._is_closed:
            self._delayed.discard(server)
            server.start()

    def _dismiss(self, server: Server) -> None:
        self._delayed.discard(server)
        self._leaving.add(server)
        server.stop()
        self._nursery.start_soon(self._see_off, server)

    async def _see_off(self, server: Server) -> None:
        await server.ended()
        self._leaving.discard(server)

    def _changed(self, server: Server) -> None:
        """Tell it, unless it is configured no more, or another one has its name by now."""
        if self._servers.get(server.name) is server:
            self._on_change(server)

    @property
    def newly_starting(self) -> tuple[str, ...]:
        """The names of the servers that are starting and that no prompt has waited for."""
        return tuple(server.name for server in self._newly_starting())

    def _newly_starting(self) -> list[Server]:
        return [each for each in self if each.state is State.STARTING and not each.was_waited_for]

    async def settled(self, seconds: float = PATIENCE) -> tuple[str, ...]:
        """Wait for those that are starting, once for each start; who is starting still."""
        new = self._newly_starting()
        with trio.move_on_after(seconds):
            for server in new:
                await server.settled()
        for server in new:
            server.was_waited_for = True
        return tuple(server.name for server in new if server.state is State.STARTING)

    async def close(self) -> tuple[str, ...]:
        """End all of them, in parallel; the names of those that could not be ended in time."""
        self._is_closed = True
        left = {each for each in (*self._servers.values(), *self._leaving) if each.is_alive}
        for server in left:
            server.stop()
        with trio.move_on_after(CLOSE_SECONDS):
            for server in left:
                await server.ended()
        return tuple(sorted({server.name for server in left if server.is_alive}))


def _can_go_on(before: MCPServer, now: MCPServer) -> bool:
    """Whether a server stays as it is: the limits of a call are looked at when it is made."""
    same = attrs.evolve(before, call_timeout=now.call_timeout, tool_timeouts=now.tool_timeouts)
    return same == now
