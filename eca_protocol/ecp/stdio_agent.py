"""A connection to an agent that we start: one message a line over its standard input and output.

The agent has its own process group, which is killed at the end. Its output and error output are
read all the time; the request's deadline holds for writing, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from os import PathLike
from typing import Any, Final

import anyio
from typing_extensions import override

from eca_protocol.ecp.connection import AgentConnection, AgentLimits
from eca_protocol.ecp.errors import AgentError, answered_error, last_words
from eca_protocol.ecp.lines import AgentLineReader
from eca_protocol.ecp.methods import ECP, ECP_CODEC, ECP_DIALECT, ECPCodec
from eca_protocol.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    LocalProtocolError,
    RemoteProtocolError,
    RequestFailed,
    StartFailed,
)
from eca_protocol.framing import Framing, LineDecoder, encode_line
from eca_protocol.message_transport import StreamTransport
from eca_protocol.peer import Peer
from eca_protocol.process import Child, GracePeriods, signal_name, spawn

_LADDER: Final = GracePeriods(after_stdin=1.0, after_term=1.0, after_kill=1.0)
_LOG_EXCERPT: Final = 2000  # characters of the error output that an error quotes
_EXIT: Final = 2.0  # seconds for the end of an agent that has closed its output
_DRAIN: Final = 0.3  # seconds for reading the pipes of an agent that has ended


@asynccontextmanager
async def connect_stdio(
    command: Sequence[str],
    *,
    cwd: str | PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    limits: AgentLimits,
) -> AsyncIterator[StdioAgent]:
    """Start an agent and connect to it; see `connect_agent`."""
    try:
        child = spawn(command, cwd=cwd, env=env, stderr="pipe")
    except StartFailed as fault:
        raise AgentError("transport_error", str(fault)) from fault
    agent = StdioAgent(child, limits)
    async with agent.peer:
        for task in (agent.peer.serve, agent.read_errors, agent.close_with_process):
            agent.peer.start_soon(task)
        try:
            yield agent
        finally:
            agent.peer.close("the conversation is over")
            try:
                await child.end(_LADDER)
            finally:
                await agent.aclose()


class StdioAgent(AgentConnection):
    """A running agent; `connect_stdio` makes it."""

    def __init__(self, child: Child, limits: AgentLimits) -> None:
        super().__init__()
        self._child = child
        self._tail = bytearray()
        self._tail_size = limits.log_tail
        self._errors = child.take_stderr()
        self._errors_read = anyio.Event()
        self._violation: str | None = None
        self.lines: AgentLineReader = AgentLineReader(
            pending=lambda: self._pending,
            on_violation=self._on_violation,
            on_warning=self.warnings.append,
            max_message=limits.max_message,
        )
        self._pending: frozenset[int | str] = frozenset()
        decoder = partial(LineDecoder, max_line=limits.max_message)
        framing = Framing(decoder=decoder, encode=encode_line)
        self.peer: Peer = Peer(
            StreamTransport(child.transport, framing=framing, read=self.lines.read),
            side="client",
            table=ECP,
            codec=ECP_CODEC,
            handlers={},
            dialect=ECP_DIALECT,
        )

    @override
    def log(self) -> str:
        return self._tail.decode("utf-8", "replace")

    @override
    async def _call(
        self, method: str, params: Any, deadline: float, *, codec: ECPCodec = ECP_CODEC
    ) -> Any:
        if self._violation is not None:
            raise AgentError("protocol_error", self._violation)
        self.peer.codec = codec
        try:
            call = self.peer.start_call(method, params)
            self._pending = frozenset({call.id})
            return await call.result(deadline=deadline)
        except DeadlineExceeded as fault:
            noise, excerpts = self.lines.noise_count, self.lines.noise_excerpts
            hint = f"; {noise} lines were no messages: {excerpts[0]!r}" if noise else ""
            why = f"{method}: no answer in {deadline:g} s{hint}"
            raise AgentError("timeout", why) from fault
        except RequestFailed as fault:
            raise answered_error(method, fault.message, fault.code, fault.data) from fault
        except RemoteProtocolError as fault:
            raise AgentError("protocol_error", f"{method}: {fault}") from fault
        except LocalProtocolError as fault:
            raise AgentError("protocol_error", f"{method} cannot be sent: {fault}") from fault
        except ConnectionClosed as fault:
            raise await self._closed_error(method) from fault
        finally:
            self._pending = frozenset()

    def _on_violation(self, rule: str) -> None:
        """Fail the current or next request; an answer received before still counts."""
        self._violation = rule
        if not self.lines.has_answered(self._pending):
            self.peer.close(rule)

    async def _closed_error(self, method: str) -> AgentError:
        if self._violation is not None:
            return AgentError("protocol_error", f"{method}: {self._violation}")
        with anyio.move_on_after(_EXIT):
            await self._child.wait()
        with anyio.move_on_after(_DRAIN):
            await self._errors_read.wait()
        excerpt = last_words(self.log().strip(), _LOG_EXCERPT)
        log = f"; the end of its error output:\n{excerpt}" if excerpt else ""
        return AgentError("transport_error", f"{method}: {_exit_text(self._child.returncode)}{log}")

    async def read_errors(self) -> None:
        """Read the agent's error output until it ends, and store the end of it."""
        with contextlib.suppress(OSError):
            while data := await self._errors.receive():
                self._tail += data
                del self._tail[: -self._tail_size]
        self._errors_read.set()

    async def close_with_process(self) -> None:
        """Close the connection when the process ends, even if its children hold its pipes open."""
        await self._child.wait()
        await anyio.sleep(_DRAIN)
        self.peer.close("the agent has ended")

    async def aclose(self) -> None:
        """Close the agent's error output."""
        await self._errors.aclose()


def _exit_text(returncode: int | None) -> str:
    if returncode is None:
        return "the agent closed its output"
    if returncode >= 0:
        return f"the agent ended with exit code {returncode}"
    return f"the agent was ended by {signal_name(returncode)}"
