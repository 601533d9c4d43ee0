"""An agent for each scenario: fresh, or the same one after it has forgotten the last.

A process is started for each scenario unless one is to be reused; then it is reset in between, and
replaced when it cannot be. Behind a URL each scenario initializes, and resets: even the first, for
others may have talked to that agent before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
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

__all__ = ["Conversation", "Conversations", "VersionUnsupported"]

_UNSUPPORTED: Final = -32001


class VersionUnsupported(Exception):
    """Agent and runtime have no major version in common: no scenario can be run."""


@attrs.define
class Conversation:
    """An initialized agent at the beginning of a scenario."""

    connection: AgentConnection
    agent: InitializeResult
    warnings: list[str] = attrs.field(factory=list)


class Conversations:
    """Gives each scenario of a batch its agent; enter it around them all."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._kept = AsyncExitStack()
        self._current: Conversation | None = None
        self._known: InitializeResult | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._kept.aclose()

    @asynccontextmanager
    async def next(self, left: Callable[[], float]) -> AsyncIterator[Conversation]:
        """The agent for the next scenario.

        Args:
            left: how many seconds the scenario has, which its beginning takes its part of.

        Raises:
            AgentError: it does not start, or does not say who it is.
            VersionUnsupported: it speaks another major version.
        """
        keeps = self._batch.reuse_agent or self._batch.target.url is not None
        if not keeps:
            async with AsyncExitStack() as stack:
                yield await self._begin(stack, left)
            return
        conversation = await self._renewed(left)
        try:
            yield conversation
        except (AgentError, trio.Cancelled):
            self._current = None
            raise

    async def replace(self) -> None:
        """Give up the kept agent: the next scenario gets another one."""
        self._current = None
        await self._kept.aclose()
        self._kept = AsyncExitStack()

    async def _renewed(self, left: Callable[[], float]) -> Conversation:
        current = self._current
        if self._batch.target.url is not None:
            return await self._initialized_again(current, left)
        if current is None:
            return await self._replaced(left)
        current.warnings = []
        current.connection.warnings.clear()
        try:
            await current.connection.reset(deadline=min(self._batch.limits.rpc, left()))
        except AgentError as fault:
            current = await self._replaced(left)
            current.warnings.append(f"it was replaced, for it cannot be reset: {fault}")
        return current

    async def _replaced(self, left: Callable[[], float]) -> Conversation:
        await self.replace()
        self._current = await self._begin(self._kept, left)
        return self._current

    async def _initialized_again(
        self, current: Conversation | None, left: Callable[[], float]
    ) -> Conversation:
        if current is None:
            current = await self._replaced(left)
        else:
            current.warnings = []
            current.connection.warnings.clear()
            current.agent = await self._initialize(current.connection, current.warnings, left)
        try:
            await current.connection.reset(deadline=min(self._batch.limits.rpc, left()))
        except AgentError as fault:
            if fault.code != METHOD_NOT_FOUND:
                raise
            current.warnings.append("it knows no agent/reset: it was only initialized")
        return current

    async def _begin(self, stack: AsyncExitStack, left: Callable[[], float]) -> Conversation:
        target, limits = self._batch.target, self._batch.limits
        connection = await stack.enter_async_context(
            connect_agent(
                target.url or target.command,
                cwd=target.cwd,
                env=self._batch.environment(),
                limits=AgentLimits(max_message=limits.max_message, start=limits.start),
            )
        )
        warnings: list[str] = []
        agent = await self._initialize(connection, warnings, left)
        return Conversation(connection, agent, warnings)

    async def _initialize(
        self, connection: AgentConnection, warnings: list[str], left: Callable[[], float]
    ) -> InitializeResult:
        try:
            agent = await connection.initialize(deadline=min(self._batch.limits.start, left()))
        except AgentError as fault:
            if fault.code == _UNSUPPORTED:
                raise VersionUnsupported(str(fault)) from fault
            raise
        if agent.protocol_version is None:
            warnings.append(f"it names no protocol version: taken as {LEGACY_VERSION}")
        elif major_version(agent.protocol_version) != major_version(PROTOCOL_VERSION):
            raise VersionUnsupported(
                f"the agent speaks protocol version {agent.protocol_version}, "
                f"this runtime {PROTOCOL_VERSION}"
            )
        odd = [key for key, options in agent.capabilities.items() if not isinstance(options, dict)]
        if odd:
            warnings.append(f"capabilities that are no objects: {', '.join(odd)}")
        if self._known is not None and self._known != agent:
            warnings.append("it says something else of itself than before")
        self._known = agent
        return agent
