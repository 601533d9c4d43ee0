"""The evaluator's connection to an agent, whatever its transport: a command, or a URL.

One deadline holds for each request, from its first byte to the end of its answer. A request that
fails raises `AgentError`; `AgentConnection.log` has the agent's error output.
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
from eca_protocol.ecp.methods import ECP_CODEC, PROTOCOL_VERSION, RAW_CODEC, ECPCodec


@attrs.frozen(kw_only=True)
class AgentLimits:
    """The limits of an agent; sizes are in bytes, times in seconds."""

    max_message: int = MAX_MESSAGE
    log_tail: int = 64 * 1024
    """The length of the stored end of the agent's error output."""
    start: float = 5.0
    """The time to start a process, or to make a connection."""


class AgentConnection(ABC):
    """A conversation with one agent; every request raises `AgentError` when it fails.

    `deadline` is the limit of a request, in seconds until its answer is complete.

    Attributes:
        warnings: unusual but allowed behaviour of the agent, in order.
    """

    def __init__(self) -> None:
        self.warnings: list[str] = []

    async def initialize(
        self, config: Mapping[str, Any] | None = None, *, deadline: float
    ) -> InitializeResult:
        """Start a conversation.

        Args:
            config: settings of the task, passed to the agent.
            deadline: seconds until the answer is complete.
        """
        params = InitializeParams(protocol_version=PROTOCOL_VERSION, config=config or {})
        answer = await self._call("agent/initialize", params, deadline)
        assert isinstance(answer, InitializeResult)
        return answer

    async def step(self, text: str, *, deadline: float) -> Result:
        """Send one input, and return the agent's result."""
        answer = await self._call("agent/step", StepParams(input=text), deadline)
        assert isinstance(answer, Result)
        return answer

    async def reset(self, *, deadline: float) -> None:
        """Clear the agent's state of the conversation."""
        await self._call("agent/reset", None, deadline)

    async def request_raw(self, method: str, params: Any, *, deadline: float) -> Any:
        """Send a request without checking params or result; for conformance checks."""
        return await self._call(method, params, deadline, codec=RAW_CODEC)

    def log(self) -> str:
        """Return the end of the agent's error output, as far as it was read; empty for a URL."""
        return ""

    @abstractmethod
    async def _call(
        self, method: str, params: Any, deadline: float, *, codec: ECPCodec = ECP_CODEC
    ) -> Any:
        """Send one request, and return its result."""


def connect_agent(
    target: Sequence[str] | str,
    *,
    cwd: str | PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    limits: AgentLimits | None = None,
) -> AbstractAsyncContextManager[AgentConnection]:
    """Connect to an agent while the block runs; leaving it ends the agent's process group.

    Args:
        target: the command with its arguments, or an `http` or `https` URL.
        cwd: the command's working directory; the current one by default.
        env: the command's whole environment; this process's by default.
        limits: sizes and times.

    Raises:
        AgentError: on entering, if the command cannot be started or the URL cannot be used.
    """
    limits = limits or AgentLimits()
    if isinstance(target, str):
        from eca_protocol.ecp.http_agent import connect_http  # noqa: PLC0415 - HTTP only if used

        return connect_http(target, limits=limits)
    from eca_protocol.ecp.stdio_agent import connect_stdio  # noqa: PLC0415 - as above

    return connect_stdio(target, cwd=cwd, env=env, limits=limits)
