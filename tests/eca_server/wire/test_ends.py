"""The end of the real process and its exit code, in any state (rulings W-13, W-14)."""

import fcntl
import itertools
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from eca_protocol.server.endings import LAST_SECONDS
from tests.eca_server import fork_server
from tests.eca_server.stranger import SECONDS, code_of, frame, is_finished, message
from tests.eca_server.wire.broken_server import BROKEN
from tests.promises import within


@pytest.mark.requirement(
    *("W-13a", "LIFE-19", "ARROW:initialization-1", "ARROW:initialization-3"),
    *("ARROW:shutdown-1", "ARROW:shutdown-3"),
)
def test_shutdown_ends_all_turns_before_its_answer_and_nothing_follows_exit(server):
    server.initialize()
    chats = {server.start_endless_turn() for _ in range(20)}
    behind = frame(message("chat/queryCommands", request_id=99)) + b"junk"
    with within(2):
        server.write(frame(message("shutdown", request_id="bye")) + frame(message("exit")) + behind)
        assert server.answer("bye")["result"] is None
    finished = [
        message["params"]["chatId"] for message in server.received[:-1] if is_finished(message)
    ]
    assert sorted(finished) == sorted(chats)
    assert server.exit_code() == 0
    assert server.received[-1]["id"] == "bye"


def test_an_unread_log_delays_nothing(start_server, tmp_path):
    log = tmp_path / "log"
    os.mkfifo(log)
    unread = os.open(log, os.O_RDWR)
    fcntl.fcntl(unread, fcntl.F_SETPIPE_SZ, 4096)
    serve = (*fork_server.command(), "server")
    server = start_server(command=("sh", "-c", 'exec "$@" 2>"$0"', str(log), *serve))
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
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.mark.requirement("LIFE-5", "LIFE-6")
def test_the_server_ends_with_the_client_s_process(server, parent):
    server.initialize(processId=parent.pid)
    server.start_endless_turn()
    parent.kill()
    assert server.exit_code(within=5.0) == 0
    assert is_finished(server.received[-1])


@pytest.mark.parametrize("process_id", [2**70, None])
def test_a_process_never_seen_alive_is_not_watched(server, parent, process_id: Any):
    parent.kill()
    parent.wait()
    server.initialize(processId=process_id or parent.pid)
    server.start_endless_turn()
    server.settle()
    assert server.process.poll() is None
    server.close_input()
    assert server.exit_code() == 0


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
    assert is_finished(server.received[-1])


def test_a_deaf_client_does_not_hold_a_server_that_was_asked_to_end(server):
    server.initialize()
    server.prompt("repeat 200000 words that nobody reads")
    server.process.terminate()
    with within(3):
        assert server.process.wait(SECONDS) == 143
    server.close_output()


@pytest.mark.requirement("BASE-27")
def test_a_bug_is_32603_and_only_logged_and_a_thread_that_hangs_does_not_keep_the_process(
    start_server,
):
    assert LAST_SECONDS < 3
    server = start_server(command=(*BROKEN, "bug"), may_log_tracebacks=True)
    server.initialize()
    answer = server.answer(server.ask("chat/delete", {"chatId": "1"}))
    assert code_of(answer) == -32603
    assert not [word for word in ("secret", "KeyError") if word in str(answer)]
    assert server.result("chat/queryContext") == {"contexts": []}
    assert "the secret of the house" in server.errors
    server.start_endless_turn()
    server.close_input()
    assert server.exit_code() == 1
