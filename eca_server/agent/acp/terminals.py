"""The terminals of one turn: commands that an agent runs, reads and kills."""

from __future__ import annotations

from typing import Final

import attrs
import trio

from eca_protocol.acp import RESOURCE_NOT_FOUND
from eca_protocol.acp import messages as acp
from eca_protocol.errors import RPCError
from eca_protocol.process import Child, signal_name
from eca_server.agent.jobs.output import Stream
from eca_server.agent.jobs.shell import RunningShell
from eca_server.agent.tools.script import Script, ready_to_start
from eca_server.agent.tools.tool import ToolError, ToolOutput

MOST_TERMINALS: Final = 100
"""The number of terminals of one turn that are not released, or whose output is stored."""

_MOST_OUTPUT: Final = 1024 * 1024


class Terminal:
    """A command and the end of its output.

    Attributes:
        ended: set when the command has ended.
        is_released: the agent has released it.
    """

    def __init__(self, limit: int | None) -> None:
        self.ended = trio.Event()
        self.is_released = False
        self._limit = min(_MOST_OUTPUT if limit is None else limit, _MOST_OUTPUT)
        self._output = bytearray()
        self._is_cut = False
        self._child: Child | None = None
        self._scope = trio.CancelScope()

    @property
    def text(self) -> str:
        """The end of the output, within the limit."""
        return self._output.decode(errors="ignore" if self._is_cut else "replace")

    async def run(self, child: Child) -> None:
        """Read the output until the command ends or is killed."""
        self._child = child
        shell = RunningShell(child, self._take)
        try:
            with self._scope:
                await shell.read_to_end()
        finally:
            await shell.end()
            self.ended.set()

    async def _take(self, stream: Stream, data: bytes) -> None:
        self._output += data
        if (excess := len(self._output) - self._limit) > 0:
            self._is_cut = True
            del self._output[:excess]

    def kill(self) -> None:
        """End the command."""
        self._scope.cancel()

    @property
    def status(self) -> acp.TerminalExitStatus | None:
        """The exit code or the signal; None while the command runs."""
        if not self.ended.is_set():
            return None
        code = None if self._child is None else self._child.returncode
        if code is None or code >= 0:
            return acp.TerminalExitStatus(exit_code=code)
        return acp.TerminalExitStatus(signal=signal_name(code))

    @property
    def output(self) -> acp.TerminalOutputResponse:
        """The output and the status."""
        return acp.TerminalOutputResponse(
            output=self.text, truncated=self._is_cut, exit_status=self.status
        )


@attrs.define(eq=False)
class Terminals:
    """The terminals of a turn; it starts commands in place of background jobs.

    Attributes:
        nursery: the nursery of the turn, whose end kills the commands.
        limits: the limits of the outputs in bytes, by the ids of terminals to be started.
    """

    nursery: trio.Nursery
    limits: dict[str, int | None] = attrs.field(factory=dict)
    _terminals: dict[str, Terminal] = attrs.field(factory=dict, init=False)

    async def start(self, script: Script, name: str) -> ToolOutput:
        """Start a command in a terminal of this id.

        Raises:
            ToolError: it cannot be started.
        """
        self._forget_oldest()
        if len(self._terminals) >= MOST_TERMINALS:
            raise ToolError(f"{MOST_TERMINALS} terminals are in use: release one of them.")
        async with ready_to_start(script) as (start, leave):
            child = start()
        terminal = self._terminals[name] = Terminal(self.limits.pop(name, None))

        async def run() -> None:
            try:
                await terminal.run(child)
            finally:
                with trio.CancelScope(shield=True):
                    await leave()

        self.nursery.start_soon(run)
        return ToolOutput.of(f"The command was started in the terminal {name}.")

    def _forget_oldest(self) -> None:
        """Forget the oldest released terminals, so that one more can be started."""
        released = [name for name, each in self._terminals.items() if each.is_released]
        for name in released[: max(len(self._terminals) - MOST_TERMINALS + 1, 0)]:
            del self._terminals[name]

    def text_of(self, terminal_id: str) -> str:
        """Return the output of a terminal, even of a released one."""
        terminal = self._terminals.get(terminal_id)
        return "" if terminal is None else terminal.text

    def _find(self, params: acp.TerminalReference) -> Terminal:
        terminal = self._terminals.get(params.terminal_id)
        if terminal is None or terminal.is_released:
            raise RPCError(RESOURCE_NOT_FOUND, f"no terminal {params.terminal_id!r}")
        return terminal

    async def read(self, params: acp.TerminalReference) -> acp.TerminalOutputResponse:
        """Return the output of a terminal."""
        return self._find(params).output

    async def wait(self, params: acp.TerminalReference) -> acp.TerminalExitStatus:
        """Wait for the end of a command."""
        terminal = self._find(params)
        await terminal.ended.wait()
        return terminal.status or acp.TerminalExitStatus()

    async def kill(self, params: acp.TerminalReference) -> acp.Empty:
        """Kill a command."""
        terminal = self._find(params)
        terminal.kill()
        await terminal.ended.wait()
        return acp.Empty()

    async def release(self, params: acp.TerminalReference) -> acp.Empty:
        """Kill a command, and forget its terminal."""
        self._find(params).is_released = True
        self._terminals[params.terminal_id].kill()
        return acp.Empty()
