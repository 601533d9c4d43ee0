"""Agents that others made: with the official SDK, and our own bridge as an agent of ours."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from eca_protocol.server.roots import uri_of
from tests.eca_server.agent.acp.chatting import MODEL, approve, of_type, since, turn
from tests.eca_server.agent.chat.current import CURRENT
from tests.eca_server.agent.chat.editor import editor, text

pytestmark = pytest.mark.trio

OFFICIAL = Path(__file__).with_name("official_agent.py")


async def test_an_agent_of_the_official_sdk_edits_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    command = [sys.executable, str(OFFICIAL)]
    config = {"providers": {"robot": {"api": "acp", "command": command}}}
    async with editor(config, started=False) as ours:
        folders = [{"name": "w", "uri": uri_of(tmp_path)}]
        await ours.start(capabilities=CURRENT, workspaceFolders=folders)
        await ours.send(ours.prompt_request(str(file), model=MODEL))
        call = await approve(ours)
        assert call["details"]["diff"].splitlines()[-1] == "+more"
        assert (await approve(ours))["arguments"]["command"] == f"cat {file}"
        await ours.expect_finished()
        got = since(ours, 0)
        assert file.read_text() == "one\nmore\n"
        assert of_type(got, "toolCalled")[-1]["outputs"][0]["text"] == "one\nmore\n"
        assert text(got) == "finished"
        assert [c["text"] for c in of_type(got, "reasonText")] == ["let me see"]


async def test_our_own_bridge_is_an_agent(tmp_path: Path) -> None:
    settings = '{"defaultModel": "simulator/script"}'
    run = f"import os; os.environ.update(HOME={str(tmp_path)!r}, ECA_CONFIG={settings!r}); "
    run += (
        "import sys; sys.argv[1:] = ['acp']; import eca_server.__main__; eca_server.__main__.main()"
    )
    config = {"providers": {"robot": {"api": "acp", "command": [sys.executable, "-c", run]}}}
    async with editor(config, started=False) as ours:
        folders = [{"name": "w", "uri": uri_of(tmp_path)}]
        await ours.start(capabilities=CURRENT, workspaceFolders=folders)
        assert text(await turn(ours, "think hm\nsay one two")) == "one two"
        new = tmp_path / "new.txt"
        script = f'call eca_write_file {{"path": "{new}", "content": "x"}}'
        await ours.send(ours.prompt_request(script, model=MODEL))
        call = await approve(ours)
        assert call["details"]["linesAdded"] == 1
        await ours.expect_finished()
        assert new.read_text() == "x"
