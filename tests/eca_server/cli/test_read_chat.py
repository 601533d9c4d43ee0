"""`read-chat`, with the options and shapes of upstream's, and `link`."""

import json
import os
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from eca_server.cli.link import change_link
from eca_server.cli.read_chat import parse_time
from tests.eca_server.cli.running import eca
from tests.eca_server.processes import run_to_end
from tests.eca_server.stranger import environment

SCRIPT = ("--model", "simulator/script")


def lines(home: Path, *arguments: str) -> list[dict[str, Any]]:
    done = eca(home, "read-chat", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_chats_are_listed_by_workspace_and_by_file(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "a.txt").write_text("x")
    eca(tmp_path, "chat", *SCRIPT, 'say hi\ncall read_file {"path": "a.txt"}\nsay bye')
    (chat,) = lines(tmp_path, "--workspace", ".")
    names = {"id", "status", "model", "created-at", "updated-at", "user-prompt-count"}
    assert chat.keys() == names
    assert (chat["model"], chat["user-prompt-count"]) == ("simulator/script", 1)
    assert lines(tmp_path, "--db-cache-path", ".local/share/eca-python") == [chat]
    assert lines(tmp_path, "--db-cache-path", ".local/share/eca-python/chats.sqlite") == [chat]
    assert lines(tmp_path, "--workspace", "other") == []
    assert lines(tmp_path, "--workspace", ".", "--since", "1h") == [chat]
    assert lines(tmp_path, "--workspace", ".", "--until", "1h") == []

    messages = lines(tmp_path, "--workspace", ".", "--chat-id", chat["id"])
    roles = [each["role"] for each in messages]
    assert roles == ["user", "assistant", "tool_call", "tool_call_output", "assistant"]
    assert messages[1]["content"] == [{"type": "text", "text": "hi"}]
    (call,) = lines(tmp_path, "--workspace", ".", "--chat-id", chat["id"], "--role", "tool_call")
    assert (call["content"]["name"], call["content"]["server"]) == ("read_file", "eca")
    done = eca(tmp_path, "read-chat", "--workspace", ".", "--chat-id", "none")
    assert (done.returncode, done.stdout) == (1, "")
    assert "chat not found: none" in done.stderr
    done = eca(tmp_path, "read-chat", "--workspace", ".", "--chat-id", chat["id"], "--since", "1h")
    assert (done.returncode, done.stdout) == (0, "")
    assert "Warning: 5 message(s) without created-at were excluded" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        ([], 2, "expected --workspace PATH or --db-cache-path PATH"),
        (["--workspace", ".", "--db-cache-path", "."], 2, "not allowed with"),
        (["--workspce", "."], 2, "did you mean `--workspace`?"),
        (["--workspace", ".", "--role", "user"], 2, "--role requires --chat-id"),
        (["--workspace", ".", "--since", "now"], 2, "expected a time such as 2h"),
        (["--workspace", "."], 1, "there is no file of chats"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, arguments: list[str], code: int, why: str) -> None:
    done = eca(tmp_path, "read-chat", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert why in done.stderr


def test_a_newer_server_that_has_the_file_open_is_reported_too(tmp_path: Path) -> None:
    assert eca(tmp_path, "chat", "hi").returncode == 0
    (file,) = tmp_path.rglob("chats.sqlite")
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        assert database.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        for version, is_reported in ((1000, True), (1, False)):
            database.execute(f"PRAGMA user_version = {version}")
            reported = f"{file}: a newer server has written it (version 1000, expected "
            assert (reported in eca(tmp_path, "doctor").stdout) is is_reported
        database.execute("BEGIN")
        database.execute("PRAGMA user_version = 1000")
        assert f"{file}: present" in eca(tmp_path, "doctor").stdout


def test_a_file_of_a_newer_server_is_reported_by_read_chat_and_doctor(tmp_path: Path) -> None:
    assert eca(tmp_path, "chat", "hi").returncode == 0
    before = eca(tmp_path, "doctor")
    assert "chats.sqlite: present" in before.stdout
    (file,) = tmp_path.rglob("chats.sqlite")
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA user_version = 1000")
    done = eca(tmp_path, "read-chat", "--workspace", ".")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("a newer server has written it") == 1
    assert "stay only in memory" not in done.stderr  # it stores none
    report = eca(tmp_path, "doctor")
    assert f"{file}: a newer server has written it (version 1000, expected " in report.stdout
    facts = json.loads(eca(tmp_path, "doctor", "--json").stdout)
    assert any("a newer server has written it" in each for each in facts["warnings"])
    file.write_text("no database")
    assert f"{file}: it is damaged" in eca(tmp_path, "doctor").stdout
    file.unlink()
    os.mkfifo(file)
    assert f"{file}: it cannot be read: not a regular file" in eca(tmp_path, "doctor").stdout


@pytest.mark.parametrize("kind", ["text", "empty", "other-database"])
def test_a_named_file_without_chats_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "file"
    file.write_text("words\n" * 100 if kind == "text" else "")
    if kind == "other-database":
        with closing(sqlite3.connect(file)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("CREATE TABLE chat (id)")
    before = file.read_bytes()
    done = eca(tmp_path, "read-chat", "--db-cache-path", "file")
    assert (done.returncode, done.stdout) == (1, "")
    assert "file is no file of chats, or is damaged; it was not changed" in done.stderr
    assert file.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_times_are_relative_or_of_a_calendar() -> None:
    day = datetime(2025, 1, 1, tzinfo=UTC).timestamp() * 1000
    assert parse_time("2025-01-01") == parse_time("2025-01-01T00:00:00Z") == day
    assert parse_time("2025-01-01T14:30:00Z") == day + 14.5 * 3_600_000
    now = datetime.now(UTC).timestamp() * 1000
    assert abs(parse_time("2h") - (now - 7_200_000)) < 60_000
    with pytest.raises(ValueError, match="isoformat"):
        parse_time("soon")


@pytest.mark.skipif(os.name == "nt", reason="a copy instead of a link")
def test_a_link_is_made_on_request_and_replaces_nothing(tmp_path, capsys):
    program, link = tmp_path / "eca-server", tmp_path / "eca"
    start = f"#!/bin/sh\nexec {sys.executable} -P -c \"import sys; sys.argv[0] = '$0'\n"
    program.write_text(f'{start}from eca_server.__main__ import main; main()" "$@"\n')
    program.chmod(0o755)
    assert change_link(program, removes=False) == 0
    assert link.readlink() == Path("eca-server")
    done = run_to_end([link, "--version"], env=environment(tmp_path))
    assert done.stdout.startswith("eca 0.")
    assert change_link(program, removes=False) == 0
    assert change_link(program, removes=True) == 0
    assert not os.path.lexists(link)
    assert change_link(program, removes=True) == 0
    link.write_text("another program")
    for removes in (False, True):
        assert change_link(program, removes=removes) == 1
    assert link.read_text() == "another program"
    assert "remove it first" in capsys.readouterr().err
