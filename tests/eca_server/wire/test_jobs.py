"""Background jobs of the real process: whatever ends it, nothing of them is left."""

from __future__ import annotations

import json
import time

import pytest

from tests.eca_server.processes import assert_gone, children
from tests.eca_server.stranger import Stranger

ALLOWED = {"ECA_CONFIG": json.dumps({"toolCall": {"approval": {"byDefault": "allow"}}})}
JOBS = {
    "one that ends": "sleep 60 & sleep 60",
    "one that does not want to": "trap '' TERM; while :; do sleep 0.1; done",
    "one that writes": "yes",
}


def shutdown_and_exit(server: Stranger) -> None:
    assert server.answer(server.ask("shutdown"), seconds=2)["result"] is None
    server.tell("exit")


@pytest.mark.parametrize(
    ("end", "code"),
    [
        pytest.param(
            lambda server: server.process.terminate(), 143, id="sigterm", marks=pytest.mark.long
        ),
        pytest.param(Stranger.close_input, 0, id="eof", marks=pytest.mark.long),
        pytest.param(shutdown_and_exit, 0, id="shutdown", marks=pytest.mark.long),
    ],
)
def test_no_job_is_left(start_server, tmp_path, end, code):
    server = start_server(env=ALLOWED)
    server.introduced(
        tmp_path, capabilities={"codeAssistant": {"chatCapabilities": {"askQuestion": True}}}
    )
    server.prompt(
        "\n".join(
            f"call eca_shell_command {json.dumps({'command': command, 'background': name})}"
            for name, command in JOBS.items()
        ),
        chat="c",
    )
    server.expect_finished()
    listed = server.result("jobs/list")["jobs"]
    assert {job["summary"]: job["status"] for job in listed} == dict.fromkeys(JOBS, "running")
    left = children(server.pid)
    assert len(left) >= len(JOBS)
    begun = time.monotonic()
    end(server)
    assert server.exit_code() == code
    assert time.monotonic() - begun < 3
    assert_gone(left, within=0.5)
