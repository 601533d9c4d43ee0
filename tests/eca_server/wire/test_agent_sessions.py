"""Whole sessions of an editor, the real process and a scripted model, which may be hostile.

`start_agent` checks each request of these sessions, too: a strict server accepts it.
"""

import pytest

from eca_protocol.testing.provider import chunk, finish, reply
from tests.eca_server.stranger import contents_of, text_of
from tests.eca_server.wire.agent_session import ALLOW, calls, ends, output_of

MEGABYTE = 2**20


@pytest.mark.long
def test_of_ten_thousand_calls_a_hundred_are_taken_and_the_user_is_notified(start_agent):
    function = {"name": "eca_read_file", "arguments": '{"path": "gone"}'}
    made = [{"index": n, "id": f"p{n}", "function": function} for n in range(10_000)]
    hundreds = [made[n : n + 100] for n in range(0, 10_000, 100)]
    pieces = [{"choices": [{"index": 0, "delta": {"tool_calls": each}}]} for each in hundreds]
    agent = start_agent(reply(*map(chunk, pieces), finish("tool_calls")))
    messages = agent.turn(seconds=60)
    assert len(ends(contents_of(messages))) == len(agent.results()) == 100
    note = "The answer contained 10000 tool calls: the ones after the first 100 were dropped."
    assert note in text_of(messages, "system")
    assert agent.resident() < 250 * MEGABYTE


@pytest.mark.long(but=1)
@pytest.mark.requirement("W-6b")
@pytest.mark.parametrize(("size", "stream"), [("100M", 1), ("100M", 2), ("1G", 1)])
def test_a_flood_of_output_takes_no_memory_and_no_large_message(start_agent, size, stream):
    command = f"yes 'a line of a flood' | head -c {size} >&{stream}"
    agent = start_agent(calls(("eca_shell_command", {"command": command})), **ALLOW)
    (called,) = ends(contents_of(agent.turn(seconds=60)))
    assert "bytes left out" in output_of(called)
    assert called["error"] is False
    assert agent.results() == [output_of(called)]
    assert agent.resident() < 100 * MEGABYTE
    assert max(agent.largest_frame(), agent.largest_request()) < MEGABYTE
