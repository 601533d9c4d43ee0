"""A server that is killed inside a turn: the next one has what was said until then, and a mark."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from eca_protocol.testing.provider import (
    ThreadedProvider,
    finish,
    hang,
    provider_in_thread,
    reply,
    tool_call,
)
from eca_server.agent.chat.replay import CUT_OFF
from eca_server.agent.chat.store.running import CUT_OFF as MARK
from eca_server.agent.chat.store.running import UNKNOWN_RESULT
from eca_server.models.history import TextPart
from tests.eca_server.agent.chat.editor import provider_config
from tests.eca_server.conftest import Start
from tests.eca_server.stranger import Stranger, content_of

CHAT = {"chatId": "c"}
SECONDS = 30.0
(NOTE,) = (part.text for part in MARK.parts if isinstance(part, TextPart))


def opened(start_server: Start, project: Path, **config: Any) -> Stranger:
    configured = json.dumps({"chat": {"title": False}, **config})
    server = start_server(cwd=project, env={"ECA_CONFIG": configured})
    server.introduced(project, capabilities={"codeAssistant": {"chatCapabilities": {}}})
    return server


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path / "project"


def prompted(server: Stranger, *lines: str, **params: Any) -> None:
    model = {"model": "simulator/script", "trust": True}
    server.ask("chat/prompt", {**CHAT, "message": "\n".join(lines), **model, **params})


def until_content(server: Stranger, **members: Any) -> dict[str, Any]:
    """Read until a content with these members comes; that content."""
    came = server.until(lambda each: members.items() <= content_of(each).items())
    return content_of(came[-1])


def rows(home: Path, table: str) -> list[tuple[Any, ...]]:
    """Return what another process reads in a table of the file of chats now."""
    for path in home.rglob("chats.sqlite"):
        with closing(sqlite3.connect(path)) as connection, suppress(sqlite3.OperationalError):
            return connection.execute(f"SELECT * FROM {table}").fetchall()
    return []


def until_stored(home: Path, table: str, text: str = "") -> None:
    """Wait until a row of a running turn on disk holds a text."""
    deadline = time.monotonic() + SECONDS
    while not any(text.encode() in repr(row).encode() for row in rows(home, table)):
        assert time.monotonic() < deadline, f"{text!r} was not stored: {rows(home, table)}"
        time.sleep(0.02)


def kill(server: Stranger) -> None:
    os.kill(server.pid, signal.SIGKILL)
    server.process.wait()


def shown(server: Stranger, chat: str = "c") -> list[tuple[str, str]]:
    """Open a chat: role, and text without blank lines or type of each of its contents."""
    begun = len(server.seen)
    assert server.result("chat/open", {"chatId": chat})["found"]
    contents = [
        (each["params"]["role"], content_of(each))
        for each in server.seen[begun:]
        if each.get("method") == "chat/contentReceived"
    ]
    return [
        (role, content.get("text", "").lstrip("\n") or content["type"])
        for role, content in contents
    ]


MOMENTS: dict[str, tuple[tuple[str, ...], dict[str, Any], str, list[tuple[str, str]]]] = {
    "before the first token": (("wait forever",), {"type": "progress"}, "", []),
    "in a text": (
        ("say half an answer", "wait forever"),
        {"type": "text"},
        "half an answer",
        [("assistant", "half an answer")],
    ),
    "in a thought": (
        ("think half a thought", "wait forever"),
        {"type": "reasonText"},
        "half a thought",
        [
            ("assistant", "reasonStarted"),
            ("assistant", "half a thought"),
            ("assistant", "reasonFinished"),
        ],
    ),
}


@pytest.mark.long(but=1)
@pytest.mark.parametrize("moment", MOMENTS)
def test_of_a_killed_turn_prompt_and_partial_answer_are_left_with_a_mark(
    start_server, tmp_path, project, moment
):
    lines, comes, stored, answered = MOMENTS[moment]
    server = opened(start_server, project)
    prompted(server, *lines)
    until_content(server, **comes)
    until_stored(tmp_path, "running_piece" if stored else "running_turn", stored)
    kill(server)
    second = opened(start_server, project)
    (listed,) = second.result("chat/list")["chats"]
    assert (listed["id"], listed["title"]) == ("c", " ".join(lines))
    expected = [("user", "\n".join(lines)), *answered, ("system", CUT_OFF)]
    assert shown(second) == expected
    assert shown(second) == expected
    kill(second)
    assert shown(opened(start_server, project)) == expected
    assert rows(tmp_path, "running_turn") + rows(tmp_path, "running_piece") == []
    assert len(rows(tmp_path, "message")) == 2 + bool(answered)
    assert not list(tmp_path.rglob("chats.sqlite.turns-*"))


@pytest.fixture
def provider() -> Iterator[ThreadedProvider]:
    script = [reply("half an ", "answer", hang())]
    with provider_in_thread(script, otherwise=reply("the end")) as running:
        yield running


def sent(provider: ThreadedProvider) -> list[tuple[str, str]]:
    """Role and text of the messages in the last request."""
    messages = provider.requests[-1].body["messages"]
    return [(each["role"], str(each.get("content"))) for each in messages[1:]]


def turn(server: Stranger, text: str, **params: Any) -> str:
    """A whole turn; the content id of its prompt."""
    begun = len(server.seen)
    server.ask("chat/prompt", {**CHAT, "message": text, **params})
    server.expect_finished()
    ids = (content_of(each).get("contentId") for each in server.seen[begun:])
    return next(each for each in ids if each)


@pytest.mark.long
def test_the_next_prompt_is_sent_behind_the_partial_answer_and_a_note(
    start_server, tmp_path, project, provider
):
    config = provider_config(provider.url)
    server = opened(start_server, project, **config)
    server.ask("chat/prompt", {**CHAT, "message": "a question"})
    until_stored(tmp_path, "running_piece", "half an answer")
    kill(server)
    second = opened(start_server, project, **config)
    later = turn(second, "go on")
    first, answer, last = sent(provider)
    assert first[0] == "user"
    assert "a question" in first[1]
    assert answer == ("assistant", "half an answer")
    assert last[0] == "user"
    assert NOTE in last[1]
    assert "go on" in last[1]
    cut_off = [("user", "a question"), ("assistant", "half an answer"), ("system", CUT_OFF)]
    assert shown(second) == [*cut_off, ("user", "go on"), ("assistant", "the end")]

    turn(second, "/resume 1", chatId="d")
    turn(second, "and here", chatId="d")
    assert [words for _, words in sent(provider)[:2]] == [first[1], "half an answer"]
    assert NOTE in sent(provider)[2][1]

    second.result("chat/fork", {**CHAT, "contentId": later})
    forks = [
        each["params"]["chatId"] for each in second.seen if each.get("method") == "chat/opened"
    ]
    assert shown(second, forks[-1])[:3] == cut_off

    second.result("chat/rollback", {**CHAT, "contentId": later})
    assert shown(second) == cut_off
    turn(second, "/compact")
    assert NOTE not in str(sent(provider)[-1]) or "<conversation>" in str(sent(provider)[-1])
    turn(second, "after that")
    assert "half an answer" not in str(sent(provider))
    kill(second)
    third = opened(start_server, project, **config)
    assert shown(third)[:3] == cut_off
    ids = [content_of(each).get("contentId") for each in third.seen]
    third.result("chat/rollback", {**CHAT, "contentId": next(each for each in ids if each)})
    assert [each["id"] for each in third.result("chat/list")["chats"]].count("c") == 0


@pytest.mark.long(but=1)
@pytest.mark.parametrize("waits_for", ["the tool", "an approval"])
def test_finished_calls_are_left_with_their_results_and_the_cut_off_one_says_so(
    start_server, tmp_path, project, waits_for
):
    (project / "file").write_text("what is in the file")
    pid = project / "pid"
    calls = [
        tool_call("eca_read_file", json.dumps({"path": "file"}), call_id="p0", index=0),
        tool_call(
            "eca_shell_command",
            json.dumps({"command": f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 1000"}),
            call_id="p1",
            index=1,
        ),
    ]
    script = [reply("I look. ", *calls, finish("tool_calls"))]
    with provider_in_thread(script, otherwise=reply("the end")) as provider:
        config = provider_config(provider.url)
        server = opened(start_server, project, **config)
        trust = waits_for == "the tool"
        server.ask("chat/prompt", {**CHAT, "message": "look", "trust": trust})
        until_stored(tmp_path, "running_piece", "what is in the file")
        deadline = time.monotonic() + SECONDS
        while trust and not pid.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        kill(server)
        if trust:
            os.kill(int(pid.read_text()), signal.SIGKILL)
        second = opened(start_server, project, **config)
        contents = shown(second)
        assert contents[:2] == [("user", "look"), ("assistant", "I look. ")]
        assert contents[-1] == ("system", CUT_OFF)
        ended = [
            content_of(each) for each in second.seen if content_of(each).get("type") == "toolCalled"
        ]
        assert [each["error"] for each in ended] == [False, True]
        assert "what is in the file" in str(ended[0]["outputs"])
        assert UNKNOWN_RESULT in str(ended[1]["outputs"])
        turn(second, "go on")
        roles = [role for role, _ in sent(provider)]
        assert roles == ["user", "assistant", "tool", "tool", "user"]
        assert "what is in the file" in sent(provider)[2][1]
        assert UNKNOWN_RESULT in sent(provider)[3][1]
        assert NOTE in sent(provider)[4][1]


def test_the_files_of_a_killed_turn_are_put_back_with_it(start_server, tmp_path, project):
    (project / "file").write_text("as it was")
    server = opened(start_server, project)
    write = json.dumps({"path": "file", "content": "new"})
    prompted(server, f"call eca_write_file {write}", "say written", "wait forever")
    until_stored(tmp_path, "running_piece", "written")
    assert (project / "file").read_text() == "new"
    kill(server)
    second = opened(start_server, project)
    assert shown(second)[-1] == ("system", CUT_OFF)
    ids = [content_of(each).get("contentId") for each in second.seen]
    second.result("chat/rollback", {**CHAT, "contentId": next(each for each in ids if each)})
    assert (project / "file").read_text() == "as it was"
    assert second.result("chat/list")["chats"] == []
    assert rows(tmp_path, "message") == []
