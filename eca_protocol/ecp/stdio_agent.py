"""An agent that we start: one message a line over its standard input and output.

It has a process group of its own, of which nothing is left at the end. Its output and its error
output are read all the time, whatever it does; writing to it is under the deadline of the request.
"""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from os import PathLike
from typing import Any, Final

import anyio

from eca_protocol.ecp.evaluating import AgentConnection, AgentLimits
from eca_protocol.ecp.faults import AgentFault
from eca_protocol.ecp.lines import AgentLines
from eca_protocol.ecp.methods import ECP, ECP_CODEC, ECP_DIALECT, RAW_CODEC
from eca_protocol.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    LocalProtocolError,
    RemoteProtocolError,
    RequestFailed,
    StartFailed,
)
from eca_protocol.framing import Framing, encode_line
from eca_protocol.peer import Peer
from eca_protocol.process import Child, GracePeriods, spawn

__all__ = ["connect_stdio"]

_LADDER: Final = GracePeriods(after_stdin=1.0, after_term=1.0, after_kill=1.0)
_WORDS: Final = 2000  # characters of its error output that a fault tells
_DRAIN: Final = 0.3  # seconds for what is still in the pipes of an agent that has ended


@asynccontextmanager
async def connect_stdio(
    command: Sequence[str],
    *,
    cwd: str | PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    limits: AgentLimits,
) -> AsyncIterator[StdioAgent]:
    """Start an agent and talk to it; see `connect_agent`."""
    try:
        child = spawn(command, cwd=cwd, env=env, stderr="pipe")
    except StartFailed as fault:
        raise AgentFault("transport_error", str(fault)) from fault
    agent = StdioAgent(child, limits)
    async with agent.peer:
        for task in (agent.serve, agent.read_errors, agent.end_with_process):
            agent.peer.start_soon(task)
        try:
            yield agent
        finally:
            agent.peer.close("the conversation is over")
            await child.end(_LADDER)
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
        self.lines = AgentLines(
            pending=lambda: self._pending,
            on_violation=self._on_violation,
            on_warning=self.warnings.append,
            max_message=limits.max_message,
        )
        self._pending: frozenset[int | str] = frozenset()
        self.peer = Peer(
            child.transport,
            side="client",
            table=ECP,
            codec=ECP_CODEC,
            handlers={},
            dialect=ECP_DIALECT,
            framing=Framing(decoder=lambda: self.lines, encode=encode_line),
        )

    async def ask(self, method: str, params: Any, *, deadline: float) -> Any:
        """See `AgentConnection.ask`."""
        self.peer.codec = RAW_CODEC
        try:
            return await self._call(method, params, deadline)
        finally:
            self.peer.codec = ECP_CODEC

    def log(self) -> str:
        """See `AgentConnection.log`."""
        return self._tail.decode("utf-8", "replace")

    async def _call(self, method: str, params: Any, deadline: float) -> Any:
        if self._violation is not None:
            raise AgentFault("protocol_error", self._violation)
        try:
            call = self.peer.start_call(method, params)
            self._pending = frozenset({call.id})
            return await call.result(deadline=deadline)
        except DeadlineExceeded as fault:
            noise = self.lines.noise
            said = f"; {noise} lines were no messages: {self.lines.heard[0]!r}" if noise else ""
            raise AgentFault("timeout", f"{method}: no answer in {deadline:g} s{said}") from fault
        except RequestFailed as fault:
            raise AgentFault(
                "agent_error",
                f"{method}: {fault.message} ({fault.code})",
                code=fault.code,
                data=fault.data,
            ) from fault
        except RemoteProtocolError as fault:
            raise AgentFault("protocol_error", f"{method}: {fault}") from fault
        except LocalProtocolError as fault:
            raise AgentFault("protocol_error", f"{method} cannot be asked: {fault}") from fault
        except ConnectionClosed as fault:
            raise await self._ending(method) from fault
        finally:
            self._pending = frozenset()

    def _on_violation(self, what: str) -> None:
        """Fail what is asked, now or next; an answer that came before counts all the same."""
        self._violation = what
        if not self.lines.has_answered(self._pending):
            self.peer.close(what)

    async def _ending(self, method: str) -> AgentFault:
        """Why nobody answers any more: a broken rule, or the end of the process."""
        if self._violation is not None:
            return AgentFault("protocol_error", f"{method}: {self._violation}")
        with anyio.move_on_after(_DRAIN * 2):
            await self._child.wait()
            await self._errors_read.wait()
        words = _last_words(self.log().strip())
        said = f"; its last words:\n{words}" if words else ""
        return AgentFault("transport_error", f"{method}: {_ended(self._child.returncode)}{said}")

    async def serve(self) -> None:
        """Read its output until it ends."""
        await self.peer.serve()

    async def read_errors(self) -> None:
        """Read its error output until it ends, and keep the end of it."""
        with contextlib.suppress(OSError):
            while data := await self._errors.receive():
                self._tail += data
                del self._tail[: -self._tail_size]
        self._errors_read.set()

    async def end_with_process(self) -> None:
        """Let the conversation end with the process, whoever else holds its pipes."""
        await self._child.wait()
        await anyio.sleep(_DRAIN)
        self.peer.close("the agent has ended")

    async def aclose(self) -> None:
        """Let go of its error output."""
        await self._errors.aclose()


def _last_words(text: str) -> str:
    """The end of a text from a whole word on: of half a key nobody would know that it is one."""
    if len(text) <= _WORDS:
        return text
    return re.sub(r"\A\S+\s+(?=\S)", "", text[-_WORDS:])


def _ended(returncode: int | None) -> str:
    if returncode is None:
        return "the agent closed its output"
    if returncode >= 0:
        return f"the agent ended with exit code {returncode}"
    try:
        return f"the agent was ended by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"the agent was ended by signal {-returncode}"
