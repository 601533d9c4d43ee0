"""Whatever else writes to the standard output, the client reads frames.

`Stranger` fails at the first byte that is no frame, so these tests only have to make the noise.
"""

import os
from pathlib import Path

import pytest

from tests.eca_server.conftest import SERVE
from tests.eca_server.fork_server import ECA, MODULE
from tests.eca_server.processes import run_to_end
from tests.eca_server.stranger import environment, frame, frames_in, is_finished, message, text_of

NOISY = (*ECA, MODULE, "tests.eca_server.wire.noisy_server")


def test_prints_warnings_and_children_never_reach_the_wire_nor_hold_it_open(start_server):
    server = start_server(command=NOISY)
    server.introduced()
    server.prompt("repeat 1000 delta")
    assert text_of(server.expect_finished()) == "delta" * 1000
    assert server.leave() == 0
    for words in ("printed", "printed at once", "written", "to descriptor 1", "warned", "a child"):
        assert words in server.errors
    assert "before the first line" in server.errors
    assert "read to the end" in server.errors


PROMPT = {"message": "wait forever", "model": "simulator/script"}
CONVERSATION = frame(message("initialize", {}, request_id=0)) + frame(
    message("chat/prompt", PROMPT)
)


@pytest.mark.long(but=1)
@pytest.mark.requirement("W-13e", "W-13g", "W-13k")
@pytest.mark.parametrize(
    ("redirection", "code", "words"),
    [
        ("<&-", 1, "standard input is closed"),
        (">&-", 1, "standard output is closed"),
        ("<sent >received", 0, ""),
    ],
)
def test_streams_may_be_files_and_those_closed_from_the_start_are_reported(
    tmp_path, redirection, code, words
):
    (tmp_path / "sent").write_bytes(CONVERSATION)
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *SERVE]
    done = run_to_end(command, cwd=tmp_path, env=environment(tmp_path), stdin=None)
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr
    if words:
        assert words in done.stderr
    else:
        assert done.stderr == ""
        messages = frames_in((tmp_path / "received").read_bytes())
        assert messages[0]["id"] == 0
        assert [is_finished(each) for each in messages].count(True) == 1


@pytest.mark.long
def test_a_closed_stderr_is_no_error(start_server):
    server = start_server(command=("sh", "-c", 'exec "$@" --verbose 2>&-', "sh", *SERVE))
    server.introduced()
    server.turn("crash", model="simulator/script")
    descriptors = Path(f"/proc/{server.pid}/fd")
    for name in ("0", "1"):
        assert (descriptors / name).readlink() == Path("/dev/null")
    assert os.path.lexists(descriptors / "2")  # the null device's, or a library's
    assert server.leave() == 0


def test_the_log_goes_to_stderr(start_server):
    server = start_server(command=(*SERVE, "--verbose"), may_log_tracebacks=True)
    server.introduced()
    server.turn("crash", model="simulator/script")
    server.close_input()
    assert server.exit_code() == 0
    assert "INFO eca_server: ending" in server.errors
    assert "RuntimeError: the simulator crashed" in server.errors
    assert all("crashed" not in str(message) for message in server.received)
