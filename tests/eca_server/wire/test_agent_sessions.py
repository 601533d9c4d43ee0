"""Whole sessions of an editor, the real process and a scripted model."""

from __future__ import annotations

import json
import time

import pytest

from eca_protocol.testing.provider import finish, hang, reply, text, tool_call
from tests.eca_server.stranger import contents_of, decision, message
from tests.eca_server.wire.agent_session import ALLOW, Agent, calls, ends, of_call, order, told

CALL = ["toolCallPrepare", "toolCallRun"]
RAN = [*CALL, "toolCallRunning", "toolCalled"]
REJECTED = [*CALL, "toolCallRejected"]


def shell(command: str) -> tuple[str, dict[str, str]]:
    return "eca_shell_command", {"command": command}


def write(path: str, content: str) -> tuple[str, dict[str, str]]:
    return "eca_write_file", {"path": path, "content": content}


@pytest.mark.requirement(*(f"ARROW:chat-tool-call-{number}" for number in range(1, 14)))
def test_a_call_goes_the_way_of_the_specification_s_diagram(start_agent):
    made = tool_call("eca_shell_command", json.dumps({"command": "echo hello"}))
    agent = start_agent(reply(text("I will "), text("look."), made, finish("tool_calls")))
    agent.send_prompt("say hello")
    asked = agent.expect_content("toolCallRun", manualApproval=True)
    assert [each["text"] for each in agent.contents() if each["type"] == "text"] == [
        "say hello", "I will ", "look.",
    ]  # fmt: skip
    pieces = [each for each in agent.contents() if each["type"] == "toolCallPrepare"]
    assert len(pieces) > 1
    assert {each["name"] for each in pieces} == {"eca_shell_command"}
    assert json.loads("".join(each["argumentsText"] for each in pieces)) == asked["arguments"]
    (first,) = agent.provider.requests
    assert first.body["messages"][-1]["content"].endswith("say hello")
    assert "eca_shell_command" in {each["function"]["name"] for each in first.body["tools"]}
    agent.approve(asked)
    rest = contents_of(agent.expect_finished())
    assert order(rest) == ["toolCallRunning", "toolCalled"]
    assert told(ends(rest)[0]) == "hello\n"
    assert [each["text"] for each in rest if each["type"] == "text"] == ["the end"]
    _, second = agent.provider.requests
    assert [each["role"] for each in second.body["messages"][-3:]] == ["user", "assistant", "tool"]
    assert agent.results() == ["hello\n"]
    assert [each["state"] for each in rest if each["type"] == "progress"][-1] == "finished"


@pytest.mark.requirement("TOOL-1")
def test_reads_of_one_answer_run_at_once_and_their_results_keep_the_order(start_agent, tmp_path):
    names = [f"{number}.txt" for number in range(8)]
    for name in names:
        (tmp_path / "project" / name).write_text(f"I am {name}\n")
    agent = start_agent(calls(*(("eca_read_file", {"path": name}) for name in names)))
    happened = order(contents_of(agent.turn()))
    assert happened[-16:] == ["toolCallRunning"] * 8 + ["toolCalled"] * 8
    assert agent.results() == [f"I am {name}" for name in names]
    assert len(agent.provider.requests) == 2


@pytest.mark.requirement("TOOL-14")
def test_what_is_read_after_a_write_of_the_same_answer_is_what_was_written(start_agent):
    read = ("eca_read_file", {"path": "a"})
    agent = start_agent(calls(read, write("a", "one"), read, write("a", "two"), read), **ALLOW)
    agent.turn()
    before, _, one, _, two = agent.results()
    assert "No such file" in before
    assert (one, two) == ("one", "two")
    assert (agent.folder / "a").read_text() == "two"


def test_chats_ask_side_by_side_and_each_decision_is_its_own_chat_s(start_agent):
    agent = start_agent(*(calls(shell(f"touch {name}")) for name in "abc"))
    asked = {}
    for chat in "abc":
        agent.send_prompt(chat, chat=chat)
        asked[chat] = agent.expect_content("toolCallRun", chat=chat, manualApproval=True)
    agent.approve(asked["a"], chat="b")
    agent.settle()
    assert [path.name for path in agent.folder.iterdir()] == []
    agent.stop(chat="a")
    assert order(contents_of(agent.expect_finished(chat="a"), "a")) == ["toolCallRejected"]
    agent.approve(asked["c"], chat="c")
    assert order(contents_of(agent.expect_finished(chat="c"), "c")) == [
        "toolCallRunning",
        "toolCalled",
    ]
    assert len(of_call(agent.contents("b"), asked["b"])) == 2
    agent.reject(asked["b"], chat="b")
    assert order(contents_of(agent.expect_finished(chat="b"), "b")) == ["toolCallRejected"]
    assert [path.name for path in agent.folder.iterdir()] == ["c"]


@pytest.mark.requirement("W-34a")
def test_a_decision_counts_once_and_only_while_its_call_waits(start_agent):
    writing = tool_call("eca_shell_command", '{"command": "echo one"}')
    agent = start_agent(
        reply(writing, {"wait": "go on"}, finish("tool_calls")), calls(shell("echo two"))
    )
    agent.send_prompt()
    one = agent.expect_content("toolCallPrepare")
    agent.approve(one)  # too early
    agent.settle()
    agent.provider.open("go on")
    agent.expect_content("toolCallRun", manualApproval=True)
    agent.approve({"id": "unknown"}, {"id": ""})
    agent.settle()
    assert of_call(agent.contents(), one) == CALL
    agent.approve(one, one)  # twice in one write
    two = agent.expect_content("toolCallRun", manualApproval=True)
    agent.approve(one)  # late
    agent.settle()
    assert of_call(agent.contents(), two) == CALL
    agent.send(decision("Reject", two), decision("Approve", two))  # the first counts
    agent.expect_finished()
    assert of_call(agent.contents(), one) == RAN
    assert of_call(agent.contents(), two) == REJECTED
    agent.approve(one, two)  # after the turn
    agent.turn()
    assert len(agent.provider.requests) == 4


@pytest.mark.requirement("W-23d", "W-34b")
def test_an_approval_and_a_stop_in_one_write_leave_nothing_open(start_agent):
    agent = start_agent(calls(shell("touch made; sleep 60")))
    agent.send_prompt()
    asked = agent.expect_content("toolCallRun", manualApproval=True)
    agent.send(decision("Approve", asked), message("chat/promptStop", {"chatId": "c"}))
    rest = contents_of(agent.expect_finished(seconds=2))
    assert order(rest) in (["toolCallRejected"], ["toolCallRunning", "toolCalled"])
    agent.turn("next")


def before_the_call_is_whole(agent: Agent) -> None:
    agent.expect_content("toolCallPrepare")


def waiting(agent: Agent) -> None:
    agent.expect_content("toolCallRun", manualApproval=True)
    agent.expect_content("toolCallRun", manualApproval=True)


def approved_and_not_begun(agent: Agent) -> None:
    agent.expect_content("toolCallRun", manualApproval=True)
    agent.approve(agent.expect_content("toolCallRun", manualApproval=True))


def running(agent: Agent) -> None:
    agent.approve(agent.expect_content("toolCallRun", manualApproval=True))
    agent.expect_content("toolCallRunning")
    deadline = time.monotonic() + 5
    while not (agent.folder / "begun").exists():
        assert time.monotonic() < deadline
        agent.settle()


def between_two_requests(agent: Agent) -> None:
    agent.approve(agent.expect_content("toolCallRun", manualApproval=True))
    agent.approve(agent.expect_content("toolCallRun", manualApproval=True))
    agent.provider.until(lambda: len(agent.provider.requests) == 2)


QUICK = shell("echo done")
SLOW = shell("trap '' TERM; touch begun; sleep 60 & wait")
UNFINISHED = reply(tool_call("eca_shell_command", '{"command":'), hang())


@pytest.mark.long(but=2)
@pytest.mark.requirement("W-23a", "W-23g", "TOOL-8", "CHAT-32")
@pytest.mark.parametrize(
    ("script", "reach", "expected"),
    [
        ([UNFINISHED], before_the_call_is_whole, ["toolCallRejected"]),
        ([calls(SLOW, SLOW)], waiting, ["toolCallRejected", "toolCallRejected"]),
        ([calls(SLOW, SLOW)], approved_and_not_begun, ["toolCallRejected", "toolCallRejected"]),
        ([calls(SLOW, SLOW)], running, ["toolCalled", "toolCallRejected"]),
        ([calls(QUICK, QUICK), reply(hang())], between_two_requests, ["toolCalled", "toolCalled"]),
    ],
)
def test_a_stop_closes_what_is_open_in_every_state(start_agent, script, reach, expected):
    agent = start_agent(*script)
    agent.send_prompt()
    reach(agent)
    agent.stop()
    rest = contents_of(agent.expect_finished(seconds=2))
    closing = ends(agent.contents())
    assert [each["type"] for each in closing] == expected
    assert {each.get("reason", "user-choice") for each in closing} == {"user-choice"}
    assert not any(each["type"] == "usage" for each in rest)
    requests = agent.provider.requests
    agent.provider.until(lambda: all(each.answered or each.closed_by_client for each in requests))
    told_so_far = len(agent.seen)
    agent.settle()
    assert len(agent.seen) == told_so_far + 1
    assert [each["text"] for each in contents_of(agent.turn("next")) if each["type"] == "text"][
        1
    ] == "the end"
