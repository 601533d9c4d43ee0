"""The ACP agent: sessions, prompts, permissions, cancellation, settings, errors."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from eca_protocol.acp import messages as m
from eca_protocol.errors import RPCError
from tests.eca_server.acp.bench import editing

SCRIPT = json.dumps({"defaultModel": "simulator/script"})


async def test_a_selected_model_brings_its_variants(tmp_path: Path) -> None:
    model = {"variants": {"fast": {"speed": 1}}, "reason": False}
    providers = {"p": {"url": "http://127.0.0.1:9/v1", "models": {"m": model, "plain": {}}}}
    config = json.dumps({"defaultModel": "p/plain", "providers": providers})
    async with editing(tmp_path, config) as editor:
        session = await editor.new()
        assert "thought_level" not in {each.id for each in session.config_options or ()}
        params = m.SetSessionConfigOptionRequest(
            session_id=session.session_id, config_id="model", value="p/m"
        )
        changed = await editor.call("session/set_config_option", params)
        (level,) = [each for each in changed.config_options if each.id == "thought_level"]
        assert "fast" in {each.value for each in level.options}


async def test_sessions_are_listed_opened_once_and_deleted_by_their_folders(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    async with editing(tmp_path, SCRIPT) as editor:
        editor.cwd = here
        session = await editor.new()
        await editor.prompt(session.session_id, "say x")
        reference = m.SessionReference(session_id=session.session_id)

        async def listed(cwd: Path | None) -> list[tuple[str, str]]:
            params = m.ListSessionsRequest(cwd=None if cwd is None else str(cwd))
            answer = await editor.call("session/list", params)
            return [(each.session_id, each.cwd) for each in answer.sessions]

        assert await listed(there) == []
        assert (session.session_id, str(here)) in await listed(None)
        await editor.call("session/close", reference)
        assert await listed(here) == [(session.session_id, str(here))]
        params = m.ResumeSessionRequest(session_id=session.session_id, cwd=str(here))
        answers: list[object] = []
        for call in [editor.peer.start_call("session/resume", params) for _ in range(2)]:
            try:
                answers.append(type(await call.result(deadline=20)))
            except RPCError as error:
                answers.append(error.message.endswith("is open"))
        assert set(answers) == {m.SessionState, True}
        assert await editor.prompt(session.session_id, "say more") == "end_turn"
        await editor.call("session/delete", reference)
        assert await listed(here) == []
        with pytest.raises(RPCError, match="not an absolute path"):
            await editor.call("session/list", m.ListSessionsRequest(cwd="here"))


async def test_a_deleted_session_cancels_its_prompt(tmp_path: Path) -> None:
    async with editing(tmp_path, SCRIPT) as editor:
        session = await editor.new()
        call = editor.start_prompt(session.session_id, "say before\nwait forever")
        await editor.wait_for(m.AgentMessageChunk)
        await editor.call("session/delete", m.SessionReference(session_id=session.session_id))
        assert (await call.result(deadline=5)).stop_reason == "cancelled"
        again = (await editor.new()).session_id
        blocks = (m.TextContent(text="say x\n"), m.ResourceLink(name="say y", uri="http://["))
        request = m.PromptRequest(session_id=again, prompt=blocks)  # a link that is no address
        assert (await editor.call("session/prompt", request)).stop_reason == "end_turn"
        await editor.call("session/delete", m.SessionReference(session_id=again))
        listed = await editor.call("session/list", m.ListSessionsRequest(cwd=str(tmp_path)))
        assert listed.sessions == ()


async def test_a_server_that_cannot_start_or_dies_is_a_clear_error(tmp_path: Path) -> None:
    async with editing(tmp_path, command=[sys.executable, "-c", "raise SystemExit(3)"]) as editor:
        with pytest.raises(RPCError, match=r"ECA server did not start.*exit code 3"):
            await editor.new()
        with pytest.raises(RPCError, match="open it first"):
            await editor.prompt("none", "hello")


async def test_what_no_session_can_be_is_refused(tmp_path: Path) -> None:
    async with editing(tmp_path) as editor:
        params = m.NewSessionRequest(cwd=str(tmp_path), mcp_servers=(m.McpServer(name="x"),))
        with pytest.raises(RPCError, match="x has neither command nor url"):
            await editor.call("session/new", params)
        relative = m.NewSessionRequest(cwd="here", mcp_servers=())
        with pytest.raises(RPCError, match="not an absolute path"):
            await editor.call("session/new", relative)
        unknown = m.ResumeSessionRequest(session_id="none", cwd=str(tmp_path))
        with pytest.raises(RPCError, match="no such session"):
            await editor.call("session/resume", unknown)
