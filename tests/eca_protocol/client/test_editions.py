"""The client in every edition: the detection of the edition, and CURRENT's additions (W-16)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

import anyio
import pytest
from fake_server import connected

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.client import Chat, session
from eca_protocol.errors import LocalProtocolError, RequestFailed
from eca_protocol.methods import CHAT_LIST, ECA, ClientNotification, ClientRequest
from eca_protocol.revisions import Revision, detect

pytestmark = pytest.mark.anyio

OCTOBER = m.ConfigUpdatedParams(chat=m.ChatConfig(models=("a/b",)))
CURRENT = m.ConfigUpdatedParams(chat=m.ChatConfig(models=("a/b",), variants=()))


@pytest.mark.requirement("W-16a")
async def test_the_client_introduces_itself_as_one_of_today():
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
async def test_the_first_update_shows_which_edition_is_spoken(speaks, first, key):
    async with connected(speaks=speaks) as (client, server):
        await client.chat("c").prompt("before", behavior="plan").start()
        server.peer.notify("config/updated", first)
        await client.wait_for_config()
        assert client.revision is speaks
        server.peer.notify("config/updated", CURRENT)  # only the first one counts
        await client.chat().query_commands()
        assert client.revision is speaks
        await client.chat("d").prompt("after", behavior="plan").start()
        before, after = server.params_of("chat/prompt")
        assert (before.behavior, before.agent) == ("plan", None)
        assert {"behavior": after.behavior, "agent": after.agent}[key] == "plan"
        assert [after.behavior, after.agent].count(None) == 1


@pytest.mark.parametrize("forced", [Revision.DRAFT, Revision.R2025_09, Revision.CURRENT])
async def test_a_forced_edition_is_announced_and_retained(forced):
    async with connected(speaks=forced, revision=forced) as (client, server):
        assert client.revision is forced
        (hello,) = server.params_of("initialize")
        if forced is not Revision.DRAFT:  # its `initializationOptions` may be of any type
            assert hello.initialization_options.protocol_revision == forced.value
            server.peer.notify("config/updated", OCTOBER)
            await client.wait_for_config()
        assert client.revision is forced


FOLDERS = m.WorkspaceFoldersChangeEvent(added=(m.WorkspaceFolder(uri="u"),))
RANGE = m.Range(start=m.Position(line=1, character=1), end=m.Position(line=1, character=2))
Row: TypeAlias = ClientRequest[Any, Any] | ClientNotification[Any]
NAMED = {"name": "name"}
SENT: list[tuple[Row, Any, Any]] = [
    (methods.CHAT_QUERY_FILES, m.ChatQueryFilesParams(query="q"), {"files": ()}),
    (methods.CHAT_PROMPT_STEER_REMOVE, m.ChatPromptSteerRemoveParams(chat_id="c"), None),
    (methods.CHAT_ROLLBACK, m.ChatRollbackParams(chat_id="c", content_id="1"), {}),
    (methods.CHAT_ADD_FLAG, m.ChatAddFlagParams(chat_id="c", content_id="1", text="t"), {}),
    (methods.CHAT_REMOVE_FLAG, m.ChatRemoveFlagParams(chat_id="c", content_id="1"), {}),
    (methods.CHAT_FORK, m.ChatForkParams(chat_id="c", content_id="1"), {}),
    (
        methods.CHAT_INLINE_PROMPT,
        m.ChatInlinePromptParams(message="m", chat_id="c", source_chat_id="s"),
        {"chat_id": "c", "model": "a/b", "status": "prompting"},
    ),
    (methods.CHAT_LIST, m.ChatListParams(limit=3), {"chats": ()}),
    (methods.CHAT_OPEN, m.ChatOpenParams(chat_id="c", limit=3), {"found": False}),
    (methods.CHAT_SELECTED_AGENT_CHANGED, m.ChatSelectedAgentChanged(agent="a", chat_id="c"), None),
    (
        methods.CHAT_SELECTED_MODEL_CHANGED,
        m.ChatSelectedModelChanged(model="a/b", variant="high"),
        None,
    ),
    (
        methods.COMPLETION_INLINE,
        m.CompletionInlineParams(doc_text="text", doc_version=0, position=RANGE.start),
        {"items": ()},
    ),
    (
        methods.REWRITE_PROMPT,
        m.RewritePromptParams(id="1", text="t", prompt="p", range=RANGE),
        {"status": "prompting"},
    ),
    (
        methods.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS,
        m.WorkspaceDidChangeWorkspaceFoldersParams(event=FOLDERS),
        None,
    ),
    (methods.MCP_CONNECT_SERVER, m.MCPConnectServerParams(**NAMED), None),
    (methods.MCP_LOGOUT_SERVER, m.MCPLogoutServerParams(**NAMED), None),
    (methods.MCP_ENABLE_SERVER, m.MCPEnableServerParams(**NAMED), None),
    (methods.MCP_DISABLE_SERVER, m.MCPDisableServerParams(**NAMED), None),
    (methods.MCP_ADD_SERVER, m.MCPAddServerParams(**NAMED, command="x"), {}),
    (methods.MCP_UPDATE_SERVER, m.MCPUpdateServerParams(**NAMED, command="x", args=("y",)), {}),
    (methods.MCP_REMOVE_SERVER, m.MCPRemoveServerParams(**NAMED), {"removed": True}),
    (methods.PROVIDERS_LIST, m.ProvidersListParams(), {"providers": ()}),
    (methods.PROVIDERS_LOGIN, m.ProvidersLoginParams(provider="p", method="m"), {"action": "done"}),
    (
        methods.PROVIDERS_LOGIN_INPUT,
        m.ProvidersLoginInputParams(provider="p", data={"a_b": "1"}),
        {"action": "done"},
    ),
    (methods.PROVIDERS_LOGOUT, m.ProvidersLogoutParams(provider="p"), {}),
    (methods.JOBS_LIST, m.JobsListParams(), {"jobs": ()}),
    (methods.JOBS_KILL, m.JobsKillParams(job_id="1"), {"killed": True}),
    (methods.JOBS_READ_OUTPUT, m.JobsReadOutputParams(job_id="1"), {"lines": ()}),
]
CALLED: list[tuple[Row, Callable[[Chat], Any], Any]] = [
    (
        methods.CHAT_PROMPT_STEER,
        lambda chat: chat.steer("m"),
        m.ChatPromptSteerParams(chat_id="c", message="m"),
    ),
    (methods.CHAT_CLEAR, lambda chat: chat.clear(), m.ChatClearParams(chat_id="c", messages=True)),
    (
        methods.CHAT_UPDATE,
        lambda chat: chat.update(title="t"),
        m.ChatUpdateParams(chat_id="c", title="t"),
    ),
    (
        methods.CHAT_HISTORY,
        lambda chat: chat.history(before="b"),
        m.ChatHistoryParams(chat_id="c", before="b"),
    ),
]


async def test_each_of_current_s_messages_reaches_the_server():
    rows = {row.name for row, *_ in (*SENT, *CALLED)}
    since_current = {
        name
        for name, row in ECA.received_by("server").items()
        if not row.window.written_in(Revision.R2025_10)
    }
    assert rows == since_current
    async with connected(speaks=Revision.CURRENT, revision=Revision.CURRENT) as (client, server):
        for row, params, result in SENT:
            if isinstance(row, ClientRequest):
                server.answers(row.name, row.result(**result))
                assert await client.request(row, params) == row.result(**result)
            else:
                client.notify(row, params)
        for row, call, _ in CALLED:
            if isinstance(row, ClientRequest):
                server.answers(row.name, row.result())
            outcome = call(client.chat("c"))
            if inspect.isawaitable(outcome):
                await outcome
        await client.chat().query_commands()
        for row, params in [*((row, params) for row, params, _ in SENT)] + [
            (row, params) for row, _, params in CALLED
        ]:
            assert server.params_of(row.name) == [params]


async def test_an_older_server_is_not_asked_what_it_cannot_know():
    async with connected() as (client, server):
        client.chat("c").steer("m")
        server.peer.notify("config/updated", OCTOBER)
        with pytest.raises(
            LocalProtocolError, match="chat/list: revision 2025-10 has no such method"
        ):
            await client.request(CHAT_LIST, m.ChatListParams())
        client.chat("c").steer("m")
        await client.chat().query_commands()
        assert server.params_of("chat/promptSteer") == []


async def test_what_is_of_today_waits_until_it_is_known_who_is_asked():
    async with connected(speaks=Revision.CURRENT) as (client, server):
        server.answers("chat/list", m.ChatListResponse(chats=()))
        chats: list[Any] = []

        async def list_chats() -> None:
            chats.append(await client.request(CHAT_LIST, m.ChatListParams()))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(list_chats)
            tasks.start_soon(client.chat("c").prompt("hi", trust=True).start)
            await anyio.wait_all_tasks_blocked()
            client.notify(
                methods.CHAT_SELECTED_MODEL_CHANGED, m.ChatSelectedModelChanged(model="c/d")
            )
            tasks.start_soon(client.chat("d").prompt("hi").start)
            await anyio.wait_all_tasks_blocked()
            assert [method for method, _ in server.received] == ["initialize", "initialized"]
            server.peer.notify("config/updated", CURRENT)
        assert chats == [m.ChatListResponse(chats=())]
        assert {each.trust for each in server.params_of("chat/prompt")} == {True, None}
        assert server.received[2][0] == "chat/selectedModelChanged"


async def test_a_server_that_never_announces_its_edition_is_taken_for_an_older_one(monkeypatch):
    monkeypatch.setattr(session, "CONFIGURED", 0.01)
    async with connected() as (client, server):
        client.chat("c").steer("m")
        with pytest.raises(LocalProtocolError, match="revision 2025-10"):
            await client.request(CHAT_LIST, m.ChatListParams())
        server.peer.notify("config/updated", CURRENT)
        await client.wait_for_config()
        assert await client.chat().query_commands()
        assert server.params_of("chat/promptSteer") == []


async def test_the_server_s_questions_are_answered_by_their_handlers():
    async def ask(params: m.ChatAskQuestionParams) -> str:
        return params.question.upper()

    references = m.EditorGetReferencesResponse(status="success", locations=())
    async with connected(
        speaks=Revision.CURRENT, on_question=ask, references=lambda _: references
    ) as (_, server):
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


async def test_a_chat_that_the_server_deletes_ends_its_turn():
    async with connected(speaks=Revision.CURRENT) as (client, server):
        turn = client.chat("c").prompt("hi")
        await turn.start()
        server.text("c", "half")
        server.peer.notify("chat/deleted", m.ChatDeletedParams(chat_id="c"))
        assert await turn.text() == "half"
        assert client.chat("c") is not turn.chat


async def test_what_is_of_one_chat_changes_nothing_for_the_others():
    async with connected(speaks=Revision.CURRENT) as (client, server):
        server.peer.notify("config/updated", CURRENT)
        mcp = m.MCPServerUpdatedParams(name="m", status="running", url="http://x")
        server.peer.notify("tool/serverUpdated", mcp)
        scoped = m.ConfigUpdatedParams(chat_id="c", chat=m.ChatConfig(select_model="c/d"))
        server.peer.notify("config/updated", scoped)
        await client.chat().query_commands()
        assert client.selected_model is None
        assert client.tool_servers == {"m": mcp}
        server.peer.notify("tool/serverRemoved", m.ToolServerRemovedParams(name="m"))
        await client.chat().query_commands()
        assert client.tool_servers == {}
