"""Floods of calls and of output, which cost the real process little memory."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from eca_protocol.testing.provider import Reply, chunk, finish, provider_in_thread, reply
from tests.eca_server.agent.chat.agent_session import ALLOW, calls
from tests.eca_server.agent.chat.editor import provider_config
from tests.eca_server.conftest import Start
from tests.eca_server.models.grammars import GRAMMARS
from tests.eca_server.stranger import Stranger, contents_of, text_of

MEGABYTE = 2**20


def resident(server: Stranger) -> int:
    """Return the most bytes of memory that the process ever had."""
    peak = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{server.pid}/status").read_text())
    assert peak
    return int(peak[1]) * 1024


def turn(start_server: Start, flood: Reply, **config: Any) -> tuple[Stranger, list[Any], Any]:
    """Run a turn with this answer; return the process, its messages and the last request."""
    with provider_in_thread([flood, reply("the end")]) as provider:
        config = provider_config(provider.url, chat={"title": False}, **config)
        server = start_server(env={"ECA_CONFIG": json.dumps(config)})
        server.introduced(server.folder)
        return server, server.turn(seconds=60), provider.requests[-1].body


@pytest.mark.long
def test_of_ten_thousand_calls_a_hundred_are_taken_and_the_user_is_notified(start_server: Start):
    function = {"name": "eca_read_file", "arguments": '{"path": "gone"}'}
    made = [{"index": n, "id": f"p{n}", "function": function} for n in range(10_000)]
    hundreds = [made[n : n + 100] for n in range(0, 10_000, 100)]
    pieces = [{"choices": [{"index": 0, "delta": {"tool_calls": each}}]} for each in hundreds]
    flood = reply(*map(chunk, pieces), finish("tool_calls"))
    server, messages, body = turn(start_server, flood)
    GRAMMARS["openai-chat"](body)
    assert [each["role"] for each in body["messages"]].count("tool") == 100
    assert [each["type"] for each in contents_of(messages)].count("toolCalled") == 100
    note = "The answer contained 10000 tool calls: the ones after the first 100 were dropped."
    assert note in text_of(messages, "system")
    assert resident(server) < 250 * MEGABYTE


@pytest.mark.long(but=1)
@pytest.mark.requirement("W-6b")
@pytest.mark.parametrize(("size", "stream"), [("100M", 1), ("100M", 2), ("1G", 1)])
def test_a_flood_of_output_takes_no_memory_and_no_large_message(
    start_server: Start, size: str, stream: int
):
    command = f"yes 'a line of a flood' | head -c {size} >&{stream}"
    flood = calls(("eca_shell_command", {"command": command}))
    server, messages, body = turn(start_server, flood, **ALLOW)
    (called,) = [each for each in contents_of(messages) if each["type"] == "toolCalled"]
    [output] = called["outputs"]
    assert "bytes left out" in output["text"]
    assert called["error"] is False
    assert body["messages"][-1]["content"] == output["text"]
    assert resident(server) < 100 * MEGABYTE
    assert max(len(json.dumps(each)) for each in (body, *server.received)) < MEGABYTE
