"""`inspect` as a user runs it."""

import http.client
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from eca_server.workbench.inspector.cli import run
from tests.eca_server import fork_server
from tests.eca_server.stranger import environment

RECORD = Path("tests/data/transcripts/real_job.jsonl").resolve()


def test_a_page_is_served_until_a_signal_to_clients_with_the_token(tmp_path):
    record = tmp_path / "kept.jsonl"
    record.write_bytes(RECORD.read_bytes() + b'{"at":9.0,"exit":0}\n')
    command = [*fork_server.command(), "inspect", str(record), "--no-open"]
    with subprocess.Popen(
        command,
        env=environment(tmp_path, TMPDIR=str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stderr is not None
        address, token = running.stdout.readline().strip().split("/#")
        host = address.removeprefix("http://")
        site = http.client.HTTPConnection(host, timeout=10)
        site.request("GET", "/")
        assert site.getresponse().read().startswith(b"<!doctype html>")
        site.request("POST", "/parts", headers={"origin": address})
        refused = site.getresponse()
        assert (refused.status, b"token" in refused.read()) == (403, True)
        right = {"origin": address, "authorization": f"Bearer {token}"}
        site.request("POST", "/parts", headers=right)
        parts = site.getresponse().read()
        assert parts.count(b"chat/toolCallApprove") >= 1
        site.close()
        running.send_signal(signal.SIGTERM)
        assert running.wait(10) == 143
        assert running.stderr.read() == ""
    assert list(tmp_path.iterdir()) == [record]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems open pages in other ways")
def test_no_program_of_the_current_folder_opens_the_page(tmp_path):
    notes = tmp_path / "notes"
    os.mkfifo(notes)
    for folder in ("planted", "bin"):
        (tmp_path / folder).mkdir()
        for name in ("xdg-open", *["xdg-settings", "chromium", "firefox"] * (folder == "planted")):
            program = tmp_path / folder / name
            program.write_text(f'#!/bin/sh\necho {folder} "$1" > "{notes}"\n')
            program.chmod(0o755)
    with subprocess.Popen(
        [*fork_server.command(), "inspect", str(RECORD)],
        cwd=tmp_path / "planted",
        env=environment(tmp_path, PATH=f".::{tmp_path / 'bin'}", DISPLAY=":7"),
        stdout=subprocess.DEVNULL,
    ) as running:
        opened_by = notes.read_text()
        running.send_signal(signal.SIGTERM)
        assert running.wait(10) == 143
    assert opened_by.startswith("bin file:///")


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["no-such.jsonl"], 2, "no-such.jsonl does not exist"),
        ([str(RECORD), "--out", "no-such-folder/x.html"], 1, "no-such-folder does not exist"),
        ([], 2, "there is no transcript yet"),
        ([os.devnull, "--out", "x.html"], 2, "got no complete line"),
        ([os.devnull, "--no-open"], 2, "expected a regular file"),
    ],
)
def test_an_unusable_transcript_is_an_error_of_one_line(
    arguments, code, why, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert run(arguments) == code
    error = capfd.readouterr().err
    assert why in error
    assert error.count("\n") == 1


def test_a_port_in_use_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "talk.jsonl"
    record.write_bytes(RECORD.read_bytes())
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        assert run([str(record), "--no-open", "--port", port]) == 1
    assert f"--port: {port} is in use" in capsys.readouterr().err


def test_without_a_name_the_newest_transcript_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    transcripts = tmp_path / "eca-python" / "transcripts"
    transcripts.mkdir(parents=True)
    for age, name in enumerate(("new", "old")):
        (transcripts / f"{name}.jsonl").write_bytes(RECORD.read_bytes())
        os.utime(transcripts / f"{name}.jsonl", (1e9 - age, 1e9 - age))
    out = tmp_path / "page.html"
    assert run(["--out", str(out)]) == 0
    assert "<title>new.jsonl: inspected</title>" in out.read_text("utf-8")
