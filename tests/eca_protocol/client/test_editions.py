"""The client in every edition: the detection of the edition, and CURRENT's additions (W-16)."""

from typing import Any

import anyio
import pytest

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.client import connect, session
from eca_protocol.errors import DeadlineExceeded, LocalProtocolError, RequestFailed
from eca_protocol.methods import CHAT_LIST
from eca_protocol.revisions import Revision, detect
from eca_protocol.streams import memory_pair
from tests.eca_protocol.client.fake_server import CURRENT, ON_A_CLOCK_OF_ITS_OWN, connected
from tests.eca_protocol.draft.letter import NOTIFICATIONS, REQUESTS, assert_is
from tests.eca_protocol.wire import Wire, notification, success
from tests.tasks import run_in

pytestmark = pytest.mark.anyio

OCTOBER = m.ConfigUpdatedParams(chat=m.ChatConfig(models=("a/b",)))


@pytest.mark.requirement("W-16a")
async def test_the_client_introduces_itself_as_one_of_today():
    definition = m.EditorGetDefinitionResponse(status="error")
    async with connected(speaks=Revision.CURRENT, definition=lambda _: definition) as (_, server):
        (hello,) = server.params_of("initialize")
        raw = server.peer.codec.encode_params("initialize", hello)
    assert detect(raw) is Revision.CURRENT
    assert raw["capabilities"]["codeAssistant"] == {
        "chat": True,
        "rewrite": True,
        "editor": {"definition": True},
        "chatCapabilities": {"askQuestion": False},
    }
    assert "initializationOptions" not in raw


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


CHAT = {"chat_id": "c"}


async def test_the_methods_of_a_chat_reach_a_server_of_today():
    async with connected(speaks=Revision.CURRENT, revision=Revision.CURRENT) as (client, server):
        server.answers("chat/clear", m.ChatClearResponse())
        server.answers("chat/update", m.ChatUpdateResponse())
        server.answers("chat/history", m.ChatHistoryResponse())
        chat = client.chat("c")
        chat.steer("m")
        await chat.clear()
        await chat.update(title="t")
        await chat.history(before="b")
        assert server.received[-4:] == [
            ("chat/promptSteer", m.ChatPromptSteerParams(message="m", **CHAT)),
            ("chat/clear", m.ChatClearParams(messages=True, **CHAT)),
            ("chat/update", m.ChatUpdateParams(title="t", **CHAT)),
            ("chat/history", m.ChatHistoryParams(before="b", **CHAT)),
        ]


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
        async with anyio.create_task_group() as tasks:
            chats = run_in(tasks, client.request, CHAT_LIST, m.ChatListParams())
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


@ON_A_CLOCK_OF_ITS_OWN
async def test_a_client_waits_once_for_an_edition_that_is_never_announced():
    async with connected() as (client, _):
        with pytest.raises(DeadlineExceeded, match=r"on whose edition chat/list depends .*option"):
            await client.request(CHAT_LIST, m.ChatListParams(), deadline=7)
        start = anyio.current_time()
        with pytest.raises(LocalProtocolError, match="revision 2025-10"):
            await client.request(CHAT_LIST, m.ChatListParams(), deadline=7)
        assert anyio.current_time() - start == pytest.approx(session.CONFIGURED - 7)
        with pytest.raises(LocalProtocolError, match="revision 2025-10"):
            await client.request(CHAT_LIST, m.ChatListParams(), deadline=7)
        assert await client.chat("c").prompt("hi", trust=True).start()
        assert anyio.current_time() - start < session.CONFIGURED


async def test_the_deadline_of_a_request_limits_its_wait_for_the_edition():
    async with connected() as (client, server):
        with pytest.raises(DeadlineExceeded, match=r"after 0.02 s .* first config/updated"):
            await client.request(CHAT_LIST, m.ChatListParams(), deadline=0.02)
        client.deadline = 0.02
        with pytest.raises(DeadlineExceeded, match=r"after 0.02 s .* first config/updated"):
            await client.chat("c").prompt("hi", trust=True).text()
        server.peer.notify("config/updated", OCTOBER)
        assert await client.chat("c").prompt("hi", trust=True).start()


OCTOBERS = {"chat/promptStop", "chat/toolCallApprove", "chat/toolCallReject"}
CHANGE = {"type": "fileChange", "description": "Add a line", "manualApproval": True}


async def announce(wire: Wire, content: dict[str, Any], **more: Any) -> None:
    params = {"chatId": "c", "content": content, "isComplete": False, **more}
    await wire.send(notification("chat/contentReceived", params))


async def stranger(wire: Wire) -> None:
    """Serve the draft of June 2025, checking each message against its text; fail on one day."""
    days = iter(["no network today", "sent", "sent"])
    while (message := await wire.receive()) is not None:
        method, params = message["method"], message.get("params")
        if "id" not in message:
            if method not in OCTOBERS:
                assert_is(NOTIFICATIONS[method], params)
            if method == "chat/toolCallApprove":
                await announce(wire, {"type": "text", "text": "Added."}, isComplete=True)
            continue
        assert_is(REQUESTS[method][0], params)
        result = {"initialize": {}, "shutdown": None}.get(method)
        if method == "chat/prompt":
            result_message = next(days)
            status = "success" if result_message == "sent" else "connection-error"
            result = {"chatId": params["chatId"], "status": status, "resultMessage": result_message}
        await wire.send(success(message["id"], result))
        if method == "chat/prompt" and result["status"] == "success":
            await announce(wire, {"type": "text", "text": "I will "})
            await announce(wire, CHANGE)


@pytest.mark.requirement("W-16c")
async def test_a_stranger_s_draft_server_is_spoken_with_by_its_letter() -> None:
    ours, theirs = memory_pair()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stranger, Wire(theirs))
        async with connect(transport=ours, revision=Revision.DRAFT) as client:
            assert await client.wait_for_config() == m.ChatConfig()
            chat = client.chat("c", model="openai/gpt-4")
            with pytest.raises(RequestFailed, match="no network today"):
                await chat.prompt("hi").text()
            contents = []
            async for content in chat.prompt("hi", contexts=[m.WebContext(url="https://x")]):
                contents.append(content.type)
                if isinstance(content, m.ChatToolCallRunContent) and content.manual_approval:
                    assert content.summary == "Add a line"
                    chat.approve(content.id)
            before, after = ["toolCallPrepare", "toolCallRun"], ["toolCallRunning", "toolCalled"]
            assert contents == ["progress", "text", *before, "text", *after]
            with pytest.raises(LocalProtocolError, match="'other/model'"):
                await chat.prompt("hi", model="other/model").text()
            with pytest.raises(LocalProtocolError, match="2025-06"):
                await chat.delete()
        tasks.cancel_scope.cancel()


async def test_the_server_s_questions_are_answered_by_their_handlers(caplog):
    async def ask(params: m.ChatAskQuestionParams) -> Any:
        return 5 if params.question == "odd" else params.question.upper() or None

    references = m.EditorGetReferencesResponse(status="success", locations=())
    options: dict[str, Any] = {"on_question": ask, "references": lambda _: references}
    place: dict[str, Any] = {"uri": "file:///a", "position": m.Position(line=1, character=1)}
    async with connected(speaks=Revision.CURRENT, **options) as (_, server):
        (hello,) = server.params_of("initialize")
        assert hello.capabilities.code_assistant.chat_capabilities.ask_question
        for question, answer in (("why", "WHY"), ("", None)):
            question_params = m.ChatAskQuestionParams(chat_id="c", question=question)
            response = m.ChatAskQuestionResponse(answer=answer, cancelled=answer is None)
            assert await server.peer.call("chat/askQuestion", question_params) == response
        odd = m.ChatAskQuestionParams(chat_id="c", question="odd")
        with pytest.raises(RequestFailed, match="internal error"):
            await server.peer.call("chat/askQuestion", odd)
        assert "on_question: expected a text or None, got 5" in caplog.text
        params = m.EditorGetReferencesParams(**place)
        assert await server.peer.call("editor/getReferences", params) == references
        for method, refused in (
            ("editor/getDefinition", m.EditorGetDefinitionParams(**place)),
            ("editor/getDiagnostics", m.EditorGetDiagnosticsParams()),
        ):
            with pytest.raises(RequestFailed, match="-32601"):
                await server.peer.call(method, refused)


async def test_a_chat_that_the_server_deletes_ends_its_turn():
    async with connected(speaks=Revision.CURRENT) as (client, server):
        turn = client.chat("c").prompt("hi")
        await turn.start()
        server.text("c", "half")
        server.peer.notify("chat/deleted", m.ChatDeletedParams(chat_id="c"))
        assert await turn.text() == "half"
        assert client.chat("c") is not turn.chat


async def test_what_is_of_one_chat_changes_nothing_for_the_others():
    async with connected(speaks=Revision.CURRENT, config=CURRENT) as (client, server):
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
