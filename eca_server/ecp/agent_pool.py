"""The agents of a batch: a new one for each scenario, or one that is reset in between.

Each scenario has a process of its own, which starts while the scenario before it runs. If a process
cannot start then, because the running one may hold its port or its file, it is started again after
the running one has ended, and so are all later processes. With `reuse_agent` one process is reset
in between, and replaced if a reset fails. An agent behind a URL is initialized and reset for each
scenario, even the first, since it may have served others before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Final, Self

import attrs
import trio

from eca_protocol.ecp import (
    AgentConnection,
    AgentError,
    AgentLimits,
    InitializeResult,
    connect_agent,
)
from eca_protocol.ecp.methods import LEGACY_VERSION, PROTOCOL_VERSION, major_version
from eca_protocol.errors import METHOD_NOT_FOUND
from eca_server.ecp.batch import Batch

_UNSUPPORTED: Final = -32001


class VersionUnsupported(Exception):
    """The agent has a different major version: no scenario can run."""


@attrs.define
class AgentSession:
    """An initialized agent at the start of a scenario."""

    connection: AgentConnection
    agent: InitializeResult
    warnings: list[str]


@attrs.define
class _Process:
    """An agent's process in a task of its own, since the next one starts before it ends."""

    connection: AgentConnection | None = None
    fault: AgentError | None = None
    ready: trio.Event = attrs.field(factory=trio.Event)
    over: trio.Event = attrs.field(factory=trio.Event)
    ended: trio.Event = attrs.field(factory=trio.Event)

    async def run(self, connect: AbstractAsyncContextManager[AgentConnection]) -> None:
        """Stay connected until `over` is set; a failure is stored for the process's scenario."""
        try:
            async with connect as self.connection:
                self.ready.set()
                await self.over.wait()
        except AgentError as fault:
            self.fault = fault
        finally:
            self.ready.set()
            self.ended.set()

    async def end(self) -> None:
        """End the process and wait for its end."""
        self.over.set()
        with trio.CancelScope(shield=True):
            await self.ended.wait()


class AgentPool:
    """A pool that gives each scenario of a batch its agent; a context manager."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._opening = trio.open_nursery()
        self._next: _Process | None = None
        self._unstarted = len(batch.planned)
        self._starts_ahead = True
        self._stack = AsyncExitStack()
        self._current: AgentSession | None = None
        self._last_identity: InitializeResult | None = None

    async def __aenter__(self) -> Self:
        self._nursery = await self._opening.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._stack.aclose()
            await self._end_next()
        finally:
            if error is not None:
                self._nursery.cancel_scope.cancel()
            await self._opening.__aexit__(None, None, None)  # an error is not wrapped in a group

    @asynccontextmanager
    async def acquire(self, seconds_left: Callable[[], float]) -> AsyncIterator[AgentSession]:
        """Provide the agent for the next scenario.

        Args:
            seconds_left: returns the rest of the scenario's time, which includes this start.

        Raises:
            AgentError: the agent does not start, or does not initialize.
            VersionUnsupported: the agent has a different major version.
        """
        if not self._batch.reuse_agent and self._batch.target.url is None:
            async with self._new_process(seconds_left) as session:
                yield session
            return
        session = await self._reset_session(seconds_left)
        try:
            yield session
        except (AgentError, trio.Cancelled):
            self._current = None
            raise

    @asynccontextmanager
    async def _new_process(self, seconds_left: Callable[[], float]) -> AsyncIterator[AgentSession]:
        """Provide a new process; start the next one ahead."""
        has_neighbour = self._next is not None
        process = self._next or self._start_process()
        self._next = None
        if self._starts_ahead and self._unstarted > 0:
            has_neighbour = True
            self._next = self._start_process()
        try:
            try:
                session = await self._session_of(process, seconds_left)
            except AgentError:
                if not has_neighbour:
                    raise
                await process.end()
                await self._end_next()
                self._starts_ahead = False
                process = self._start_process()
                session = await self._session_of(process, seconds_left)
            yield session
        finally:
            await process.end()

    async def _session_of(
        self, process: _Process, seconds_left: Callable[[], float]
    ) -> AgentSession:
        await process.ready.wait()
        if process.connection is None:
            raise process.fault or AgentError("transport_error", "the agent was not started")
        return await self._open_session(process.connection, seconds_left)

    async def _end_next(self) -> None:
        if self._next is not None:
            await self._next.end()
            self._next = None
            self._unstarted += 1

    async def discard(self) -> None:
        """End the reused agent: the next scenario gets a new one."""
        self._current = None
        await self._stack.aclose()
        self._stack = AsyncExitStack()

    async def _reset_session(self, seconds_left: Callable[[], float]) -> AgentSession:
        current, is_url = self._current, self._batch.target.url is not None
        if current is None:
            current = await self._restart(seconds_left)
            if not is_url:
                return current
        else:
            current.warnings = []
            current.connection.warnings.clear()
            if is_url:
                current = self._current = await self._open_session(current.connection, seconds_left)
        try:
            await current.connection.reset(deadline=min(self._batch.limits.rpc, seconds_left()))
        except AgentError as fault:
            if not is_url:
                current = await self._restart(seconds_left)
                current.warnings.append(f"the agent was restarted, since a reset failed: {fault}")
            elif fault.code == METHOD_NOT_FOUND:
                current.warnings.append("the agent has no agent/reset: it was only initialized")
            else:
                raise
        return current

    async def _restart(self, seconds_left: Callable[[], float]) -> AgentSession:
        await self.discard()
        connection = await self._stack.enter_async_context(self._connection())
        self._current = await self._open_session(connection, seconds_left)
        return self._current

    def _start_process(self) -> _Process:
        self._unstarted -= 1
        process = _Process()
        self._nursery.start_soon(process.run, self._connection())
        return process

    def _connection(self) -> AbstractAsyncContextManager[AgentConnection]:
        target, limits = self._batch.target, self._batch.limits
        return connect_agent(
            target.url or target.command,
            cwd=target.cwd,
            env=self._batch.environment(),
            limits=AgentLimits(max_message=limits.max_message, start=limits.start),
        )

    async def _open_session(
        self, connection: AgentConnection, seconds_left: Callable[[], float]
    ) -> AgentSession:
        """Initialize the agent; note what is unusual about it."""
        warnings: list[str] = []
        try:
            agent = await connection.initialize(
                deadline=min(self._batch.limits.start, seconds_left())
            )
        except AgentError as fault:
            if fault.code == _UNSUPPORTED:
                raise VersionUnsupported(str(fault)) from fault
            raise
        if agent.protocol_version is None:
            warnings.append(f"the agent names no protocol version: {LEGACY_VERSION} is assumed")
        elif major_version(agent.protocol_version) != major_version(PROTOCOL_VERSION):
            raise VersionUnsupported(
                f"the agent speaks protocol version {agent.protocol_version}, "
                f"this runtime {PROTOCOL_VERSION}"
            )
        malformed = [
            key for key, options in agent.capabilities.items() if not isinstance(options, dict)
        ]
        if malformed:
            warnings.append(f"capabilities that are not objects: {', '.join(malformed)}")
        if self._last_identity is not None and self._last_identity != agent:
            warnings.append(
                "the agent's name, version or capabilities changed since the last scenario"
            )
        self._last_identity = agent
        return AgentSession(connection, agent, warnings)
