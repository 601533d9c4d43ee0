"""The end of the real process and its exit code, in any state (rulings W-13, W-14)."""

from __future__ import annotations

import fcntl
import itertools
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from eca_protocol.server.endings import LAST_SECONDS
from tests.eca_server.conftest import SERVE
from tests.eca_server.stranger import (
    Stranger,
    code_of,
    content_of,
    environment,
    frame,
    frames_in,
    is_finished,
    message,
)

NEVER_ALIVE = 2**22 + 1
"""Linux gives no process an id above 2**22."""


def shutdown_then_exit(server: Stranger) -> None:
    assert server.answer(server.ask("shutdown"), seconds=2)["result"] is None
    server.tell("exit", [])


def shutdown_then_sigterm(server: Stranger) -> None:
    server.answer(server.ask("shutdown"))
    server.process.terminate()


def shutdown_then_sigint(server: Stranger) -> None:
    server.answer(server.ask("shutdown"))
    server.process.send_signal(signal.SIGINT)


def close_output(server: Stranger) -> None:
    server.close_output()
    for number in range(3):
        server.send(message("chat/queryCommands", request_id=f"unread {number}"))


ENDS: list[Any] = [
    pytest.param(shutdown_then_exit, 0, id="shutdown-exit"),
    pytest.param(Stranger.close_input, 0, id="eof"),
    pytest.param(lambda server: server.tell("exit"), 1, id="exit-alone"),
    pytest.param(close_output, 1, id="broken-output"),
    pytest.param(lambda server: server.process.terminate(), 143, id="sigterm"),
    pytest.param(lambda server: server.process.send_signal(signal.SIGINT), 130, id="sigint"),
    pytest.param(lambda server: server.process.send_signal(signal.SIGQUIT), 131, id="sigquit"),
    pytest.param(lambda server: server.process.send_signal(signal.SIGUSR1), 138, id="sigusr1"),
    pytest.param(shutdown_then_sigterm, 0, id="shutdown-sigterm"),
    pytest.param(shutdown_then_sigint, 0, id="shutdown-sigint"),
    pytest.param(lambda server: server.write(b"Content-Length: 50\r\n\r\n{"), 1, id="eof-in-body"),
    pytest.param(lambda server: server.write(b"Content-Length"), 1, id="eof-in-header"),
    pytest.param(lambda server: server.write(b"Content-Length: -1\r\n\r\n"), 1, id="fatal-fault"),
]


@pytest.mark.long(but=4)
@pytest.mark.requirement("LIFE-25")
@pytest.mark.parametrize(("end", "code"), ENDS)
def test_every_end_has_its_code_while_a_turn_runs(server, end, code, request):
    server.introduced()
    chat = server.start_endless_turn()
    begun = time.monotonic()
    end(server)
    if "eof-in" in request.node.callspec.id:
        server.close_input()
    assert server.exit_code(within=3.0 - (time.monotonic() - begun)) == code
    if end is not close_output:
        ends = [seen for seen in server.seen if is_finished(seen)]
        assert [seen["params"]["chatId"] for seen in ends] == [chat]
    if "fault" in request.node.callspec.id or "eof-in" in request.node.callspec.id:
        (fault,) = [seen for seen in server.seen if "error" in seen]
        assert fault["id"] is None
        assert code_of(fault) == -32700


@pytest.mark.requirement("W-13f")
@pytest.mark.parametrize(
    ("end", "code"), [case for case in ENDS if case.id in {"eof", "exit-alone"}]
)
def test_an_end_before_initialize_has_the_same_code(server, end, code):
    server.answer(server.ask("shutdown"))
    end(server)
    assert server.exit_code() == code


@pytest.mark.requirement("W-13a", "LIFE-19")
def test_shutdown_ends_all_turns_before_its_answer(server):
    server.initialize()
    chats = {server.start_endless_turn() for _ in range(20)}
    begun = time.monotonic()
    server.answer(server.ask("shutdown"), seconds=2)
    assert time.monotonic() - begun < 2
    before = server.seen[:-1]
    finished = [seen["params"]["chatId"] for seen in before if is_finished(seen)]
    assert sorted(finished) == sorted(chats)
    server.tell("exit")
    assert server.exit_code() == 0
    assert not content_of(server.seen[-1])


def test_shutdown_and_exit_may_share_a_write(server):
    server.introduced()
    server.start_endless_turn()
    server.send(message("shutdown", request_id="bye"), message("exit"))
    assert server.exit_code() == 0
    finished, answer = server.seen[-2:]
    assert is_finished(finished)
    assert answer == {"jsonrpc": "2.0", "id": "bye", "result": None}


@pytest.mark.requirement("W-13e", "W-13j")
@pytest.mark.parametrize(("tail", "code"), [(b"", 0), (b"Content-Length: 9\r\n\r\n{", 1)])
def test_a_conversation_may_come_from_a_file_and_go_to_one(tmp_path, tail, code):
    said, heard = tmp_path / "said", tmp_path / "heard"
    said.write_bytes(
        frame(message("initialize", {}, request_id=0))
        + frame(message("chat/prompt", {"message": "wait forever", "model": "simulator/script"}))
        + tail
    )
    with said.open("rb") as stdin, heard.open("wb") as stdout:
        done = subprocess.run(
            SERVE,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env=environment(tmp_path),
            timeout=30,
            check=False,
        )
    assert (done.returncode, done.stderr) == (code, b"")
    messages = frames_in(heard.read_bytes())
    assert messages[0]["id"] == 0
    assert [is_finished(heard) for heard in messages].count(True) == 1


def test_messages_behind_exit_are_not_looked_at(server):
    server.initialize()
    server.answer(server.ask("shutdown"))
    server.write(
        frame(message("exit")) + frame(message("chat/queryCommands", request_id=99)) + b"junk"
    )
    assert server.exit_code() == 0
    assert "error" not in server.seen[-1]


def test_an_unread_log_delays_nothing(start_server, tmp_path):
    log = tmp_path / "log"
    os.mkfifo(log)
    unread = os.open(log, os.O_RDWR)
    fcntl.fcntl(unread, fcntl.F_SETPIPE_SZ, 4096)
    server = start_server(command=("sh", "-c", 'exec "$@" 2>"$0"', str(log), *SERVE))
    server.introduced()
    for chat in "abcd":
        server.prompt("crash", chat=chat)
        server.expect_finished()
    server.settle()
    server.close_input()
    assert server.exit_code() == 0
    assert os.read(unread, 2**20).startswith(b"ERROR eca_server")
    os.close(unread)


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[bytes]]:
    """A process that a client could be; it lives until it is killed."""
    with subprocess.Popen([sys.executable, "-Ic", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.mark.requirement("LIFE-5", "LIFE-6")
def test_the_server_ends_with_the_client_s_process(server, parent):
    server.initialize(processId=parent.pid)
    server.start_endless_turn()
    parent.kill()
    assert server.exit_code(within=5.0) == 0
    assert is_finished(server.seen[-1])


@pytest.mark.requirement("W-14b", "W-14c")
@pytest.mark.parametrize("process_id", [NEVER_ALIVE, 2**70])
def test_a_process_never_seen_alive_is_not_watched(server, process_id):
    server.initialize(processId=process_id)
    server.start_endless_turn()
    server.settle()
    assert server.process.poll() is None
    server.close_input()
    assert server.exit_code() == 0


@pytest.mark.requirement("W-14a")
def test_a_client_that_has_ended_already_is_as_one_never_seen(server, parent):
    parent.kill()
    parent.wait()

    server.initialize(processId=parent.pid)
    server.settle()
    assert server.process.poll() is None


def test_a_signal_that_comes_again_and_again_ends_the_server_once(server):
    server.initialize()
    server.start_endless_turn()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGHUP)
    process = os.pidfd_open(server.pid)
    for number in itertools.cycle(numbers):  # until there is nothing more to end
        signal.pidfd_send_signal(process, number)
        if select.select([process], [], [], 0.0005)[0]:
            break
    os.close(process)
    assert server.exit_code() in {128 + number for number in numbers}
    assert is_finished(server.seen[-1])


def test_a_deaf_client_does_not_hold_a_server_that_was_asked_to_end(server):
    server.initialize()
    server.prompt("repeat 200000 words that nobody reads")
    server.process.terminate()
    begun = time.monotonic()
    assert server.process.wait(3.0) == 143
    assert time.monotonic() - begun < 3.0
    server.close_output()


HANGING = """
import sys, time, trio
import eca_protocol.server.endings
from eca_server.agent.chat.chats import Chats
from eca_server.cli.main import run

async def close(self):
    await trio.to_thread.run_sync(time.sleep, 60)

Chats.close = close
eca_protocol.server.endings.LAST_SECONDS = 0.3
sys.exit(run(["server"]))
"""


def test_a_thread_that_hangs_does_not_keep_the_process(start_server, tmp_path):
    assert LAST_SECONDS < 3
    (tmp_path / "hanging.py").write_text(HANGING)
    server = start_server(command=(sys.executable, "-P", str(tmp_path / "hanging.py")))
    server.initialize()
    server.start_endless_turn()
    server.close_input()
    assert server.exit_code() == 1
