"""A server that is killed: the next one has what was said until then, and a mark."""

import json
import math
import random
import sqlite3
import time
from collections.abc import Callable
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
from tests.eca_server.processes import wait_until
from tests.eca_server.stranger import Stranger, content_of
from tests.eca_server.wire.real_job import call

SECONDS = 30.0
TRUSTED = {"model": "simulator/script", "trust": True}
(NOTE,) = (part.text for part in MARK.parts if isinstance(part, TextPart))


def opened(start_server: Start, project: Path, **config: Any) -> Stranger:
    configured = json.dumps({"chat": {"title": False}, **config})
    server = start_server(cwd=project, env={"ECA_CONFIG": configured})
    server.introduced(project, capabilities={"codeAssistant": {"chatCapabilities": {}}})
    return server


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path / "project"


def rows(home: Path, table: str) -> list[tuple[Any, ...]]:
    """Return what another process reads in a table of the file of chats now."""
    for path in home.rglob("chats.sqlite"):
        with closing(sqlite3.connect(path)) as connection, suppress(sqlite3.OperationalError):
            return connection.execute(f"SELECT * FROM {table}").fetchall()
    return []


def until_stored(home: Path, table: str, text: str = "") -> None:
    """Wait until a row of a running turn on disk holds a text."""
    wait_until(
        lambda: any(text.encode() in repr(row).encode() for row in rows(home, table)),
        lambda: f"{text!r} was not stored: {rows(home, table)}",
        SECONDS,
    )


def kill(server: Stranger) -> None:
    server.kill()
    server.process.wait()


def shown(server: Stranger, chat: str = "c") -> list[tuple[str, str]]:
    """Open a chat: role, and text without blank lines or type of each of its contents."""
    begun = len(server.received)
    assert server.result("chat/open", {"chatId": chat})["found"]
    received = [m for m in server.received[begun:] if m.get("method") == "chat/contentReceived"]
    return [
        (m["params"]["role"], content_of(m).get("text", "").lstrip("\n") or content_of(m)["type"])
        for m in received
    ]


def content_id(messages: list[Any]) -> str:
    """Return the first content id of a prompt."""
    ids = (content_of(each).get("contentId") for each in messages)
    return next(each for each in ids if each)


THOUGHT = ("reasonStarted", "half a thought", "reasonFinished")


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    ("lines", "kind", "stored", "answered"),
    [
        (("say half an answer", "wait forever"), "text", "half an answer", ("half an answer",)),
        (("think half a thought", "wait forever"), "reasonText", "half a thought", THOUGHT),
        (("wait forever",), "progress", "", ()),
    ],
)
def test_of_a_killed_turn_prompt_and_partial_answer_are_left_with_a_mark(
    start_server, tmp_path, project, lines, kind, stored, answered
):
    server = opened(start_server, project)
    server.send_prompt("\n".join(lines), **TRUSTED)
    server.expect_content(kind)
    until_stored(tmp_path, "running_piece" if stored else "running_turn", stored)
    kill(server)
    second = opened(start_server, project)
    (listed,) = second.result("chat/list")["chats"]
    assert (listed["id"], listed["title"]) == ("c", " ".join(lines))
    answer = [("assistant", each) for each in answered]
    expected = [("user", "\n".join(lines)), *answer, ("system", CUT_OFF)]
    assert shown(second) == expected
    assert shown(second) == expected
    kill(second)
    assert shown(opened(start_server, project)) == expected
    assert rows(tmp_path, "running_turn") + rows(tmp_path, "running_piece") == []
    assert len(rows(tmp_path, "message")) == 2 + bool(answered)
    assert not list(tmp_path.rglob("chats.sqlite.turns-*"))


def sent(provider: ThreadedProvider) -> list[tuple[str, str]]:
    """Return role and text of the messages in the last request."""
    messages = provider.requests[-1].body["messages"]
    return [(each["role"], str(each.get("content"))) for each in messages[1:]]


@pytest.mark.long
def test_the_next_prompt_is_sent_behind_the_partial_answer_and_a_note(
    start_server, tmp_path, project
):
    script = [reply("half an ", "answer", hang())]
    with provider_in_thread(script, otherwise=reply("the end")) as provider:
        config = provider_config(provider.url)
        server = opened(start_server, project, **config)
        server.send_prompt("a question")
        until_stored(tmp_path, "running_piece", "half an answer")
        kill(server)
        second = opened(start_server, project, **config)
        later = content_id(second.turn("go on"))
        first, answer, last = sent(provider)
        assert (first[0], answer, last[0]) == ("user", ("assistant", "half an answer"), "user")
        assert "a question" in first[1]
        assert NOTE in last[1]
        assert "go on" in last[1]
        cut_off = [("user", "a question"), ("assistant", "half an answer"), ("system", CUT_OFF)]
        assert shown(second) == [*cut_off, ("user", "go on"), ("assistant", "the end")]

        second.turn("/resume 1", chat="d")
        second.turn("and here", chat="d")
        assert [words for _, words in sent(provider)[:2]] == [first[1], "half an answer"]
        assert NOTE in sent(provider)[2][1]

        fork = second.result("chat/fork", {"chatId": "c", "contentId": later})["chatId"]
        assert shown(second, fork)[:3] == cut_off

        second.result("chat/rollback", {"chatId": "c", "contentId": later})
        assert shown(second) == cut_off
        second.turn("/compact")
        assert NOTE not in str(sent(provider)[-1]) or "<conversation>" in str(sent(provider)[-1])
        second.turn("after that")
        assert "half an answer" not in str(sent(provider))
        kill(second)
        third = opened(start_server, project, **config)
        assert shown(third)[:3] == cut_off
        third.result("chat/rollback", {"chatId": "c", "contentId": content_id(third.received)})
        assert [each["id"] for each in third.result("chat/list")["chats"]].count("c") == 0


@pytest.mark.long(but=1)
@pytest.mark.parametrize("waits_for", ["an approval", "the tool"])
def test_finished_calls_are_left_with_their_results_and_the_cut_off_one_says_so(
    start_server, tmp_path, project, waits_for
):
    (project / "file").write_text("what is in the file")
    pid = project / "pid"
    command = {"command": f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 1000"}
    calls = [
        tool_call("eca_read_file", json.dumps({"path": "file"}), call_id="p0", index=0),
        tool_call("eca_shell_command", json.dumps(command), call_id="p1", index=1),
    ]
    script = [reply("I look. ", *calls, finish("tool_calls"))]
    with provider_in_thread(script, otherwise=reply("the end")) as provider:
        config = provider_config(provider.url)
        server = opened(start_server, project, **config)
        trust = waits_for == "the tool"
        server.send_prompt("look", trust=trust)
        until_stored(tmp_path, "running_piece", "what is in the file")
        wait_until(lambda: pid.exists() or not trust, lambda: "the tool was not started")
        kill(server)
        second = opened(start_server, project, **config)
        contents = shown(second)
        assert contents[:2] == [("user", "look"), ("assistant", "I look. ")]
        assert contents[-1] == ("system", CUT_OFF)
        contents = map(content_of, second.received)
        ended = [each for each in contents if each.get("type") == "toolCalled"]
        assert [each["error"] for each in ended] == [False, True]
        second.turn("go on")
        messages = sent(provider)
        roles = [role for role, _ in messages]
        assert roles == ["user", "assistant", "tool", "tool", "user"]
        for place, text in enumerate(("what is in the file", UNKNOWN_RESULT)):
            assert text in str(ended[place]["outputs"])
            assert text in messages[2 + place][1]
        assert NOTE in messages[4][1]


def test_the_files_of_a_killed_turn_are_put_back_with_it(start_server, tmp_path, project):
    (project / "file").write_text("as it was")
    server = opened(start_server, project)
    write = json.dumps({"path": "file", "content": "new"})
    server.send_prompt(f"call eca_write_file {write}\nsay written\nwait forever", **TRUSTED)
    until_stored(tmp_path, "running_piece", "written")
    assert (project / "file").read_text() == "new"
    kill(server)
    second = opened(start_server, project)
    assert shown(second)[-1] == ("system", CUT_OFF)
    second.result("chat/rollback", {"chatId": "c", "contentId": content_id(second.received)})
    assert (project / "file").read_text() == "as it was"
    assert second.result("chat/list")["chats"] == []
    assert rows(tmp_path, "message") == []


def tree(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def kill_in_rollback(
    start_server: Start, project: Path, until: Callable[[], bool], *, files: int
) -> list[str]:
    """Kill a server that rolls changes of files back; return the messages of the next one."""
    (project / "old").mkdir(parents=True)
    for number in range(files // 2):
        (project / "old" / f"{number}").write_text(f"{number} as it was")
    before = tree(project)
    steps = [call("write_file", path=f"old/{n}", content="new") for n in range(files // 2)]
    steps.append(call("move_file", source="old", destination="moved"))
    steps += [call("write_file", path=f"moved/{n}", content="newer") for n in range(files)]
    server = opened(start_server, project)
    rollback = {"chatId": "c", "contentId": content_id(server.turn("\n".join(steps), **TRUSTED))}
    after = tree(project)
    server.ask("chat/rollback", rollback)
    ending = time.monotonic() + SECONDS
    while not until():
        assert time.monotonic() < ending, "the rollback does not come so far"
    kill(server)
    second = opened(start_server, project)
    answer = second.result("chat/open", {"chatId": "c"})
    if tree(project) == after and answer["found"]:  # it had not begun
        second.result("chat/rollback", rollback)
    assert tree(project) == before
    assert not list(project.rglob("*.tmp"))
    assert second.result("chat/list")["chats"] == []
    return [m["params"]["message"] for m in second.received if m.get("method") == "$/showMessage"]


def test_a_rollback_that_was_killed_is_finished_by_the_next_server(start_server, tmp_path):
    messages: list[str] = []
    for files in (8, 40):  # a machine that is busy may come too late for few
        project = tmp_path / f"of {files} files"
        last = project / "moved" / f"{files - 1}"
        messages = messages or kill_in_rollback(
            start_server, project, lambda last=last: not last.exists(), files=files
        )
    assert messages == ["An interrupted rollback was finished."]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_a_rollback_may_be_killed_at_any_moment(start_server, project, seed):
    ending = math.inf

    def is_late() -> bool:
        nonlocal ending
        ending = min(ending, time.monotonic() + random.Random(seed).uniform(0, 0.2))
        return time.monotonic() > ending

    kill_in_rollback(start_server, project, is_late, files=20)
