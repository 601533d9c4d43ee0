"""A rollback whose server is killed: the next server finishes it, or it had not begun."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.eca_server.conftest import Start
from tests.eca_server.stranger import Stranger, content_of

CHAT = {"chatId": "c"}
SECONDS = 30.0

Tree = dict[str, str]


def tree(folder: Path) -> Tree:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def opened(start_server: Start, project: Path) -> Stranger:
    server = start_server(cwd=project)
    server.introduced(project, capabilities={"codeAssistant": {"chatCapabilities": {}}})
    return server


def call(tool: str, **arguments: str) -> str:
    return f"call eca_{tool} {json.dumps(arguments)}"


def prompted(server: Stranger, text: str) -> str:
    """A whole turn; the content id of its prompt."""
    begun = len(server.seen)
    params = {**CHAT, "message": text, "model": "simulator/script", "trust": True}
    server.ask("chat/prompt", params)
    server.expect_finished()
    shown = (content_of(each) for each in server.seen[begun:])
    return next(each["contentId"] for each in shown if each.get("contentId"))


def changed(server: Stranger, project: Path, files: int) -> tuple[str, Tree, Tree]:
    """Have files edited, made and moved; the prompt's content id, and what was there and is."""
    (project / "old").mkdir()
    for number in range(files // 2):
        (project / "old" / f"{number}").write_text(f"{number} as it was")
    before = tree(project)
    content_id = prompted(
        server,
        "\n".join(
            [
                *(call("write_file", path=f"old/{n}", content="new") for n in range(files // 2)),
                call("move_file", source="old", destination="moved"),
                *(call("write_file", path=f"moved/{n}", content="newer") for n in range(files)),
            ]
        ),
    )
    return content_id, before, tree(project)


def kill_and_look(
    start_server: Start, project: Path, until: Callable[[], bool], *, files: int
) -> list[str]:
    """Kill a server that rolls back at that moment, and start another; what that one says of it."""
    server = opened(start_server, project)
    content_id, before, after = changed(server, project, files)
    server.ask("chat/rollback", {**CHAT, "contentId": content_id})
    ending = time.monotonic() + SECONDS
    while not until():
        assert time.monotonic() < ending, "the rollback does not come so far"
    os.kill(server.pid, signal.SIGKILL)
    server.process.wait()
    second = opened(start_server, project)
    found = second.result("chat/open", CHAT)
    if tree(project) == after and found["found"]:  # it had not begun
        second.result("chat/rollback", {**CHAT, "contentId": content_id})
    assert tree(project) == before
    assert not list(project.rglob("*.tmp"))
    assert second.result("chat/list")["chats"] == []
    told = [each for each in second.seen if each.get("method") == "$/showMessage"]
    return [each["params"]["message"] for each in told]


def test_a_rollback_that_was_killed_is_finished_by_the_next_server(start_server, tmp_path):
    told: list[str] = []
    for files in (8, 40):  # a machine that is busy may come too late for few
        project = tmp_path / f"of {files} files"
        project.mkdir()
        last = project / "moved" / f"{files - 1}"
        told = told or kill_and_look(
            start_server, project, lambda last=last: not last.exists(), files=files
        )
    assert told == ["An interrupted rollback was finished."]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_a_rollback_may_be_killed_at_any_moment(start_server, tmp_path, seed):
    ending = math.inf

    def is_late() -> bool:
        nonlocal ending
        ending = min(ending, time.monotonic() + random.Random(seed).uniform(0, 0.2))
        return time.monotonic() > ending

    kill_and_look(start_server, tmp_path / "project", is_late, files=20)
