"""The transport over stdin and stdout of a program that we start: one message a line.

Rules: a server has its own process group, of which no process remains after it ends, is stopped, or
outlives us. Its stderr is always read, and its last lines are stored. The session ends with the
process, even if a grandchild keeps the pipes open.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import trio

from eca_protocol.errors import StartFailed
from eca_protocol.framing import LINES, Framing
from eca_protocol.message_transport import Reader, StreamTransport
from eca_protocol.outbox import WriteShape
from eca_protocol.process import Child, GracePeriods, signal_name, spawn
from eca_server.agent.mcp.eras import Era
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.config.mcp_settings import MCPServer
from eca_server.system.child_process import find_executable, find_program

LADDER: Final = GracePeriods(after_stdin=0.8, after_term=0.5, after_kill=0.3)
"""A server that ignores EOF and SIGTERM is killed after 1.3 seconds: ruling W-13 allows two for the
whole shutdown."""

_SHOWN_FOLDERS: Final = 6
_DRAIN: Final = 0.5  # seconds to read the pipes of an ended server
_SLICE: Final = 8192  # bytes read in one step: a flood must not block the event loop
_WRITE: Final = (
    30.0  # seconds after which, or twice that, a server that does not read its input is abandoned
)


def start_stdio(
    settings: MCPServer,
    *,
    environment: Mapping[str, str],
    directory: Path,
    log: ServerLog,
) -> StdioTransport:
    """Start a server; `aclose` ends it, within the seconds of `LADDER`.

    Raises:
        MCPError: it cannot be started; the text names the program and the searched places.
    """
    assert settings.command is not None
    full = dict(environment)
    for name, value in settings.env.items():
        if value is None:
            full.pop(name, None)
        else:
            full[name] = value
    if problem := _problem_of(directory):
        raise MCPError(f"its directory {problem}: {directory}", kind="start")
    program = _find(settings, full.get("PATH", os.defpath), directory)
    try:
        child = spawn(
            [program, *settings.args], cwd=directory, env=full, stderr="pipe", guarded=True
        )
    except StartFailed as error:
        raise MCPError(str(error), kind="start") from error
    return StdioTransport(child, log)


def _problem_of(directory: Path) -> str | None:
    """Return the reason why a program cannot start in a directory, or None."""
    try:
        is_directory = stat.S_ISDIR(directory.stat().st_mode)
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be used ({error.strerror})"
    return None if is_directory else "is a file"


def _find(settings: MCPServer, path: str, directory: Path) -> str:
    """Return the program's file, found on the server's own PATH."""
    command = settings.command or ""
    if os.path.dirname(command):  # noqa: PTH120 (a Path has `.` in place of no directory)
        own = os.path.expanduser(command)  # noqa: PTH111 (pathlib raises for an unknown user)
        expanded = str(directory / own)
        file = find_executable(expanded)
        where = f"{expanded} is not an executable file"
    else:
        file = find_program(command, path)
        where = f"it is in none of the folders of PATH ({_shortened(path)})"
    if file is not None:
        return file
    hint = ""
    if " " in command.strip():
        hint = "; move its arguments to `args`"
    raise MCPError(f"the command {command!r} cannot be started: {where}{hint}", kind="start")


def _shortened(path: str) -> str:
    """Return the first directories of PATH, where those of desktops and of shells differ."""
    folders = list(dict.fromkeys(path.split(os.pathsep)))
    left_out = len(folders) - _SHOWN_FOLDERS
    more = f", and {left_out} more" if left_out > 0 else ""
    return f"{', '.join(folders[:_SHOWN_FOLDERS])}{more}"


class StdioTransport:
    """A server's process, and the lines to and from it."""

    framing: Framing = LINES

    def __init__(self, child: Child, log: ServerLog) -> None:
        self._child = child
        self._log = log
        self._errors = child.take_stderr()
        self._errors_read = trio.Event()
        self._unread = b""
        self._reading_errors = trio.CancelScope(shield=True)
        self._watching = trio.CancelScope(shield=True)
        self._writes = 0
        self._is_writing = False
        self._is_deaf = False
        self._is_stuck = False
        self._closing = False
        self._is_introduced = False

    def agree(self, era: Era) -> None:
        """Note that the server has introduced itself; this transport has no revisions."""
        self._is_introduced = True

    async def receive(self) -> bytes:
        """Return the next bytes of its output, a slice of a flood at a time; `b""` at its end."""
        if self._unread:
            await trio.lowlevel.checkpoint()
        else:
            self._unread = await self._child.transport.receive()
        data, self._unread = self._unread[:_SLICE], self._unread[_SLICE:]
        return data

    async def send(self, data: bytes) -> None:
        """Write one line.

        A server that has closed its input may still answer: its output is read to the end.

        Raises:
            OSError: the server has not read its input for a long time.
        """
        if self._is_deaf:
            return
        self._writes += 1
        self._is_writing = True
        try:
            await self._child.transport.send(data)
        except BrokenPipeError:
            if self._is_stuck:
                raise TimeoutError(_unread_for(_WRITE)) from None
            self._is_deaf = True
            self._log.note("it has closed its input")
        finally:
            self._is_writing = False

    def messages(
        self, read: Reader | None = None, take: Callable[[Sequence[Any]], object] | None = None
    ) -> StreamTransport:
        """Return the messages in its output, and to its input: one a write."""
        shape = WriteShape(size=1, send_now=self._child.send_now)
        return StreamTransport(self, framing=self.framing, read=read, shape=shape)

    async def watch(self) -> None:
        """Read its stderr until `aclose`, and end the stream after the process."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read_errors)
            nursery.start_soon(self._end_with_process)
            nursery.start_soon(self._watch_writing)

    async def _read_errors(self) -> None:
        with self._reading_errors, contextlib.suppress(OSError):
            while data := await self._errors.receive():
                for start in range(0, len(data), _SLICE):
                    self._log.feed(data[start : start + _SLICE])
                    await trio.lowlevel.checkpoint()
        self._errors_read.set()

    async def _end_with_process(self) -> None:
        """Close the stream soon after the process ends, even if a child keeps the pipes open."""
        with self._watching:
            await self._child.wait()
            await trio.sleep(_DRAIN)
            await self._child.transport.aclose()

    async def _watch_writing(self) -> None:
        """Abandon a server that does not read its input; cheaper than a time limit per write."""
        while not self._is_stuck:
            before = self._writes
            await trio.sleep(_WRITE)
            self._is_stuck = self._is_writing and self._writes == before
        self._child.close_stdin()

    async def error(self) -> MCPError | None:
        """Return how it ended, with its last lines."""
        if self._is_stuck:  # it ends because its input was closed
            return MCPError(_unread_for(_WRITE), kind="closed")
        with trio.move_on_after(_DRAIN):
            await self._child.wait()
            await self._errors_read.wait()
        lines = self._log.last_lines() if self._is_introduced else self._log.reason()
        output = f"; its last output:\n{lines}" if lines else ""
        return MCPError(f"{_ending(self._child.returncode)}{output}", kind="closed")

    async def aclose(self) -> None:
        """End the process by the steps of `LADDER`."""
        if self._closing:
            return
        self._closing = True
        self._watching.cancel()
        if await self._child.end(LADDER) is None:
            self._log.warn_once(f"the process {self._child.pid} could not be killed")
        self._reading_errors.cancel()
        await self._errors.aclose()


def _unread_for(seconds: float) -> str:
    return f"it has not read its input for {seconds:g} s"


def _ending(returncode: int | None) -> str:
    if returncode is None:
        return "it closed its output"
    if returncode >= 0:
        return f"it ended with exit code {returncode}"
    return f"it was killed by {signal_name(returncode)}"
