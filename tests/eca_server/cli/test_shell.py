"""The command line as shells treat it: streams closed, full or of another encoding; signals."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from eca_protocol.errors import ConnectionClosed
from eca_server.cli import terminal
from eca_server.cli.main import run
from tests.eca_server import fork_server
from tests.eca_server.processes import run_to_end
from tests.eca_server.stranger import environment

ECA = (sys.executable, "-P", "-m", "eca_server")


def in_a_shell(
    home: Path, line: str, *, program: Sequence[str] = ECA, **env: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a line in which `"$@"` is the command `eca-server`."""
    command = ["sh", "-c", line, "sh", *program]
    return run_to_end(command, cwd=home, env=environment(home, **env), text=False)


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('"$@" --version >&-', b""),
        ('"$@" doctor >&-', b""),
        ('"$@" chat hi >&-', b""),
        ('"$@" chat hi 2>&-', b"hi\n"),
        ('"$@" chat <&-', b""),
        ('"$@" chat hi <&-', b"hi\n"),
    ],
)
def test_a_stream_that_is_closed_is_an_empty_one(tmp_path, line, shown):
    done = in_a_shell(tmp_path, line)
    assert (done.returncode, done.stdout, done.stderr) == (0, shown, b"")


@pytest.mark.long(but=1)
@pytest.mark.parametrize("command", ["chat hi", "doctor", "config schema"])
def test_an_output_that_takes_nothing_is_reported_in_one_line(tmp_path, command):
    done = in_a_shell(tmp_path, f'"$@" {command} >/dev/full', program=fork_server.command())
    assert (done.returncode, done.stderr) == (1, b"eca-server: No space left on device\n")


@pytest.mark.long
@pytest.mark.parametrize(
    ("encoding", "shown"), [("ascii", rb"h\xe9llo \u2192"), ("latin-1", b"h\xe9llo \\u2192")]
)
def test_what_the_terminal_has_no_character_for_is_spelled(tmp_path, encoding, shown):
    done = in_a_shell(
        tmp_path, '"$@" chat "$MESSAGE"', PYTHONIOENCODING=encoding, MESSAGE="h\xe9llo →"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, shown + b"\n", b"")


def locale_settings(tmp_path, locale, encoding):
    """Return the environment of a locale that Python has not seen; skip if there is none."""
    locales = tmp_path / "locales"
    if locale != "C":
        locales.mkdir()
        make = ["localedef", "-i", locale, "-f", encoding, locales / locale]
        if shutil.which("localedef") is None or subprocess.run(make, check=False).returncode:
            pytest.skip("this system cannot make the locale")
    return {"PYTHONUTF8": "0", "LC_ALL": locale, "LOCPATH": str(locales)}


LOCALES = pytest.mark.parametrize(
    ("locale", "encoding"), [("C", "ASCII"), ("en_US", "ISO-8859-1"), ("ja_JP", "EUC-JP")]
)


@pytest.mark.long(but=1)
@LOCALES
def test_paths_and_texts_are_utf_8_in_a_locale_of_a_different_encoding(tmp_path, locale, encoding):
    settings = locale_settings(tmp_path, locale, encoding)
    (tmp_path / "é→.txt").write_text("x")
    call = 'call read_file {"path": "é→.txt"}\nsay →'
    line = '"$@" chat --model simulator/script "$CALL"'
    done = in_a_shell(tmp_path, line, CALL=call, **settings)
    assert (done.returncode, done.stdout.decode()) == (0, "→\n")
    assert "failed" not in done.stderr.decode()


@pytest.mark.long
@LOCALES
def test_the_script_ecp_has_utf_8_paths_in_a_locale_of_a_different_encoding(
    tmp_path, locale, encoding
):
    settings = locale_settings(tmp_path, locale, encoding)
    (tmp_path / "é→.yaml").write_text("[")
    script = "from eca_server.ecp.cli import main; raise SystemExit(main())"
    program = (sys.executable, "-c", script)
    done = in_a_shell(tmp_path, '"$@" run é→.yaml', program=program, **settings)
    assert done.stderr.decode().startswith("é→.yaml:2:1: not YAML: "), done.stderr


def test_what_a_pipe_has_of_another_encoding_is_read_with_marks_in_a_removed_folder(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    line = f"cd {gone}; rmdir {gone}; printf 'h\\351llo\\n' | \"$@\" chat"
    done = in_a_shell(tmp_path, line, PYTHONIOENCODING="utf-8:strict")
    assert (done.returncode, done.stdout.decode()) == (0, "h\N{REPLACEMENT CHARACTER}llo\n")
    assert done.stderr == b""


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_what_a_tool_runs_ends_with_the_chat_that_a_signal_ends(tmp_path, number, code):
    held = tmp_path / "held"
    os.mkfifo(held)
    command = f"exec 3>{held}; echo runs >&3; sleep 1000 & sleep 1000"
    call = f"call shell_command {json.dumps({'command': command})}"
    allowing = json.dumps({"toolCall": {"approval": {"byDefault": "allow"}}})
    with subprocess.Popen(
        [*fork_server.command(), "chat", "--model", "simulator/script", call],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(tmp_path, ECA_CONFIG=allowing),
        # Undo inherited ignored signals, as in a background job.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509
    ) as chat:
        with held.open() as holders:
            assert holders.readline() == "runs\n"
            chat.send_signal(number)
            assert chat.wait(10) == code
            assert holders.read() == ""  # ends once the other end is closed everywhere
        assert b"Traceback" not in chat.stderr.read()


def test_an_interrupt_that_takes_the_server_away_first_is_no_failure_but_a_bug_is(monkeypatch):
    both = BaseExceptionGroup("", [ConnectionClosed("it is gone"), KeyboardInterrupt()])
    monkeypatch.setattr(terminal, "chat", Mock(side_effect=both))
    assert run(["chat", "hi"]) == 130
    bug = ExceptionGroup("", [ValueError("a bug")])
    monkeypatch.setattr(terminal, "chat", Mock(side_effect=bug))
    with pytest.raises(ExceptionGroup):
        run(["chat", "hi"])
