"""The evaluator's choice of a transport: a command is started, a URL is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from os import PathLike

from eca_protocol.ecp.connection import AgentConnection, AgentLimits


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
