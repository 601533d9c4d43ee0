"""Cases of the processes that a server starts: none of them outlives it."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench, Seat
from eca_protocol.testing.conformance.cases import Stuck, case
from eca_protocol.testing.conformance.server.reading import calls, id_of
from eca_protocol.testing.script import reply

_WRITES_ITS_PID: Final = (
    "import os, pathlib, sys;"
    "new = pathlib.Path(sys.argv[1] + '.new');"
    "new.write_text(str(os.getpid()));"
    "new.rename(sys.argv[1]);"
    "sys.stdin.read()"
)


def _server(file: Path) -> dict[str, Any]:
    """An MCP server that writes its process id to the file, and never answers."""
    arguments = ["-Ic", _WRITES_ITS_PID, str(file)]
    return {"mcpServers": {"held": {"command": sys.executable, "args": arguments}}}


async def _sleeps(seat: Seat) -> int:
    """A turn whose tool runs a command that takes minutes; the command's process.

    Raises:
        NotApplicable: the server runs no commands.
        Stuck: the command does not start.
    """
    file = seat.workspace / "pid"
    target = shlex.quote(str(file))
    command = f"echo $$ > {target}.new && mv {target}.new {target} && exec sleep 300"
    chat = seat.chat(calls((seat.tool("shell command"), {"command": command})), reply("Slept."))
    await chat.prompt("Sleep.")
    run = await chat.content("toolCallRun", expected="the call of the command")
    if run.content.get("manualApproval"):
        await chat.approve(id_of(run.content))
    return await _pid_in(file)


async def _pid_in(file: Path) -> int:
    if not await becomes_so(file.exists, seconds=5):
        raise Stuck("a process that writes its number to a file", "no such file")
    return _number_in(file)


def _number_in(file: Path) -> int:
    return int(file.read_text())


async def becomes_so(condition: Callable[[], bool], *, seconds: float) -> bool:
    """Look at what tells nobody when it changes, until it is so or the time is over."""
    with anyio.move_on_after(seconds):
        while not condition():  # noqa: ASYNC110 - it is another program that changes it
            await anyio.sleep(0.02)
    return condition()


def is_gone(pid: int) -> bool:
    """Whether a process has ended, though perhaps nobody has taken note of it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    try:
        _, _, state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")
    except OSError:
        return Path("/proc/self").exists()
    return state.startswith("Z")


@case("W-13b")
async def shutdown_ends_commands(bench: Bench) -> None:
    """A tool runs a command that takes minutes: `shutdown`."""
    async with bench.seat(fresh=True) as seat:
        pid = await _sleeps(seat)
        await seat.ask("shutdown", seconds=8)
        gone = await becomes_so(partial(is_gone, pid), seconds=0.2)
    _judge(bench, "W-13b", "the command ended before `shutdown` is answered", gone=gone)


@case("LIFE-20", since=Revision.DRAFT, needs="config")
async def shutdown_ends_mcp_servers(bench: Bench) -> None:
    """An MCP server runs: `shutdown`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pid")
        async with bench.seat(fresh=True, config=_server(file)) as seat:
            pid = await _pid_in(file)
            await seat.ask("shutdown", seconds=8)
            gone = await becomes_so(partial(is_gone, pid), seconds=0.2)
    _judge(bench, "LIFE-20", "the MCP server ended before `shutdown` is answered", gone=gone)


@case("W-13l", needs="process")
async def every_end_ends_commands(bench: Bench) -> None:
    """A tool runs a command that takes minutes: the input ends, or SIGTERM comes."""
    for by_signal in (False, True):
        async with bench.seat(fresh=True) as seat:
            pid = await _sleeps(seat)
            if by_signal:
                seat.process.signal(signal.SIGTERM)
            else:
                await seat.close_input()
            gone = await becomes_so(partial(is_gone, pid), seconds=3.5)
        how = "SIGTERM" if by_signal else "the end of its input"
        _judge(bench, "W-13l", f"the command ended within 3 s of {how}", gone=gone)
        if not gone:
            os.kill(pid, signal.SIGKILL)


def _judge(bench: Bench, row: str, expected: str, *, gone: bool) -> None:
    bench.check(row, gone, expected=expected, got="it has ended" if gone else "it runs on")
