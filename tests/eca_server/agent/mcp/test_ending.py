"""Ends of servers, and their other output: no process is left, pending calls fail."""

import contextlib
import logging
import os
import subprocess
import time

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.guard import NAME
from eca_server.agent.mcp import stdio
from eca_server.agent.mcp.manager import CLOSE_SECONDS
from eca_server.agent.mcp.server_log import TAIL, ServerLog
from tests import promises
from tests.eca_server.agent.mcp.scripted import error_of, pid_in, session_with
from tests.eca_server.agent.mcp.web import call, text_of
from tests.eca_server.processes import assert_gone, children
from tests.tasks import run_in

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
async def test_a_server_ends_by_itself_or_is_terminated_or_killed(script, least, most):
    log = ServerLog("bad")
    script = {**script, "at_start": [["pid"], ["child", 60, {}], *script.get("at_start", [])]}
    async with session_with(script, log) as session:
        await session.ping()
        server, child = pid_in(log, "pid"), pid_in(log)
        assert child in children(server)
        started = time.monotonic()
    took = time.monotonic() - started
    assert took >= least
    promises.check(took, limit=most)
    assert_gone({server, child})
    if ["stderr", "bye"] in script["at_end"]:
        assert log.last_lines().endswith("bye")


async def test_a_crash_ends_pending_calls_with_the_signals_name_and_the_last_lines():
    script = {"on": {"tools/call": [["stderr", "assertion failed"], ["kill"]]}}
    async with session_with(script) as session:
        error = await error_of(call(session))
        assert error.kind == "closed"
        assert "SIGKILL" in error.message
        assert "assertion failed" in error.message
        await session.ended.wait()
        assert session.error is not None
        await error_of(call(session))


async def test_a_crash_is_seen_while_a_grandchild_holds_the_pipes():
    log = ServerLog("bad")
    script = {"on": {"tools/call": [["child", 60, {"leaves": True}], ["exit", 4]]}}
    try:
        async with session_with(script, log) as session:
            with trio.fail_after(5):
                assert "exit code 4" in (await error_of(call(session, deadline=30))).message
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid_in(log), 9)


async def test_a_server_that_closes_its_output_is_over():
    async with session_with({"on": {"tools/call": [["close_stdout"], ["idle"]]}}) as session:
        assert "closed its output" in (await error_of(call(session, deadline=30))).message


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
    async with session_with({"on": {"notifications/initialized": [["idle"]]}}) as session:
        large = session.call_tool("echo", {"text": "x" * 2_000_000}, deadline=30)
        assert "has not read its input" in (await error_of(large)).message
        ended = await session._transport.error()  # it may be asked first, since the server ends
        assert ended.message == "it has not read its input for 0.2 s"


def watchers() -> list[str]:
    """The watchers that are children of this process."""
    ps = ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(os.getpid())]
    shown = subprocess.run(ps, capture_output=True, check=False)
    return [line for line in shown.stdout.decode().splitlines() if NAME in line]


async def test_a_call_that_is_lost_at_a_stop_says_so_at_once():
    async with trio.open_nursery() as nursery:
        async with session_with({"on": {"tools/call": [["hang"]]}}) as session:
            errors = run_in(nursery, error_of, call(session, deadline=20))
            await trio.testing.wait_all_tasks_blocked()
        await trio.testing.wait_all_tasks_blocked()
        assert [error.message for error in errors] == ["it was stopped"]


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
    promises.check(time.monotonic() - started, limit=1)
    assert watchers() == []


async def test_the_ladder_leaves_time_for_the_rest_of_a_shutdown():
    ladder = stdio.LADDER
    in_all = ladder.after_stdin + ladder.after_term + ladder.after_kill
    assert in_all < CLOSE_SECONDS <= 1.8


def test_the_last_lines_are_stored_with_the_end_of_an_incomplete_one():
    log = ServerLog("s")
    log.feed(b"one\r\ntwo\n\nthr")
    log.feed(b"ee\nfour")
    assert log.last_lines(3) == "two\nthree\nfour"
    assert log.last_lines(3, length=6) == "...\nfour"
    for _ in range(10):
        log.feed(b"x" * TAIL)
    log.feed(b"the end")
    assert log.last_lines().endswith("the end")
    assert len(log._rest) <= TAIL


@given(st.lists(st.binary(max_size=200), max_size=30))
def test_for_any_output_the_memory_is_bounded_and_the_last_lines_are_a_text(pieces):
    log = ServerLog("s")
    for piece in pieces:
        log.feed(piece * 500)
    assert log._size + len(log._rest) <= 2 * TAIL
    assert isinstance(log.last_lines(), str)


def test_a_flood_is_counted_and_left_out(caplog, monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    caplog.set_level(logging.DEBUG, "eca_server.agent.mcp")
    log = ServerLog("s")
    log.feed(b"line\n" * 1000)
    assert len(caplog.records) == 100
    now = 101.0
    log.feed(b"after\n")
    messages = [record.getMessage() for record in caplog.records[-2:]]
    assert messages == ["s: 900 lines were not logged", "s: after"]


def test_a_cut_text_has_no_half_of_a_word_at_the_cut(caplog):
    caplog.set_level(logging.DEBUG, "eca_server.agent.mcp")
    log = ServerLog("s")
    log.feed(b"words " * 160 + b"my key is sk-" + b"0123456789" * 10 + b" of it\n")
    assert "0123" not in caplog.records[-1].getMessage()
    assert "0123" not in log.last_lines(length=60)
    assert log.last_lines(length=60).endswith("... of it")


def test_a_note_names_the_server_and_a_warning_is_given_once(caplog):
    caplog.set_level(logging.DEBUG, "eca_server.agent.mcp")
    log = ServerLog("s")
    for _ in range(3):
        log.warn_once("it prints")
    log.note("a note", level=logging.DEBUG)
    log.note("a note", level=logging.INFO)
    records = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert records == [
        (logging.WARNING, "s: it prints"),
        (logging.DEBUG, "s: a note"),
        (logging.INFO, "s: a note"),
    ]


def test_a_server_cannot_fill_the_log_or_the_memory_with_warnings(caplog):
    log = ServerLog("s")
    for number in range(150):
        log.warn_once(f"it lists the tool {number} {'x' * 100_000} sk-0123456789 more than once")
    messages = [record.getMessage() for record in caplog.records]
    assert messages[-1] == "s: further warnings are not logged"
    assert len(messages) == 101
    assert max(map(len, messages)) < 2000
