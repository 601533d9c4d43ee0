"""The clock of the event loop, and a server process that is stopped for a while."""

import json
import os
import signal
import time

import pytest

from eca_server.system import clock

FOREVER = float("inf")


@pytest.mark.parametrize(
    ("deadline", "awake_after", "passed"),
    [
        pytest.param(1.0, 1.0, 1.0, id="a wait that ends in time"),
        pytest.param(1.0, 1.9, 1.9, id="a wait on a busy machine"),
        pytest.param(1.0, 60.0, 0.0, id="a pause beyond the deadline"),
        pytest.param(90.0, 60.0, 0.0, id="a pause before the deadline"),
        pytest.param(-1.0, 60.0, 0.0, id="a pause after the deadline"),
        pytest.param(FOREVER, 60.0, 60.0, id="a wait without a deadline"),
    ],
)
def test_only_the_time_in_which_the_process_runs_passes(monkeypatch, deadline, awake_after, passed):
    now = 1000.0
    monkeypatch.setattr(clock.time, "perf_counter", lambda: now)
    running = clock.RunningClock()
    began = running.current_time()
    seconds = running.deadline_to_sleep_time(began + deadline)
    assert seconds <= deadline
    now += awake_after
    assert running.current_time() - began == pytest.approx(passed)
    now += 0.5
    assert running.current_time() - began == pytest.approx(passed + 0.5)


@pytest.mark.long
def test_the_time_limit_of_a_command_does_not_pass_while_the_server_is_stopped(server, tmp_path):
    server.introduced(tmp_path)
    os.mkfifo(tmp_path / "started")
    waits = "echo > started; until [ -e go ]; do sleep 0.05; done; echo gone"
    command = {"command": waits, "timeout": 2000}
    server.send_prompt(
        f"call eca_shell_command {json.dumps(command)}", model="simulator/script", trust=True
    )
    server.expect_content("toolCallRunning")
    (tmp_path / "started").read_text()
    server.kill(signal.SIGSTOP)
    time.sleep(3.2)
    server.kill(signal.SIGCONT)
    (tmp_path / "go").touch()
    assert server.expect_content("toolCalled")["outputs"] == [{"type": "text", "text": "gone\n"}]
    server.expect_finished()
