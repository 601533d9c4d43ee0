"""Cases of child processes: none outlives the server."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio

from eca_protocol import platforms
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.harness import ClientSession, Harness
from eca_protocol.testing.conformance.server.reading import calls, start_call
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.script import reply

_WRITES_ITS_PID: Final = (
    "import os, pathlib, sys;"
    "new = pathlib.Path(sys.argv[1] + '.new');"
    "new.write_text(str(os.getpid()));"
    "new.rename(sys.argv[1]);"
    "sys.stdin.read()"
)


def _mcp_config(file: Path) -> dict[str, Any]:
    """Return the configuration of an MCP server that writes its process id and never answers."""
    arguments = ["-Ic", _WRITES_ITS_PID, str(file)]
    return {"mcpServers": {"held": {"command": sys.executable, "args": arguments}}}


async def _start_sleep(session: ClientSession) -> int:
    """Run a command that takes minutes; return its process id."""
    file = session.workspace / "pid"
    target = shlex.quote(str(file))
    command = f"echo $$ > {target}.new && mv {target}.new {target} && exec sleep 300"
    call = calls((session.tool("shell command"), {"command": command}))
    await start_call(session.chat(call, reply("Slept.")), "Sleep.", "the call of the command")
    return await _pid_in(file)


async def _pid_in(file: Path) -> int:
    if not await becomes_true(file.exists, seconds=5):
        raise Unmet("a process that writes its number to a file", "no such file")
    return last_pid(file)


def last_pid(file: Path) -> int:
    """Return the last process id in a file."""
    return int(file.read_text().split()[-1])


async def becomes_true(condition: Callable[[], bool], *, seconds: float) -> bool:
    """Poll a condition; return it when it holds or the time is over."""
    with anyio.move_on_after(seconds):
        while not condition():  # noqa: ASYNC110 - it is another program that changes it
            await anyio.sleep(0.02)
    return condition()


def has_ended(pid: int) -> bool:
    """Return whether a process has ended, even if it was not reaped."""
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


@case("W-13b", fresh=True)
async def shutdown_ends_commands(session: ClientSession) -> None:
    """Send `shutdown` while a command runs that takes minutes."""
    pid = await _start_sleep(session)
    await session.ask("shutdown", seconds=8)
    ended = await becomes_true(partial(has_ended, pid), seconds=0.2)
    _judge(session, "W-13b", "the end of the command before the answer to `shutdown`", ended=ended)


@case("LIFE-20", since=Revision.DRAFT, needs="config")
async def shutdown_ends_mcp_servers(harness: Harness) -> None:
    """Send `shutdown` while an MCP server runs."""
    file = harness.directories().temporary / "pid"
    async with harness.session(fresh=True, config=_mcp_config(file)) as session:
        pid = await _pid_in(file)
        await session.ask("shutdown", seconds=8)
        ended = await becomes_true(partial(has_ended, pid), seconds=0.2)
    expected = "the end of the MCP server before the answer to `shutdown`"
    _judge(session, "LIFE-20", expected, ended=ended)


@case("W-13l", needs="process")
async def every_end_ends_commands(harness: Harness) -> None:
    """Close the input, or send SIGTERM, while a command runs that takes minutes."""
    for by_signal in (False, True):
        async with harness.session(fresh=True) as session:
            pid = await _start_sleep(session)
            if by_signal:
                session.process.signal(signal.SIGTERM)
            else:
                await session.close_input()
            ended = await becomes_true(partial(has_ended, pid), seconds=3.5)
        how = "SIGTERM" if by_signal else "the end of its input"
        _judge(session, "W-13l", f"the end of the command within 3 s of {how}", ended=ended)
        if not ended:
            os.kill(pid, platforms.KILL)


def _judge(session: ClientSession, row: str, expected: str, *, ended: bool) -> None:
    session.check(row, ended, expected, "an ended process" if ended else "a running process")
