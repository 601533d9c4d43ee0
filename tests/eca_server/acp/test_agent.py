"""The ACP agent: sessions, prompts, permissions, cancellation, settings, errors."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_protocol.acp import messages as m
from eca_protocol.client import Client
from eca_protocol.errors import RequestFailed, RPCError
from eca_protocol.messages.marks import UnknownValue
from eca_protocol.methods import CHAT_OPEN
from eca_server.acp.blocks import message_of
from tests.eca_server.acp.bench import editing

SCRIPT = json.dumps({"defaultModel": "simulator/script"})


async def test_a_request_for_permission_shows_the_whole_command(tmp_path: Path) -> None:
    config = {"defaultModel": "simulator/script", "toolCall": {"approval": {"byDefault": "ask"}}}
    command = f"echo {'a ' * 100}; echo `echo end`"
    async with editing(tmp_path, json.dumps(config)) as editor:
        session = await editor.new()
        call = json.dumps({"command": command})
        await editor.prompt(session.session_id, f"call eca_shell_command {call}")
        (permission,) = editor.of(m.RequestPermissionRequest)
        assert [each.content.text for each in permission.tool_call.content] == [
            f"```sh\n{command}\n```"
        ]
        shown = [each.content.text for each in editor.of(m.ToolCallUpdate)[-1].content]
        assert command in shown[0]
        assert "end" in shown[1]


async def test_a_cancelled_request_for_permission_cancels_its_prompt(tmp_path: Path) -> None:
    config = {"defaultModel": "simulator/script", "toolCall": {"approval": {"byDefault": "ask"}}}
    async with editing(tmp_path, json.dumps(config), choice="cancelled") as editor:
        session = (await editor.new()).session_id
        calls = [f"call eca_shell_command {json.dumps({'command': each})}" for each in ("a", "b")]
        assert await editor.prompt(session, "\n".join(calls)) == "cancelled"
        assert len(editor.of(m.RequestPermissionRequest)) == 1
        assert await editor.prompt(session, "say more") == "end_turn"


@pytest.mark.parametrize(
    ("tool", "arguments", "is_offered"),
    [
        ("shell_command", {"command": "make x"}, True),
        ("shell_command", {"command": "python3 x.py"}, False),
        ("write_file", {"path": "inside.txt", "content": "x"}, True),
        ("write_file", {"path": "../outside.txt", "content": "x"}, False),
        ("write_file", {"path": ".git/hooks/pre-commit", "content": "x"}, False),
        ("read_file", {"path": "../outside.txt"}, False),
    ],
)
async def test_the_session_is_offered_where_it_has_an_effect(tmp_path, tool, arguments, is_offered):
    (tmp_path / "outside.txt").write_text("text")
    (work := tmp_path / "work").mkdir()
    async with editing(work, SCRIPT, choice="reject") as editor:
        session = (await editor.new()).session_id
        await editor.prompt(session, f"call eca_{tool} {json.dumps(arguments)}")
        (permission,) = editor.of(m.RequestPermissionRequest)
        kinds = [option.kind for option in permission.options]
        assert kinds == ["allow_once", *["allow_always"] * is_offered, "reject_once"]


@pytest.mark.parametrize(
    ("outcome", "choice"),
    [
        (UnknownValue("undecided"), "allow"),
        ("selected", "always"),
        ("selected", "allow_session"),  # python3 was not offered for the session
    ],
)
async def test_an_answer_that_selects_no_offered_option_rejects_the_call(tmp_path, outcome, choice):
    async with editing(tmp_path, SCRIPT, choice=choice) as editor:
        editor.outcome = outcome
        session = (await editor.new()).session_id
        call = json.dumps({"command": 'python3 -c \'open("made", "w")\''})
        await editor.prompt(session, f"call eca_shell_command {call}")
        assert editor.of(m.ToolCallUpdate)[-1].status == "failed"
        assert not (tmp_path / "made").exists()


async def test_a_request_for_permission_holds_up_no_other_call(tmp_path: Path) -> None:
    (tmp_path / "here.txt").write_text("text")
    async with editing(tmp_path, SCRIPT, choice=None) as editor:
        session = (await editor.new()).session_id
        calls = (
            'call eca_read_file {"path": "here.txt"}\ncall eca_shell_command {"command": "a; b"}'
        )
        call = editor.start_prompt(session, calls)
        with trio.fail_after(10):
            while "completed" not in {update.status for update in editor.of(m.ToolCallUpdate)}:
                await trio.sleep(0.005)
        assert len(editor.of(m.RequestPermissionRequest)) == 1
        editor.peer.notify("session/cancel", m.SessionReference(session_id=session))
        assert (await call.result(deadline=5)).stop_reason == "cancelled"


async def test_the_calls_of_a_subagent_are_asked_about(tmp_path: Path) -> None:
    async with editing(tmp_path, SCRIPT) as editor:
        session = (await editor.new()).session_id
        task = {
            "agent": "general",
            "activity": "x",
            "task": 'call eca_shell_command {"command": "a; b"}',
        }
        assert (
            await editor.prompt(session, f"call eca_spawn_agent {json.dumps(task)}") == "end_turn"
        )
        (permission,) = editor.of(m.RequestPermissionRequest)
        assert permission.session_id == session
        assert permission.tool_call.raw_input == {"command": "a; b"}


async def test_a_change_that_is_too_long_to_be_shown_says_so(tmp_path: Path) -> None:
    config = {"toolCall": {"approval": {"byDefault": "ask"}, "outputTruncation": {"sizeKb": 1}}}
    call = {"path": str(tmp_path / "new.txt"), "content": "line\n" * 1000}
    async with editing(
        tmp_path, json.dumps({"defaultModel": "simulator/script", **config}), choice="reject"
    ) as editor:
        session = await editor.new()
        await editor.prompt(session.session_id, f"call eca_write_file {json.dumps(call)}")
        (permission,) = editor.of(m.RequestPermissionRequest)
        diff, note = permission.tool_call.content
        assert len(diff.new_text) < 1100
        assert "bytes left out" in note.content.text


async def test_a_change_that_changes_nothing_is_shown(tmp_path: Path) -> None:
    (tmp_path / "same.txt").write_text("x")
    call = {"path": str(tmp_path / "same.txt"), "content": "x"}
    async with editing(tmp_path, SCRIPT) as editor:
        session = await editor.new()
        script = f"call eca_write_file {json.dumps(call)}"
        assert await editor.prompt(session.session_id, script) == "end_turn"
        assert editor.of(m.ToolCallUpdate)[-1].status == "completed"


async def test_a_command_selects_also_after_the_editor_has(tmp_path: Path) -> None:
    config = {"defaultModel": "simulator/script", "toolCall": {"approval": {"byDefault": "allow"}}}
    async with editing(tmp_path, json.dumps(config)) as editor:
        session = (await editor.new()).session_id
        await editor.call(
            "session/set_mode", m.SetSessionModeRequest(session_id=session, mode_id="code")
        )
        chosen = m.SetSessionConfigOptionRequest(
            session_id=session, config_id="model", value="simulator/script"
        )
        await editor.call("session/set_config_option", chosen)
        await editor.prompt(session, "/agent plan")
        assert editor.of(m.CurrentModeUpdate)[-1].current_mode_id == "plan"
        call = {"path": str(tmp_path / "new.txt"), "content": "x"}
        await editor.prompt(session, f"call eca_write_file {json.dumps(call)}")
        assert not (tmp_path / "new.txt").exists()
        await editor.prompt(session, "/model simulator/echo")
        (model,) = (
            o for o in editor.of(m.ConfigOptionUpdate)[-1].config_options if o.id == "model"
        )
        assert model.current_value == "simulator/echo"
        await editor.prompt(session, "say x")
        assert editor.text().endswith("say x")


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


async def test_a_session_that_is_being_opened_is_closed(tmp_path: Path) -> None:
    async with editing(tmp_path, SCRIPT) as editor:
        session = (await editor.new()).session_id
        await editor.prompt(session, "say hello")
        reference = m.SessionReference(session_id=session)
        load = m.LoadSessionRequest(session_id=session, cwd=str(tmp_path), mcp_servers=())
        await editor.call("session/close", reference)
        loading = editor.peer.start_call("session/load", load)
        await editor.call("session/close", reference)
        with pytest.raises(RPCError, match="closed before it was open"):
            await loading.result(deadline=20)
        await editor.call("session/load", load)


REOPENINGS = {"session/load": m.LoadSessionRequest, "session/resume": m.ResumeSessionRequest}


async def test_a_loaded_session_shows_nothing_of_a_subagent(tmp_path: Path) -> None:
    task = {"agent": "general", "activity": "x", "task": "think hm\nsay in the subagent"}
    script = f"call eca_spawn_agent {json.dumps(task)}\nsay after it"
    async with editing(tmp_path, SCRIPT) as editor:
        session = (await editor.new()).session_id
        await editor.prompt(session, script)
        await editor.prompt(session, "/compact")
        await editor.call("session/close", m.SessionReference(session_id=session))
        editor.log.clear()
        load = m.LoadSessionRequest(session_id=session, cwd=str(tmp_path), mcp_servers=())
        await editor.call("session/load", load)
        assert editor.text().startswith("after it\n\nThe chat was compacted here")
        assert editor.of(m.AgentThoughtChunk) == []
        assert [chunk.content.text for chunk in editor.of(m.UserMessageChunk)] == [script]


@pytest.mark.parametrize("method", REOPENINGS)
async def test_a_session_that_is_open_again_shows_its_last_usage(
    tmp_path: Path, method: str
) -> None:
    async with editing(tmp_path, SCRIPT) as editor:
        session = (await editor.new()).session_id
        await editor.prompt(session, "usage 40000 2500")
        [*_, last] = editor.of(m.UsageUpdate)
        await editor.call("session/close", m.SessionReference(session_id=session))
        editor.log.clear()
        params = REOPENINGS[method](session_id=session, cwd=str(tmp_path), mcp_servers=())
        await editor.call(method, params)
        assert editor.of(m.UsageUpdate) == [last]
        assert last.used == 42_500


async def test_a_deleted_session_cancels_its_prompt(tmp_path: Path) -> None:
    async with editing(tmp_path, SCRIPT) as editor:
        session = await editor.new()
        call = editor.start_prompt(session.session_id, "say before\nwait forever")
        await editor.wait_for(m.AgentMessageChunk)
        await editor.call("session/delete", m.SessionReference(session_id=session.session_id))
        assert (await call.result(deadline=5)).stop_reason == "cancelled"
        listed = await editor.call("session/list", m.ListSessionsRequest(cwd=str(tmp_path)))
        assert listed.sessions == ()


def test_the_texts_of_a_prompt_do_not_grow_together() -> None:
    link = m.ResourceLink(name="a.py", uri="file:///a.py")
    texts = [
        m.TextContent(text=text) for text in ("context", "", ".env: look at", ", now\n", "please")
    ]
    message, _ = message_of((*texts[:3], link, *texts[3:]))
    assert message == "context\n\n.env: look at @a.py, now\nplease"


async def test_a_link_that_cannot_be_used_does_not_fail_the_prompt(tmp_path: Path) -> None:
    unusable = ["http://[", "file:///" + "x" * 5000, "file:///%ff", "file://other/etc", "file:a"]
    async with editing(tmp_path, SCRIPT) as editor:
        session = await editor.new()
        for uri in unusable:
            blocks = (m.TextContent(text="say x\n"), m.ResourceLink(name="say y", uri=uri))
            request = m.PromptRequest(session_id=session.session_id, prompt=blocks)
            assert (await editor.call("session/prompt", request)).stop_reason == "end_turn", uri


async def test_a_server_that_cannot_start_or_dies_is_a_clear_error(tmp_path: Path) -> None:
    async with editing(tmp_path, command=[sys.executable, "-c", "raise SystemExit(3)"]) as editor:
        with pytest.raises(RPCError, match=r"ECA server did not start.*exit code 3"):
            await editor.new()
        with pytest.raises(RPCError, match="open it first"):
            await editor.prompt("none", "hello")


async def test_a_message_of_the_server_is_shown_once_in_a_prompt(tmp_path: Path) -> None:
    config = json.dumps({"defaultModel": "simulator/script", "toolCall": {"approval": "alow"}})
    async with editing(tmp_path, config) as editor:
        session = await editor.new()
        await editor.prompt(session.session_id, "say hi")
        assert "toolCall.approval: expected" in editor.text().partition("hi")[0]
        before = len(editor.text())
        await editor.prompt(session.session_id, "say again")
        assert editor.text()[before:] == "again"


async def test_what_no_session_can_be_is_refused(tmp_path: Path) -> None:
    async with editing(tmp_path) as editor:
        params = m.NewSessionRequest(cwd=str(tmp_path), mcp_servers=(m.McpServer(name="x"),))
        with pytest.raises(RPCError, match="x has neither command nor url"):
            await editor.call("session/new", params)
        for changes in ({"cwd": "here"}, {"additional_directories": ("/", "here")}):
            relative = m.NewSessionRequest(**{"cwd": "/", "mcp_servers": (), **changes})
            with pytest.raises(RPCError, match="not an absolute path: 'here'"):
                await editor.call("session/new", relative)
        unknown = m.ResumeSessionRequest(session_id="none", cwd=str(tmp_path))
        with pytest.raises(RPCError, match="no such session"):
            await editor.call("session/resume", unknown)


@pytest.mark.parametrize("method", REOPENINGS)
async def test_a_server_that_refuses_to_open_a_chat_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    request = Client.request

    async def refuse(client: Client, row: Any, *params: Any, **options: Any) -> Any:
        if row is CHAT_OPEN:
            raise RequestFailed(-32601, "no method 'chat/open'")
        return await request(client, row, *params, **options)

    monkeypatch.setattr(Client, "request", refuse)
    async with editing(tmp_path) as editor:
        params = REOPENINGS[method](session_id="stored", cwd=str(tmp_path), mcp_servers=())
        with pytest.raises(RPCError, match="the ECA server refused: no method 'chat/open'"):
            await editor.call(method, params)


async def test_the_first_answer_says_that_no_model_is_configured(tmp_path: Path) -> None:
    async with editing(tmp_path) as editor:
        session = (await editor.new()).session_id
        for number in (1, 2):
            await editor.prompt(session, f"hello {number}")
        assert editor.text().count("No model is configured") == 1
        assert editor.text().endswith("hello 1hello 2")


async def test_a_key_is_pasted_after_the_command_as_in_other_editors(tmp_path: Path) -> None:
    async with editing(tmp_path) as editor:
        session = (await editor.new()).session_id
        for text in ("/login groq", "a-planted-key"):
            assert await editor.prompt(session, text) == "end_turn"
        assert "Paste the key of groq" in editor.text()
        assert "Stored the key of groq" in editor.text()
