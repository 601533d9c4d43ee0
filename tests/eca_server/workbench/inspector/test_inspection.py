"""The parts of the page: complete, without duplicates, harmless, and without secrets."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from eca_protocol.transcript import lock_file
from eca_server.workbench.inspector.command import write_page
from eca_server.workbench.inspector.inspection import Inspection
from eca_server.workbench.inspector.serving import render_file_page, render_live_page
from eca_server.workbench.tap import masker
from tests.eca_server.workbench.page_reader import Page

RECORD = Path("tests/data/transcripts/real_job.jsonl").read_bytes()
KEY = "sk-ant-0123456789abcdef"
HEAD = f'{{"transcript":1,"started":"2026-01-02T03:04:05+00:00","command":["eca {KEY}"]}}\n'
TEXT = 10  # the place of a row's text


def line(side: str, message: Any, at: float = 0.0) -> str:
    return f'{{"at":{at:f},"from":"{side}","message":{json.dumps(message, ensure_ascii=False)}}}\n'


def inspected(*pieces: bytes) -> list[dict[str, Any]]:
    inspection = Inspection("record", masker({}))
    parts = [*map(inspection.feed, pieces), inspection.end()]
    return [json.loads(part) for part in parts if part is not None]


def rows_of(parts: list[dict[str, Any]]) -> list[Any]:
    rows: list[Any] = []
    for part in parts:
        assert part.get("first", len(rows)) == len(rows)
        rows += part.get("rows", [])
    return rows


def test_a_transcript_in_pieces_gives_the_same_rows_as_in_one():
    whole = inspected(RECORD)
    pieces = inspected(*(RECORD[at : at + 5000] for at in range(0, len(RECORD), 5000)))
    assert rows_of(pieces) == rows_of(whole)
    assert len(rows_of(whole)) == RECORD.count(b"\n") - 1
    assert {part["edition"] for part in pieces} == {"2025-10"}
    assert sum("shapes" in part for part in pieces) == 1


def test_a_finding_has_the_row_that_breaks_the_requirement():
    mark = b'"type": "progress", "state": "finished", "text": ""'
    lines = RECORD.splitlines(keepends=True)
    (place,) = [number for number, each in enumerate(lines) if mark in each][:1]
    lines.insert(place, b'{"at":0.000000,"from":"server","raw":"print\\n"}\n')
    lines.insert(place + 2, lines[place + 1])
    parts = inspected(b"".join(lines))
    findings = {number: row for part in parts for number, row, *_ in part.get("findings", [])}
    assert findings == {place - 1: "BASE-2", place + 1: "W-22e"}
    requirements = [part.get("requirements", {}) for part in parts]
    (row,) = [each["W-22e"] for each in requirements if "W-22e" in each]
    assert row[1:] == ["Rulings: chat", "must", "server"]


def test_an_unmasked_transcript_is_masked_on_the_page():
    prompt = {"id": 1, "method": "chat/prompt", "params": {"message": f"/login openai {KEY}"}}
    junk = f'{{"at":0.1,"from":"server","raw":"debug: {KEY}"}}\n'
    record = HEAD + line("client", prompt) + junk
    parts = json.dumps(inspected(record.encode()))
    assert KEY not in parts
    assert parts.count("***") == 6  # the command, both texts and summaries, and a finding


def test_a_secret_in_pieces_is_masked_in_findings():
    started = [
        line("client", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}),
        line("server", {"jsonrpc": "2.0", "id": 0, "result": {"chatWelcomeMessage": "Hello"}}),
        line("client", {"jsonrpc": "2.0", "method": "initialized", "params": {}}),
    ]
    prompt = {"chatId": "c", "message": "sk and more"}
    request = line("client", {"jsonrpc": "2.0", "id": 1, "method": "chat/prompt", "params": prompt})
    echo = {"type": "text", "contentId": "m"}
    echoed = [
        ("system", {"type": "progress", "state": "running", "text": "Hm"}),
        ("user", {**echo, "text": "sk"}),
        ("user", {**echo, "text": KEY[2:]}),
    ]
    contents = [{"chatId": "c", "role": role, "content": content} for role, content in echoed]
    method = {"jsonrpc": "2.0", "method": "chat/contentReceived"}
    notifications = [line("server", {**method, "params": params}) for params in contents]
    (part, _) = inspected("".join([HEAD, *started, request, *notifications]).encode())
    assert [finding[3] for finding in part["findings"] if finding[1] == "W-6c"] == ["'***'"]


@pytest.mark.parametrize(
    "text", ["</script><script>x()</script>", "<!--<script>", "\u2028\u2029", "\\u003c", "\x00<"]
)
def test_no_text_ends_the_data_of_a_page(text):
    message = {"method": text, "params": {"message": text}}
    parts = inspected((HEAD + line("client", message)).encode())
    page = Page(render_file_page(text, (json.dumps(part).encode() for part in parts)))
    read = json.loads(page.data)
    assert json.loads(rows_of(read)[0][TEXT]) == message
    assert page.tags == Page(render_file_page("x", [b"{}"])).tags


def test_the_lines_before_an_invalid_one_are_shown():
    good = line("client", {"method": "exit"})
    (part, last) = inspected((HEAD + good * 2 + "nonsense\n" + good).encode())
    assert len(rows_of([part])) == 2
    assert part["fault"].startswith("record:4: expected an entry, got")
    assert last == {"findings": [], "edition": "2025-10"}
    assert "connect-src" not in render_file_page("x", [])
    assert "connect-src 'self'" in render_live_page("x")
    assert 'id="data"' not in render_live_page("x").split("<script>")[0]


def test_a_page_is_readable_by_its_user_only_and_not_written_over_its_transcript(tmp_path, capsys):
    record, out, other = (tmp_path / name for name in ("kept.jsonl", "kept.html", "other.jsonl"))
    record.write_bytes(RECORD)
    out.touch(mode=0o644)
    assert write_page(record, out) == 0
    assert out.stat().st_mode & 0o777 == 0o600
    assert rows_of(json.loads(Page(out.read_text("utf-8")).data)) == rows_of(inspected(RECORD))
    other.symlink_to(record)
    assert write_page(record, other) == 2
    assert "got the transcript itself" in capsys.readouterr().err
    assert record.read_bytes() == RECORD
    record.write_bytes(b"no\n")
    assert write_page(record, tmp_path / "none.html") == 2
    assert ":1: expected a transcript, got" in capsys.readouterr().err
    assert not (tmp_path / "none.html").exists()


def test_a_full_disk_leaves_the_page_that_is_there(tmp_path, monkeypatch):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    record, out = tmp_path / "r.jsonl", tmp_path / "r.html"
    record.write_bytes(RECORD)
    out.write_text("before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_page(record, out)
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == {
        record: RECORD,
        out: b"before",
    }


EXIT = line("client", {"method": "exit"})
ENDED = [f'{{"at":0.1,"from":"{side}","ended":true}}\n' for side in ("client", "server")]
EXITED = '{"at":0.2,"exit":0}\n'
BREAKS_OFF = "ends before the end of the conversation"
CONTINUES = "has no end yet; it is still being written"


@pytest.mark.parametrize(
    ("lines", "is_written", "why"),
    [
        (ENDED[0], False, BREAKS_OFF),
        (ENDED[1], False, BREAKS_OFF),
        (ENDED[1], True, CONTINUES),
        ("".join(ENDED), True, ""),
        (EXIT, False, ""),
        (EXIT, True, CONTINUES),
        (EXITED, True, ""),
    ],
)
def test_a_page_reports_a_missing_end_and_a_transcript_in_progress(
    lines, is_written, why, tmp_path, capsys
):
    record = tmp_path / "kept.jsonl"
    with record.open("w") as writer:
        if is_written:
            lock_file(writer.fileno())
        writer.write(HEAD + lines)
        writer.flush()
        assert write_page(record, tmp_path / "kept.html") == 0
    expected = f"eca-server inspect: kept.jsonl: the record {why}\n" if why else ""
    assert capsys.readouterr().err == expected
