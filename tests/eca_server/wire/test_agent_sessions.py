"""Whole sessions of an editor, the real process and a scripted model, which may be hostile.

`start_agent` checks each request of these sessions, too: a strict server accepts it.
"""

import pytest

from eca_protocol.testing.provider import chunk, finish, reply
from tests.eca_server.stranger import contents_of, decision, message, text_of
from tests.eca_server.wire.agent_session import ALLOW, calls, ends, order, output_of
from tests.promises import within

MEGABYTE = 2**20
READ, SHELL, WRITE = "eca_read_file", "eca_shell_command", "eca_write_file"


def test_reads_of_one_answer_run_at_once_and_their_results_keep_the_order(start_agent, tmp_path):
    names = [f"{number}.txt" for number in range(8)]
    for name in names:
        (tmp_path / "project" / name).write_text(f"I am {name}\n")
    agent = start_agent(calls(*((READ, {"path": name}) for name in names)))
    happened = order(contents_of(agent.turn()))
    assert happened[-16:] == ["toolCallRunning"] * 8 + ["toolCalled"] * 8
    assert agent.results() == [f"I am {name}" for name in names]


@pytest.mark.requirement("W-23d", "W-34b", "ARROW:chat-tool-call-1", "ARROW:chat-tool-call-8")
def test_an_approval_and_a_stop_in_one_write_leave_nothing_open(start_agent):
    agent = start_agent(calls((SHELL, {"command": "touch made; sleep 60"})))
    agent.send_prompt()
    call = agent.expect_content("toolCallRun", manualApproval=True)
    agent.send(decision("Approve", call), message("chat/promptStop", {"chatId": "c"}))
    with within(2):
        rest = contents_of(agent.expect_finished())
    assert order(rest) in (["toolCallRejected"], ["toolCallRunning", "toolCalled"])
    agent.turn("next")


@pytest.mark.long
def test_of_ten_thousand_calls_a_hundred_are_taken_and_the_user_is_notified(start_agent):
    function = {"name": READ, "arguments": '{"path": "gone"}'}
    made = [{"index": n, "id": f"p{n}", "function": function} for n in range(10_000)]
    hundreds = [made[n : n + 100] for n in range(0, 10_000, 100)]
    pieces = [{"choices": [{"index": 0, "delta": {"tool_calls": each}}]} for each in hundreds]
    agent = start_agent(reply(*map(chunk, pieces), finish("tool_calls")))
    messages = agent.turn(seconds=60)
    assert len(ends(contents_of(messages))) == len(agent.results()) == 100
    note = "The answer contained 10000 tool calls: the ones after the first 100 were dropped."
    assert note in text_of(messages, "system")
    assert agent.resident() < 250 * MEGABYTE


def test_a_native_tool_runs_in_each_spelling_of_its_name(start_agent, tmp_path):
    (tmp_path / "project" / "a.txt").write_text("good")
    names = (READ, "read_file", "eca__read_file")  # the last is that of prompts for upstream
    agent = start_agent(calls(*((name, {"path": "a.txt"}) for name in names)))
    runs = [each for each in contents_of(agent.turn()) if each["type"] == "toolCallRun"]
    assert {each["name"] for each in runs} == {READ}
    assert agent.results() == ["good"] * len(names)


@pytest.mark.long(but=1)
@pytest.mark.requirement("W-6b")
@pytest.mark.parametrize(("size", "stream"), [("100M", 1), ("100M", 2), ("1G", 1)])
def test_a_flood_of_output_takes_no_memory_and_no_large_message(start_agent, size, stream):
    command = f"yes 'a line of a flood' | head -c {size} >&{stream}"
    agent = start_agent(calls((SHELL, {"command": command})), **ALLOW)
    (called,) = ends(contents_of(agent.turn(seconds=60)))
    assert "bytes left out" in output_of(called)
    assert called["error"] is False
    assert agent.results() == [output_of(called)]
    assert agent.resident() < 100 * MEGABYTE
    assert max(agent.largest_frame(), agent.largest_request()) < MEGABYTE
