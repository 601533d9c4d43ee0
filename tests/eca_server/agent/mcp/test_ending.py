"""Ends of servers: no process is left, and pending calls fail."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from typing import Any

import pytest
import trio

from eca_protocol.guard import NAME
from eca_server.agent.mcp import stdio
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.manager import CLOSE_SECONDS
from eca_server.agent.mcp.server_log import ServerLog
from tests.eca_server.agent.mcp.scripted import is_gone, pid_in, session_with
from tests.eca_server.agent.mcp.web import call, text_of

AFTER_STDIN = stdio.LADDER.after_stdin
OUTPUTS = [["repeat", 3000, ["line", "x" * 100]], ["repeat", 2000, ["stderr", "y" * 100]]]


@pytest.mark.parametrize(
    ("script", "least", "most"),
    [
        ({"at_end": [["stderr", "bye"]]}, 0, AFTER_STDIN),
        ({"at_end": OUTPUTS}, 0, AFTER_STDIN),
        ({"at_start": [["pid"]], "at_end": [["hang"]]}, 0.7, 1.3),
        ({"at_start": [["pid"], ["ignore_term"]], "at_end": [["hang"]]}, 1.2, 2),
    ],
    ids=["decent", "flood", "deaf", "stubborn"],
)
async def test_a_server_ends_by_itself_or_is_terminated_or_killed(
    script: dict[str, Any], least: float, most: float
):
    log = ServerLog("bad")
    script = {**script, "at_start": [["pid"], ["child", 60, {}], *script.get("at_start", [])]}
    async with session_with(script, log) as session:
        await session.ping()
        server, child = pid_in(log, "pid"), pid_in(log)
        assert not await is_gone(child, within=0)
        started = time.monotonic()
    assert least <= time.monotonic() - started < most
    assert await is_gone(server)
    assert await is_gone(child)
    if ["stderr", "bye"] in script["at_end"]:
        assert log.last_lines().endswith("bye")


async def test_a_crash_ends_pending_calls_with_the_signals_name_and_the_last_lines():
    script = {"on": {"tools/call": [["stderr", "assertion failed"], ["kill"]]}}
    async with session_with(script) as session:
        with pytest.raises(MCPError) as raised:
            await call(session)
        assert raised.value.kind == "closed"
        assert "SIGKILL" in raised.value.message
        assert "assertion failed" in raised.value.message
        await session.ended.wait()
        assert session.error is not None
        with pytest.raises(MCPError):
            await call(session)


async def test_a_crash_is_seen_while_a_grandchild_holds_the_pipes():
    log = ServerLog("bad")
    script = {"on": {"tools/call": [["child", 60, {"leaves": True}], ["exit", 4]]}}
    try:
        async with session_with(script, log) as session:
            with trio.fail_after(5), pytest.raises(MCPError, match="exit code 4"):
                await call(session, deadline=30)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid_in(log), 9)


async def test_a_server_that_closes_its_output_is_over():
    async with session_with({"on": {"tools/call": [["close_stdout"], ["hang"]]}}) as session:
        with pytest.raises(MCPError, match="closed its output"):
            await call(session, deadline=30)


async def test_a_server_that_closes_its_input_may_still_answer(tmp_path):
    answer = {"content": [{"type": "text", "text": "late"}]}
    sent = tmp_path / "sent"
    steps = [["close_stdin"], ["stderr", "deaf"], ["wait_for", str(sent)], ["result", answer]]
    log = ServerLog("bad")
    script = {"on": {"tools/call": [*steps, ["hang"]]}}
    async with session_with(script, log) as session, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def send_what_it_cannot_hear() -> None:
            while "deaf" not in log.last_lines():
                await trio.sleep(0.01)
            session.roots_changed()
            await session.peer.transport.drain()
            sent.touch()

        assert text_of(await call(session, deadline=10)) == "late"


async def test_a_server_that_does_not_read_is_abandoned(monkeypatch):
    monkeypatch.setattr(stdio, "_WRITE", 0.2)
    async with session_with({"on": {"notifications/initialized": [["hang"]]}}) as session:
        with pytest.raises(MCPError, match="has not read its input"):
            await session.call_tool("echo", {"text": "x" * 2_000_000}, deadline=30)


KILLED = """
import os, signal, sys, trio
from tests.eca_server.agent.mcp.scripted import session_with
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


def watchers() -> list[str]:
    """The watchers that are children of this process."""
    ps = ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(os.getpid())]
    shown = subprocess.run(ps, capture_output=True, check=False)
    return [line for line in shown.stdout.decode().splitlines() if NAME in line]


async def test_ten_servers_stop_at_once_within_a_second_and_their_watcher_leaves():
    stop = trio.Event()

    async def one(*, task_status: trio.TaskStatus[None]) -> None:
        async with session_with():
            task_status.started()
            await stop.wait()

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            await nursery.start(one)
        assert len(watchers()) == 1
        started = time.monotonic()
        stop.set()
    assert time.monotonic() - started < 1
    assert watchers() == []


async def test_the_ladder_leaves_time_for_the_rest_of_a_shutdown():
    ladder = stdio.LADDER
    in_all = ladder.after_stdin + ladder.after_term + ladder.after_kill
    assert in_all < CLOSE_SECONDS <= 1.8
