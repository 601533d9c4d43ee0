"""The agent for an editor: the real process, a file on the disk, approvals on the wire."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.eca_server.conftest import Start
from tests.eca_server.stranger import Stranger, content_of, is_finished, text_of

CHANGE = {"path": "a.txt", "original_content": "two", "new_content": "2"}
SCRIPT = f"call eca_edit_file {json.dumps(CHANGE)}\nsay went on"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "a.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"one\r\ntwo\r\nthree")
    path.chmod(0o755)
    return path


@pytest.fixture
def agent(start_server: Start, file: Path) -> Stranger:
    server = start_server()
    server.initialize(workspaceFolders=[{"name": "project", "uri": file.parent.as_uri()}])
    return server


def request_change(server: Stranger) -> tuple[str, dict[str, Any]]:
    """Prompt for the change, and return the chat's id and the call that needs approval."""
    chat = server.prompt(SCRIPT)
    runs = [m for m in server.seen if content_of(m).get("type") == "toolCallRun"]
    run = (
        runs[-1] if runs else server.until(lambda m: content_of(m).get("type") == "toolCallRun")[-1]
    )
    call = dict(content_of(run))
    assert call["manualApproval"] is True
    return chat, call


def ending(server: Stranger) -> list[Any]:
    return server.expect_finished()


@pytest.mark.requirement("TOOL-13")
def test_an_approved_edit_changes_the_file_as_its_diff_shows(agent, file):
    chat, call = request_change(agent)
    assert "-two" in call["details"]["diff"]
    assert "+2" in call["details"]["diff"]
    assert b"two" in file.read_bytes()
    agent.approve(call, chat=chat)
    rest = ending(agent)
    assert file.read_bytes() == b"one\r\n2\r\nthree"
    assert file.stat().st_mode & 0o777 == 0o755
    (called,) = [content_of(m) for m in rest if content_of(m).get("type") == "toolCalled"]
    assert called["details"] == call["details"]
    assert text_of(rest) == "went on"


@pytest.mark.requirement("TOOL-18", "TOOL-19")
def test_a_rejected_edit_leaves_the_file_and_the_turn_continues(agent, file):
    before = file.read_bytes()
    chat, call = request_change(agent)
    agent.reject(call, chat=chat)
    rest = ending(agent)
    assert file.read_bytes() == before
    assert [content_of(m)["reason"] for m in rest if "reason" in content_of(m)] == ["user-choice"]
    assert text_of(rest) == "went on"


def test_an_edit_of_a_file_that_changed_while_it_waited_is_refused(agent, file):
    chat, call = request_change(agent)
    file.write_text("two, by somebody else")
    agent.approve(call, chat=chat)
    rest = ending(agent)
    (called,) = [content_of(m) for m in rest if content_of(m).get("type") == "toolCalled"]
    assert called["error"] is True
    assert "changed" in called["outputs"][0]["text"]
    assert file.read_text() == "two, by somebody else"


@pytest.mark.requirement("W-30d", "W-31a")
def test_in_plan_an_edit_is_refused_without_a_question(agent, file):
    before = file.read_bytes()
    agent.tell("chat/selectedBehaviorChanged", {"behavior": "plan"})
    begun = len(agent.seen)
    agent.prompt(SCRIPT)
    if not any(map(is_finished, agent.seen)):
        ending(agent)
    contents = [content_of(message) for message in agent.seen[begun:]]
    (rejected,) = [each for each in contents if each.get("type") == "toolCallRejected"]
    assert rejected["reason"] == "user-config"
    assert not any(each.get("manualApproval") for each in contents)
    assert text_of(agent.seen[begun:]) == "went on"
    assert file.read_bytes() == before


def shut_down(server: Stranger) -> None:
    server.result("shutdown")
    server.tell("exit")


ENDS = {
    "shutdown": shut_down,
    "exit": lambda server: server.tell("exit"),
    "end-of-input": Stranger.close_input,
    "SIGTERM": lambda server: server.process.send_signal(signal.SIGTERM),
    "SIGHUP": lambda server: server.process.send_signal(signal.SIGHUP),
}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.long(but=3)
@pytest.mark.parametrize("end", ENDS)
def test_no_child_outlives_the_server(agent, file, end):
    command = "trap '' TERM; sleep 100 & echo $! > pid.new; mv pid.new pid; wait"
    chat = agent.prompt(f"call eca_shell_command {json.dumps({'command': command})}")
    runs = [m for m in agent.seen if content_of(m).get("type") == "toolCallRun"]
    run = runs[0] if runs else agent.until(lambda m: content_of(m).get("type") == "toolCallRun")[-1]
    agent.tell("chat/toolCallApprove", {"chatId": chat, "toolCallId": content_of(run)["id"]})
    noted = file.parent / "pid"
    deadline = time.monotonic() + 5
    while not noted.exists():
        assert time.monotonic() < deadline
        agent.settle()
    pid = int(noted.read_text())
    assert is_alive(pid)
    ENDS[end](agent)
    agent.exit_code(within=3)
    assert not is_alive(pid)
