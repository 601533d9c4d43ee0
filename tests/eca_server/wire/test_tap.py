"""`tap` as editors start it: in front of the real server, and of the smallest there is."""

import os
import signal
import subprocess

import pytest

from eca_protocol.fold import Conversation
from eca_protocol.transcript import DataEntry, ExitEntry, read_transcript
from eca_server.cli.main import run
from tests.eca_server import fork_server
from tests.eca_server.processes import run_to_end
from tests.eca_server.stranger import START_SECONDS, environment, frame, message

KEY = "sk-ant-0123456789abcdef"


def tap(*arguments: str) -> tuple[str, ...]:
    return (*fork_server.command(), "tap", *arguments)


def tapped(folder, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return run_to_end(tap(*arguments), env=environment(folder), cwd=folder, text=False)


def test_a_session_through_the_tap_is_recorded_and_both_its_sides_can_be_replayed(
    start_server, tmp_path
):
    record = tmp_path / "kept.jsonl"
    serve = (*fork_server.command(), "server")
    editor = start_server(command=tap("--out", str(record), "--", *serve))
    editor.introduced()
    chat = editor.prompt(f"think hm\nsay the key is {KEY}")
    editor.expect_finished()
    assert editor.leave() == 0

    transcript = read_transcript(record)
    assert record.stat().st_mode & 0o777 == 0o600
    assert transcript.command == serve
    recorded = [body for side, body in transcript.messages() if side == "server"]
    assert (recorded[0], len(recorded)) == (editor.received[0], len(editor.received))
    assert KEY not in record.read_text()
    conversation = Conversation()
    for side, body in transcript.messages():
        assert conversation.passed(side, body) == ()
    assert conversation.fold.chats[chat].text() == "the key is ***"
    assert transcript.entries[-1] == ExitEntry(at=transcript.entries[-1].at, code=0)

    replay = ("--replay", str(record), "--")
    replayed = tapped(tmp_path, *replay, *tap(*replay[:2]))
    assert replayed.returncode == 0, replayed.stderr
    assert replayed.stderr.count(b"replay finished") == 2


def test_a_signal_reaches_the_server_and_its_end_is_the_tap_s(start_server, tmp_path):
    sent = frame(message("a")).decode().replace("\r\n", "\\r\\n")
    # No command is started in the loop: dash drops a signal that comes while it starts one.
    script = f"trap 'exit 9' TERM; printf '{sent}'; while :; do :; done"
    data = tmp_path / "data"
    command = tap("--", "sh", "-c", script)
    editor = start_server(command=command, env={"XDG_DATA_HOME": str(data)})
    assert editor.receive(seconds=START_SECONDS) == message("a")
    editor.kill(signal.SIGTERM)
    assert editor.exit_code() == 9
    [record] = (data / "eca-python" / "transcripts").iterdir()
    assert f"recording the conversation in {record}" in editor.errors
    first, *_, last = read_transcript(record).entries
    assert isinstance(first, DataEntry)
    assert (first.side, first.message) == ("server", message("a"))
    assert last == ExitEntry(at=last.at, code=9)


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (["/no/such/server"], 1, b"eca-server tap: cannot start '/no/such/server'"),
        (["sh", "-c", "kill -9 $$"], 137, b"recording the conversation"),
    ],
)
def test_the_end_of_the_server_is_reported_as_a_shell_reports_it(tmp_path, command, code, words):
    done = tapped(tmp_path, "--", *command)
    assert done.returncode == code
    assert words in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_tap_without_a_server_or_a_transcript_is_refused(capsys):
    assert run(["tap", "--unmasked"]) == 2
    why = "eca-server tap: expected `-- COMMAND` with the command that starts a server"
    assert why in capsys.readouterr().err
    assert run(["tap", "--replay", os.devnull]) == 2
    assert f"eca-server tap: {os.devnull}:1: expected a transcript" in capsys.readouterr().err
    assert run(["tap", "--replay", "missing.jsonl"]) == 2
    assert capsys.readouterr().err == "eca-server tap: missing.jsonl: No such file or directory\n"
