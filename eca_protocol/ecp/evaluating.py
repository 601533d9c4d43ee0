"""The evaluator's side: an agent that can be initialized, stepped and reset, however it is reached.

`connect_agent` takes a command or a URL. Each request has one deadline from its first byte to the
end of its answer, whatever the agent does meanwhile; a request that fails raises `AgentFault`, and
what the agent said of it on its error output is at hand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from os import PathLike
from typing import Any

import attrs

from eca_protocol.ecp.lines import MAX_MESSAGE
from eca_protocol.ecp.messages import InitializeParams, InitializeResult, Result, StepParams
from eca_protocol.ecp.methods import PROTOCOL_VERSION

__all__ = ["AgentConnection", "AgentLimits", "connect_agent"]


@attrs.frozen(kw_only=True)
class AgentLimits:
    """What an agent may take: sizes in bytes, times in seconds."""

    max_message: int = MAX_MESSAGE
    log_tail: int = 64 * 1024
    """How much of its error output is kept."""
    start: float = 5.0
    """For a process to be started, or a connection to be made."""


class AgentConnection(ABC):
    """A conversation with one agent; every method raises `AgentFault`.

    Attributes:
        warnings: what was odd and allowed, in the order it was seen.
    """

    def __init__(self) -> None:
        self.warnings: list[str] = []

    async def initialize(
        self, config: Mapping[str, Any] | None = None, *, deadline: float
    ) -> InitializeResult:
        """Begin a conversation.

        Args:
            config: what the agent is told of its task.
            deadline: seconds until the answer is whole.
        """
        params = InitializeParams(protocol_version=PROTOCOL_VERSION, config=config or {})
        answer = await self._call("agent/initialize", params, deadline)
        assert isinstance(answer, InitializeResult)
        return answer

    async def step(self, text: str, *, deadline: float) -> Result:
        """Say something; what the agent made of it."""
        answer = await self._call("agent/step", StepParams(input=text), deadline)
        assert isinstance(answer, Result)
        return answer

    async def reset(self, *, deadline: float) -> None:
        """Let the agent forget the conversation."""
        await self._call("agent/reset", None, deadline)

    @abstractmethod
    async def ask(self, method: str, params: Any, *, deadline: float) -> Any:
        """Ask anything, unchecked both ways; for checks of agents."""

    @abstractmethod
    def log(self) -> str:
        """The end of what it wrote to its error output, as far as it is known."""

    @abstractmethod
    async def _call(self, method: str, params: Any, deadline: float) -> Any:
        """The typed result of one request."""


def connect_agent(
    target: Sequence[str] | str,
    *,
    cwd: str | PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    limits: AgentLimits | None = None,
) -> AbstractAsyncContextManager[AgentConnection]:
    """A connection to an agent, while the block runs; leaving it ends the agent's whole group.

    Args:
        target: the command with its arguments, or an `http` or `https` URL.
        cwd: where the command runs; here by default.
        env: the command's whole environment; ours by default.
        limits: what the agent may take.

    Raises:
        AgentFault: on entering, the command cannot be started or the URL cannot be asked.
    """
    limits = limits or AgentLimits()
    if isinstance(target, str):
        from eca_protocol.ecp.http_agent import connect_http  # noqa: PLC0415 - HTTP only if asked

        return connect_http(target, limits=limits)
    from eca_protocol.ecp.stdio_agent import connect_stdio  # noqa: PLC0415 - as above

    return connect_stdio(target, cwd=cwd, env=env, limits=limits)
