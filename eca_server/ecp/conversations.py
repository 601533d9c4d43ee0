"""An agent for each scenario: fresh, or the same one after it has forgotten the last.

A process is started for each scenario unless one is to be reused; then it is reset in between, and
replaced when it cannot be. Behind a URL each scenario initializes again, and resets.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Final, Self

import attrs
import trio

from eca_protocol.ecp import (
    AgentConnection,
    AgentFault,
    AgentLimits,
    InitializeResult,
    connect_agent,
)
from eca_protocol.ecp.methods import LEGACY_VERSION, PROTOCOL_VERSION, major
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
    async def next(self) -> AsyncIterator[Conversation]:
        """The agent for the next scenario.

        Raises:
            AgentFault: it does not start, or does not say who it is.
            VersionUnsupported: it speaks another major version.
        """
        keeps = self._batch.reuse_agent or self._batch.target.url is not None
        if not keeps:
            async with AsyncExitStack() as stack:
                yield await self._begin(stack)
            return
        conversation = await self._renewed()
        try:
            yield conversation
        except (AgentFault, trio.Cancelled):
            self._current = None
            raise

    async def replace(self) -> None:
        """Give up the kept agent: the next scenario gets another one."""
        self._current = None
        await self._kept.aclose()
        self._kept = AsyncExitStack()

    async def _renewed(self) -> Conversation:
        current = self._current
        if current is None:
            await self.replace()
            self._current = await self._begin(self._kept)
            return self._current
        current.warnings = []
        current.connection.warnings.clear()
        if self._batch.target.url is not None:
            current.agent = await self._initialize(current.connection, current.warnings)
        try:
            await current.connection.reset(deadline=self._batch.limits.rpc)
        except AgentFault as fault:
            if fault.code == METHOD_NOT_FOUND and self._batch.target.url is not None:
                current.warnings.append("it knows no agent/reset: it was initialized again")
                return current
            await self.replace()
            self._current = await self._begin(self._kept)
            self._current.warnings.append(f"it was replaced, for it cannot be reset: {fault}")
            return self._current
        return current

    async def _begin(self, stack: AsyncExitStack) -> Conversation:
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
        agent = await self._initialize(connection, warnings)
        return Conversation(connection, agent, warnings)

    async def _initialize(
        self, connection: AgentConnection, warnings: list[str]
    ) -> InitializeResult:
        try:
            agent = await connection.initialize(deadline=self._batch.limits.start)
        except AgentFault as fault:
            if fault.code == _UNSUPPORTED:
                raise VersionUnsupported(str(fault)) from fault
            raise
        if agent.protocol_version is None:
            warnings.append(f"it names no protocol version: taken as {LEGACY_VERSION}")
        elif major(agent.protocol_version) != major(PROTOCOL_VERSION):
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
