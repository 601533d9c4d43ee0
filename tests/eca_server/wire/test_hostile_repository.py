"""A repository full of traps: everything that looks at it answers, soon and in bounds."""

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.eca_server.stranger import contents_of
from tests.eca_server.wire.agent_session import StartAgent, calls

MEGABYTE = 2**20
TREE, READ, GREP, EDIT = "eca_directory_tree", "eca_read_file", "eca_grep", "eca_edit_file"
CHANGE = {"original_content": "needle", "new_content": "thread"}
CIRCLES = {"loop": "loop", "a": "b", "b": "a", "sub/up": "..", "sub/self": "."}
ELSEWHERE = {"zero": "/dev/zero", "tty": "/dev/tty", "dangling": "nowhere"}


@pytest.fixture(params=["with git", "without git"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Links in circles, pipes, devices, a sparse gigabyte, names that are no text."""
    folder = tmp_path / "hostile"
    (folder / "sub").mkdir(parents=True)
    if request.param == "with git":
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "ok.txt").write_text("a needle\n")
    for name, target in (CIRCLES | ELSEWHERE).items():
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


LOOKS: list[tuple[str, dict[str, Any], str]] = [
    (TREE, {"path": "."}, "two\\nlines.txt"),
    (TREE, {"path": "sub"}, "0 files"),
    (TREE, {"path": "loop"}, "circle"),
    (GREP, {"path": ".", "pattern": "needle"}, "two\\nlines.txt:1:needle"),
    (GREP, {"path": ".", "pattern": "needle"}, "bad-\\xff\\xfe.txt:1:needle"),
    (GREP, {"path": "pipe", "pattern": "needle"}, "got a named pipe"),
    (GREP, {"path": "sparse", "pattern": "needle"}, "it has a NUL"),
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
SHOWN = {"/repo-map-show": "two\\nlines.txt", "/prompt-show": "a rule", "/doctor": "Python"}
NAMES = ["loop", "pipe", "zero", "sparse", "two\nlines.txt", "AGENTS.md", "socket", "dangling"]
MENTIONED = "see @pipe @loop @zero @sparse @sub @two\nlines.txt"


def texts(messages: list[Any]) -> list[str]:
    return [each["text"] for each in contents_of(messages) if each["type"] == "text"]


@pytest.mark.long(but=1)
@pytest.mark.requirement("CHAT-6", "CTX-2", "TOOL-4", "W-38a", "W-40a", "W-41a")
def test_everything_answers_whatever_lies_there(start_agent: StartAgent, folder: Path) -> None:
    looks = calls(*((name, arguments) for name, arguments, _ in LOOKS))
    devices = (calls((READ, {"path": name})) for name in ("zero", "tty"))
    agent = start_agent(looks, *devices, folder=folder)

    def query_names(query: str) -> set[str]:
        result = agent.result("chat/queryContext", {"query": query})
        assert all(each["type"] in {"file", "directory"} for each in result["contexts"])
        return {Path(each["path"]).name for each in result["contexts"]}

    assert {"ok.txt", "two\nlines.txt", "sparse"} <= query_names("")
    assert query_names("two") == {"two\nlines.txt"}
    assert query_names("pipe") == query_names("bad-") == set()

    agent.send_prompt()
    for _ in range(2):
        agent.approve(agent.expect_content("toolCallRun", manualApproval=True))
    agent.expect_finished()
    assert [each.get("manualApproval") for each in agent.contents()].count(True) == 2
    *results, zero, tty = agent.results()
    for (name, arguments, expected), result in zip(LOOKS, results, strict=True):
        assert expected in result, (name, arguments)
    assert all("a device" in result for result in (zero, tty))
    system = agent.provider.requests[0].body["messages"][0]
    assert "a rule of the house" in system["content"]
    assert len(system["content"]) < 100_000

    contexts = [{"type": "directory", "path": str(folder)}]
    contexts += [{"type": "file", "path": str(folder / name)} for name in NAMES]
    notes = texts(agent.turn(MENTIONED, contexts=contexts, seconds=30))
    for words in ("circle", "a named pipe", "a device", "a socket", "binary", "was cut"):
        assert any(words in note for note in notes), words
    sent = str(agent.provider.requests[-1].body["messages"][-1]["content"])
    assert "a rule of the house" in sent
    assert sent.endswith(MENTIONED)

    for command, words in SHOWN.items():
        shown = texts(agent.turn(command))
        assert any(words in text for text in shown), command
        assert sum(map(len, shown)) < MEGABYTE
    assert agent.resident() < 150 * MEGABYTE
    assert max(agent.largest_frame(), agent.largest_request()) < MEGABYTE
