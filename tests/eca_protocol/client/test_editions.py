"""The client in every edition: the detection of the edition, and CURRENT's additions (W-16)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import anyio
import attrs
import pytest
from fake_server import connected

from eca_protocol import messages as m
from eca_protocol.client import Client, session
from eca_protocol.errors import LocalProtocolError, RequestFailed
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision, detect

pytestmark = [pytest.mark.anyio, pytest.mark.requirement]

OCTOBER = m.ConfigUpdatedParams(chat=m.ChatConfig(models=("a/b",)))
CURRENT = m.ConfigUpdatedParams(chat=m.ChatConfig(models=("a/b",), variants=()))


@pytest.mark.requirement("W-16a")
async def test_the_client_introduces_itself_as_one_of_today() -> None:
    raw: list[Any] = []

    async with connected(
        speaks=Revision.CURRENT, definition=lambda _: m.EditorGetDefinitionResponse(status="error")
    ) as (_, server):
        (hello,) = server.params_of("initialize")
        raw.append(server.peer.codec.encode_params("initialize", hello))
    assert detect(raw[0]) is Revision.CURRENT
    assert raw[0]["capabilities"]["codeAssistant"] == {
        "chat": True,
        "rewrite": True,
        "editor": {"definition": True},
        "chatCapabilities": {"askQuestion": False},
    }
    assert "initializationOptions" not in raw[0]


@pytest.mark.requirement("W-16b")
@pytest.mark.parametrize(
    ("speaks", "first", "key"),
    [
        (Revision.R2025_10, OCTOBER, "behavior"),
        (Revision.R2025_10, m.ConfigUpdatedParams(), "behavior"),
        (Revision.CURRENT, CURRENT, "agent"),
    ],
)
async def test_the_first_update_shows_which_edition_is_spoken(
    speaks: Revision, first: m.ConfigUpdatedParams, key: str
) -> None:
    async with connected(speaks=speaks) as (client, server):
        await client.chat_prompt("before", chat_id="c", behavior="plan")
        server.peer.notify("config/updated", first)
        await client.wait_for_config()
        assert client.revision is speaks
        server.peer.notify("config/updated", CURRENT)  # only the first one counts
        await client.chat_query_commands()
        assert client.revision is speaks
        await client.chat_prompt("after", chat_id="c", behavior="plan")
        before, after = server.params_of("chat/prompt")
        assert (before.behavior, before.agent) == ("plan", None)
        assert {"behavior": after.behavior, "agent": after.agent}[key] == "plan"
        assert [after.behavior, after.agent].count(None) == 1


@pytest.mark.requirement("W-16c")
@pytest.mark.parametrize("forced", [Revision.DRAFT, Revision.R2025_09, Revision.CURRENT])
async def test_a_forced_edition_is_announced_and_retained(forced: Revision) -> None:
    async with connected(speaks=forced, revision=forced) as (client, server):
        assert client.revision is forced
        (hello,) = server.params_of("initialize")
        if forced is not Revision.DRAFT:  # its `initializationOptions` may be of any type
            assert hello.initialization_options.protocol_revision == forced.value
            server.peer.notify("config/updated", OCTOBER)
            await client.wait_for_config()
        assert client.revision is forced


NAME = ("name",)
FOLDERS = m.WorkspaceFoldersChangeEvent(added=(m.WorkspaceFolder(uri="u"),))
RANGE = m.Range(start=m.Position(line=1, character=1), end=m.Position(line=1, character=2))
CALLS: list[tuple[str, Callable[[Client], Any], tuple[Any, ...], Any]] = [
    ("chat/queryFiles", lambda c: c.chat_query_files(query="q"), (None, "q"), {"files": ()}),
    ("chat/promptSteer", lambda c: c.chat("c").steer("m"), ("c", "m"), None),
    ("chat/promptSteerRemove", lambda c: c.chat_prompt_steer_remove(chat_id="c"), ("c",), None),
    ("chat/rollback", lambda c: c.chat_rollback(chat_id="c", content_id="1"), ("c", "1", ()), {}),
    ("chat/clear", lambda c: c.chat("c").clear(), ("c", True), {}),
    (
        "chat/addFlag",
        lambda c: c.chat_add_flag(chat_id="c", content_id="1", text="t"),
        ("c", "1", "t"),
        {},
    ),
    ("chat/removeFlag", lambda c: c.chat_remove_flag(chat_id="c", content_id="1"), ("c", "1"), {}),
    ("chat/fork", lambda c: c.chat_fork(chat_id="c", content_id="1"), ("c", "1"), {}),
    (
        "chat/inlinePrompt",
        lambda c: c.chat_inline_prompt(message="m", chat_id="c", source_chat_id="s"),
        ("c", "s", "m", None, None, None, None, ()),
        {"chat_id": "c", "model": "a/b", "status": "prompting"},
    ),
    ("chat/update", lambda c: c.chat("c").update(title="t"), ("c", "t", None), {}),
    ("chat/list", lambda c: c.chat_list(limit=3), (3, None), {"chats": ()}),
    (
        "chat/open",
        lambda c: c.chat_open(chat_id="c", limit=3),
        ("c", 3, None, None),
        {"found": False},
    ),
    ("chat/history", lambda c: c.chat("c").history(before="b"), ("c", None, "b", None), {}),
    (
        "chat/selectedAgentChanged",
        lambda c: c.chat_selected_agent_changed(agent="a", chat_id="c"),
        ("c", "a"),
        None,
    ),
    (
        "chat/selectedModelChanged",
        lambda c: c.chat_selected_model_changed(model="a/b", variant="high"),
        (None, "a/b", "high"),
        None,
    ),
    (
        "completion/inline",
        lambda c: c.completion_inline(doc_text="text", doc_version=0, position=RANGE.start),
        ("text", 0, RANGE.start),
        {"items": ()},
    ),
    (
        "rewrite/prompt",
        lambda c: c.rewrite_prompt(id="1", text="t", prompt="p", range=RANGE),
        ("1", "t", "p", None, RANGE),
        {"status": "prompting"},
    ),
    (
        "workspace/didChangeWorkspaceFolders",
        lambda c: c.workspace_did_change_workspace_folders(event=FOLDERS),
        (FOLDERS,),
        None,
    ),
    ("mcp/connectServer", lambda c: c.mcp_connect_server(name="name"), NAME, None),
    ("mcp/logoutServer", lambda c: c.mcp_logout_server(name="name"), NAME, None),
    ("mcp/enableServer", lambda c: c.mcp_enable_server(name="name"), NAME, None),
    ("mcp/disableServer", lambda c: c.mcp_disable_server(name="name"), NAME, None),
    (
        "mcp/updateServer",
        lambda c: c.mcp_update_server(name="name", command="x", args=("y",)),
        ("name", "x", ("y",), None, None, None),
        {},
    ),
    ("mcp/removeServer", lambda c: c.mcp_remove_server(name="name"), NAME, {"removed": True}),
    ("providers/list", lambda c: c.providers_list(), (), {"providers": ()}),
    (
        "providers/login",
        lambda c: c.providers_login(provider="p", method="m"),
        ("p", "m"),
        {"action": "done"},
    ),
    (
        "providers/loginInput",
        lambda c: c.providers_login_input(provider="p", data={"a_b": "1"}),
        ("p", {"a_b": "1"}),
        {"action": "done"},
    ),
    ("providers/logout", lambda c: c.providers_logout(provider="p"), ("p",), {}),
    ("jobs/list", lambda c: c.jobs_list(), (), {"jobs": ()}),
    ("jobs/kill", lambda c: c.jobs_kill(job_id="1"), ("1",), {"killed": True}),
    ("jobs/readOutput", lambda c: c.jobs_read_output(job_id="1"), ("1",), {"lines": ()}),
]


async def test_each_of_current_s_messages_has_its_method_and_reaches_the_server() -> None:
    async with connected(speaks=Revision.CURRENT, revision=Revision.CURRENT) as (client, server):
        for method, call, _, result in CALLS:
            if result is not None:
                server.answers(method, ECA[method].result(**result))
            outcome = call(client)
            if inspect.isawaitable(outcome):
                await outcome
        await client.chat_query_commands()
        for method, _, values, _ in CALLS:
            (params,) = server.params_of(method)
            assert attrs.astuple(params, recurse=False) == values, method


async def test_an_older_server_is_not_asked_what_it_cannot_know() -> None:
    async with connected() as (client, server):
        client.chat_prompt_steer(chat_id="c", message="m")
        server.peer.notify("config/updated", OCTOBER)
        with pytest.raises(
            LocalProtocolError, match="chat/list: revision 2025-10 has no such method"
        ):
            await client.chat_list()
        client.chat_prompt_steer(chat_id="c", message="m")
        await client.chat_query_commands()
        assert server.params_of("chat/promptSteer") == []


async def test_what_is_of_today_waits_until_it_is_known_who_is_asked() -> None:
    async with connected(speaks=Revision.CURRENT) as (client, server):
        server.answers("chat/list", m.ChatListResponse(chats=()))
        chats: list[Any] = []

        async def list_chats() -> None:
            chats.append(await client.chat_list())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(list_chats)
            tasks.start_soon(client.chat("c").prompt("hi", trust=True).start)
            await anyio.wait_all_tasks_blocked()
            client.chat_selected_model_changed(model="c/d")
            tasks.start_soon(client.chat("d").prompt("hi").start)
            await anyio.wait_all_tasks_blocked()
            assert [method for method, _ in server.received] == ["initialize", "initialized"]
            server.peer.notify("config/updated", CURRENT)
        assert chats == [m.ChatListResponse(chats=())]
        assert {each.trust for each in server.params_of("chat/prompt")} == {True, None}
        assert server.received[2][0] == "chat/selectedModelChanged"


async def test_a_server_that_never_announces_its_edition_is_taken_for_an_older_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "CONFIGURED", 0.01)
    async with connected() as (client, server):
        client.chat_prompt_steer(chat_id="c", message="m")
        with pytest.raises(LocalProtocolError, match="revision 2025-10"):
            await client.chat_list()
        server.peer.notify("config/updated", CURRENT)
        await client.wait_for_config()
        assert await client.chat_query_commands()
        assert server.params_of("chat/promptSteer") == []


async def test_the_server_s_questions_are_answered_by_their_handlers() -> None:
    async def ask(params: m.ChatAskQuestionParams) -> m.ChatAskQuestionResponse:
        return m.ChatAskQuestionResponse(answer=params.question.upper())

    references = m.EditorGetReferencesResponse(status="success", locations=())
    async with connected(
        speaks=Revision.CURRENT, ask_question=ask, references=lambda _: references
    ) as (
        _,
        server,
    ):
        question = m.ChatAskQuestionParams(chat_id="c", question="why")
        answer = await server.peer.call("chat/askQuestion", question)
        assert answer == m.ChatAskQuestionResponse(answer="WHY")
        place = m.EditorGetReferencesParams(uri="file:///a", position=RANGE.start)
        assert await server.peer.call("editor/getReferences", place) == references
        with pytest.raises(RequestFailed, match="-32601"):
            await server.peer.call(
                "editor/getDefinition",
                m.EditorGetDefinitionParams(uri="file:///a", position=RANGE.start),
            )


async def test_a_chat_that_the_server_deletes_ends_its_turn() -> None:
    async with connected(speaks=Revision.CURRENT) as (client, server):
        turn = client.chat("c").prompt("hi")
        await turn.start()
        server.text("c", "half")
        server.peer.notify("chat/deleted", m.ChatDeletedParams(chat_id="c"))
        assert await turn.text() == "half"
        assert client.chat("c") is not turn.chat


async def test_what_is_of_one_chat_changes_nothing_for_the_others() -> None:
    async with connected(speaks=Revision.CURRENT) as (client, server):
        server.peer.notify("config/updated", CURRENT)
        mcp = m.MCPServerUpdatedParams(name="m", status="running", url="http://x")
        server.peer.notify("tool/serverUpdated", mcp)
        scoped = m.ConfigUpdatedParams(chat_id="c", chat=m.ChatConfig(select_model="c/d"))
        server.peer.notify("config/updated", scoped)
        await client.chat_query_commands()
        assert client.selected_model is None
        assert client.tool_servers == {"m": mcp}
        server.peer.notify("tool/serverRemoved", m.ToolServerRemovedParams(name="m"))
        await client.chat_query_commands()
        assert client.tool_servers == {}
