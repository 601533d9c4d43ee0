"""Agents that others made: with the official SDK, and our own bridge as an agent of ours."""

import sys
from pathlib import Path

import pytest

from tests.eca_server import fork_server
from tests.eca_server.agent.acp.chatting import editor_with, of_type, turn
from tests.eca_server.agent.chat.editor import text

OFFICIAL = Path(__file__).with_name("official_agent.py")


@pytest.mark.long
async def test_an_agent_of_the_official_sdk_edits_a_file(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    async with editor_with((sys.executable, str(OFFICIAL)), tmp_path) as ours:
        got = await turn(ours, str(file), True, True)
        edit, command = of_type(got, "toolCallRun")
        assert edit["details"]["diff"].splitlines()[-1] == "+more"
        assert command["arguments"]["command"] == f"cat {file}"
        assert file.read_text() == "one\nmore\n"
        assert of_type(got, "toolCalled")[-1]["outputs"][0]["text"] == "one\nmore\n"
        assert text(got) == "finished"
        assert [c["text"] for c in of_type(got, "reasonText")] == ["let me see"]


async def test_our_own_bridge_is_an_agent(tmp_path):
    settings = '{"defaultModel": "simulator/script"}'
    variables = (f"HOME={tmp_path}", f"ECA_CONFIG={settings}")
    command = ("env", *variables, *fork_server.command(), "acp")
    async with editor_with(command, tmp_path) as ours:
        assert text(await turn(ours, "think hm\nsay one two")) == "one two"
        new = tmp_path / "new.txt"
        got = await turn(ours, f'call eca_write_file {{"path": "{new}", "content": "x"}}', True)
        assert of_type(got, "toolCallRun")[0]["details"]["linesAdded"] == 1
        assert new.read_text() == "x"
