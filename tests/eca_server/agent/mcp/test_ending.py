"""Ends of servers: no process is left, and pending calls fail."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time

import pytest
import trio

from eca_protocol.guard import NAME
from eca_server.agent.mcp import stdio
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.manager import CLOSE_SECONDS
from eca_server.agent.mcp.messages import TextContent
from eca_server.agent.mcp.server_log import ServerLog
from tests.eca_server.agent.mcp.scripted import child_of, is_gone, session_with


def pid_of(log: ServerLog) -> int:
    """Return the process id that the server's script has logged."""
    words = next(line for line in log.last_lines(20).splitlines() if line.startswith("pid "))
    return int(words.removeprefix("pid "))


async def test_a_decent_server_leaves_when_its_input_ends():
    log = ServerLog("bad")
    async with session_with({"at_start": [["pid"]], "at_end": [["stderr", "bye"]]}, log):
        started = time.monotonic()
    assert time.monotonic() - started < stdio.LADDER.after_stdin
    assert log.last_lines().endswith("bye")
    assert await is_gone(pid_of(log))


async def test_a_server_that_ignores_the_end_of_its_input_is_terminated():
    log = ServerLog("bad")
    async with session_with({"at_start": [["pid"]], "at_end": [["hang"]]}, log):
        started = time.monotonic()
    assert 0.7 < time.monotonic() - started < 1.3
    assert await is_gone(pid_of(log))


async def test_a_server_that_ignores_everything_is_killed_within_the_ladder():
    log = ServerLog("bad")
    script = {"at_start": [["pid"], ["ignore_term"]], "at_end": [["hang"]]}
    async with session_with(script, log):
        started = time.monotonic()
    assert 1.2 < time.monotonic() - started < 2
    assert await is_gone(pid_of(log))


async def test_a_server_that_floods_while_it_ends_is_not_stuck_on_its_pipes():
    script = {
        "at_end": [["repeat", 3000, ["line", "x" * 100]], ["repeat", 2000, ["stderr", "y" * 100]]]
    }
    async with session_with(script):
        started = time.monotonic()
    assert time.monotonic() - started < stdio.LADDER.after_stdin


async def test_a_grandchild_is_ended_with_the_server():
    log = ServerLog("bad")
    async with session_with({"at_start": [["child", 60, {}]]}, log):
        assert not await is_gone(child_of(log), within=0)
    assert await is_gone(child_of(log))


async def test_a_crash_ends_pending_calls_with_the_signals_name_and_the_last_lines():
    script = {"on": {"tools/call": [["stderr", "assertion failed"], ["kill"]]}}
    async with session_with(script) as session:
        with pytest.raises(MCPError) as raised:
            await session.call_tool("echo", {}, deadline=30)
        assert raised.value.kind == "closed"
        assert "SIGKILL" in raised.value.message
        assert "assertion failed" in raised.value.message
        await session.ended.wait()
        assert session.error is not None
        with pytest.raises(MCPError):
            await session.call_tool("echo", {}, deadline=30)


async def test_a_crash_is_seen_while_a_grandchild_holds_the_pipes():
    log = ServerLog("bad")
    script = {"on": {"tools/call": [["child", 60, {"leaves": True}], ["exit", 4]]}}
    try:
        async with session_with(script, log) as session:
            with trio.fail_after(5), pytest.raises(MCPError, match="exit code 4"):
                await session.call_tool("echo", {}, deadline=30)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child_of(log), 9)


async def test_a_server_that_closes_its_output_is_over():
    script = {"on": {"tools/call": [["close_stdout"], ["hang"]]}}
    async with session_with(script) as session:
        with pytest.raises(MCPError, match="closed its output"):
            await session.call_tool("echo", {}, deadline=30)


async def test_a_server_that_closes_its_input_may_still_answer(tmp_path):
    answer = {"content": [{"type": "text", "text": "late"}]}
    told = tmp_path / "told"
    steps = [["close_stdin"], ["stderr", "deaf"], ["wait_for", str(told)], ["result", answer]]
    log = ServerLog("bad")
    script = {"on": {"tools/call": [*steps, ["hang"]]}}
    async with session_with(script, log) as session, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def tell_it_what_it_cannot_hear() -> None:
            while "deaf" not in log.last_lines():
                await trio.sleep(0.01)
            session.roots_changed()
            await session.peer.transport.drain()
            told.touch()

        result = await session.call_tool("echo", {}, deadline=10)
        assert result.content == (TextContent(text="late"),)


async def test_a_server_that_does_not_read_is_abandoned(monkeypatch):
    monkeypatch.setattr(stdio, "_WRITE", 0.2)
    script = {"on": {"notifications/initialized": [["hang"]]}}
    async with session_with(script) as session:
        with pytest.raises(MCPError, match="has not read its input"):
            await session.call_tool("echo", {"text": "x" * 2_000_000}, deadline=30)


KILLED = """
import os, signal, sys, trio
from tests.eca_server.agent.mcp.scripted import session_with
from eca_server.agent.mcp.messages import TextContent
from eca_server.agent.mcp.server_log import ServerLog

async def main():
    log = ServerLog("bad")
    script = {"at_start": [["pid"], ["ignore_term"], ["child", 60, {}]], "at_end": [["hang"]]}
    async with session_with(script, log):
        while "child" not in log.last_lines():  # what it says on stderr comes when it comes
            await trio.sleep(0.01)
        print(log.last_lines(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

trio.run(main)
"""


async def test_nothing_is_left_after_we_were_killed_ourselves():
    ours = await trio.run_process(
        [sys.executable, "-c", KILLED], capture_stdout=True, check=False, env={**os.environ}
    )
    assert ours.returncode == -9
    words = dict(line.split() for line in ours.stdout.decode().splitlines())
    assert await is_gone(int(words["pid"]))
    assert await is_gone(int(words["child"]))


async def test_the_watcher_leaves_with_the_server():
    async with session_with():
        assert len(watchers()) == 1
    assert watchers() == []


def watchers() -> list[str]:
    """The watchers that are children of this process."""
    found = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(os.getpid())],
        capture_output=True,
        check=False,
    )
    return [line for line in found.stdout.decode().splitlines() if NAME in line]


async def test_ten_servers_stop_at_once_within_a_second():
    stop = trio.Event()

    async def one(*, task_status: trio.TaskStatus[None]) -> None:
        async with session_with():
            task_status.started()
            await stop.wait()

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            await nursery.start(one)
        started = time.monotonic()
        stop.set()
    assert time.monotonic() - started < 1


async def test_the_ladder_leaves_time_for_the_rest_of_a_shutdown():
    ladder = stdio.LADDER
    in_all = ladder.after_stdin + ladder.after_term + ladder.after_kill
    assert in_all < CLOSE_SECONDS <= 1.8
