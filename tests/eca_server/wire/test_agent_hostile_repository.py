"""A repository full of traps: everything that looks at it answers, soon and in bounds."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.eca_server.stranger import contents_of
from tests.eca_server.wire.agent_session import Agent, StartAgent, calls

MEGABYTE = 2**20
TREE, READ, GREP, EDIT = "eca_directory_tree", "eca_read_file", "eca_grep", "eca_edit_file"
CHANGE = {"original_content": "needle", "new_content": "thread"}


@pytest.fixture(params=["with git", "without git"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Links in circles, pipes, devices, a sparse gigabyte, names that are no text."""
    folder = tmp_path / "hostile"
    (folder / "sub").mkdir(parents=True)
    if request.param == "with git":
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "ok.txt").write_text("a needle\n")
    for name, target in {
        "loop": "loop", "a": "b", "b": "a", "sub/up": "..", "sub/self": ".", "zero": "/dev/zero",
        "tty": "/dev/tty", "dangling": "nowhere",
    }.items():  # fmt: skip
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "sub" / "AGENTS.md")
    with (folder / "sparse").open("wb") as file:
        file.truncate(2**30)
    (folder / "two\nlines.txt").write_text("needle\n")
    (folder / os.fsdecode(b"bad-\xff\xfe.txt")).write_bytes(b"needle \xff\n")
    with (folder / "AGENTS.md").open("w") as file:
        file.writelines(["a rule of the house\n" * 1000] * 2700)
    assert (folder / "AGENTS.md").stat().st_size > 50 * MEGABYTE
    with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(folder):
        listening.bind("socket")
    yield folder
    for large in ("sparse", "AGENTS.md"):
        (folder / large).unlink()


@pytest.fixture
def agent(start_agent: StartAgent, folder: Path) -> Iterator[Agent]:
    made = [(name, given) for name, given, _ in LOOKS]
    agent = start_agent(calls(*made), folder=folder)
    yield agent
    assert agent.resident() < 150 * MEGABYTE
    assert agent.largest_frame() < MEGABYTE
    assert agent.largest_request() < MEGABYTE


LOOKS: list[tuple[str, dict[str, Any], str]] = [
    (TREE, {"path": "."}, "two\\nlines.txt"),
    (TREE, {"path": "sub"}, "0 files"),
    (TREE, {"path": "loop"}, "circle"),
    (GREP, {"path": ".", "pattern": "needle"}, "two\\nlines.txt:1:needle"),
    (GREP, {"path": ".", "pattern": "needle"}, "bad-\\xff\\xfe.txt:1:needle"),
    (GREP, {"path": "pipe", "pattern": "needle"}, "No line matches"),
    (GREP, {"path": "sparse", "pattern": "needle"}, "No line matches"),
    (GREP, {"path": "AGENTS.md", "pattern": "house"}, "more than 20,000 lines"),
    (READ, {"path": "loop"}, "circle"),
    (READ, {"path": "a"}, "circle"),
    (READ, {"path": "dangling"}, "No such file"),
    (READ, {"path": "pipe"}, "a named pipe"),
    (READ, {"path": "socket"}, "a socket"),
    (READ, {"path": "sparse"}, "1,073,741,824 bytes"),
    (READ, {"path": "AGENTS.md"}, "at most 16,777,216 bytes"),
    (READ, {"path": "two\nlines.txt"}, "needle"),
    (READ, {"path": "sub/up/sub/up/ok.txt"}, "a needle"),
    (EDIT, {"path": "pipe", **CHANGE}, "a named pipe"),
    (EDIT, {"path": "sparse", **CHANGE}, "1,073,741,824 bytes"),
    (EDIT, {"path": "zero", **CHANGE}, "leads out of the workspace"),
]


@pytest.mark.long(but=1)
@pytest.mark.requirement("W-38a")
def test_tools_answer_whatever_lies_there(agent: Agent) -> None:
    contents = contents_of(agent.turn(seconds=30))
    assert not any(each.get("manualApproval") for each in contents)
    for (name, given, expected), result in zip(LOOKS, agent.results(), strict=True):
        assert expected in result, (name, given)
    system = agent.provider.requests[0].body["messages"][0]
    assert "a rule of the house" in system["content"]
    assert len(system["content"]) < 100_000


@pytest.mark.long(but=1)
@pytest.mark.requirement("TOOL-4")
def test_a_link_to_a_device_asks_and_is_not_opened(start_agent: StartAgent, folder: Path) -> None:
    agent = start_agent(*(calls((READ, {"path": name})) for name in ("zero", "tty")), folder=folder)
    agent.send_prompt()
    for _ in range(2):
        agent.approve(agent.expect_content("toolCallRun", manualApproval=True))
    agent.expect_finished()
    assert ["a device" in result for result in agent.results()] == [True, True]


@pytest.mark.long(but=1)
@pytest.mark.requirement("CHAT-6", "W-41a", "CTX-2")
def test_contexts_and_mentions_answer_whatever_lies_there(agent: Agent) -> None:
    folder = agent.folder
    names = ["loop", "pipe", "zero", "sparse", "two\nlines.txt", "AGENTS.md", "socket", "dangling"]
    contexts = [{"type": "directory", "path": str(folder)}]
    contexts += [{"type": "file", "path": str(folder / name)} for name in names]
    mentioned = "see @pipe @loop @zero @sparse @sub @two\nlines.txt"
    notes = [
        each["text"]
        for each in contents_of(agent.turn(mentioned, contexts=contexts, seconds=30))
        if each["type"] == "text"
    ]
    for words in ("circle", "a named pipe", "a device", "a socket", "binary", "was cut"):
        assert any(words in note for note in notes), words
    message = str(agent.provider.requests[0].body["messages"][-1]["content"])
    assert "a rule of the house" in message
    assert message.endswith(mentioned)


@pytest.mark.requirement("W-40a")
def test_queries_answer_whatever_lies_there(agent: Agent) -> None:
    def found(query: str) -> set[str]:
        result = agent.result("chat/queryContext", {"query": query})
        assert all(each["type"] in {"file", "directory"} for each in result["contexts"])
        return {Path(each["path"]).name for each in result["contexts"]}

    assert {"ok.txt", "two\nlines.txt", "sparse"} <= found("")
    assert found("two") == {"two\nlines.txt"}
    assert found("pipe") == found("bad-") == set()


def test_commands_answer_whatever_lies_there(agent: Agent) -> None:
    expected = {"/repo-map-show": "two\\nlines.txt", "/prompt-show": "a rule", "/doctor": "Python"}
    for command, words in expected.items():
        said = [each["text"] for each in contents_of(agent.turn(command)) if each["type"] == "text"]
        assert any(words in text for text in said), command
        assert sum(map(len, said)) < MEGABYTE
