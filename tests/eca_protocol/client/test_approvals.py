"""Approvals of tool calls and answers to questions: by a function, in short, by hand, or not."""

from typing import Any

import anyio
import pytest

from eca_protocol import messages as m
from eca_protocol.client import Chat, Rejection, session
from eca_protocol.errors import (
    AnswerNeeded,
    ApprovalNeeded,
    DeadlineExceeded,
    LocalProtocolError,
    RequestFailed,
)
from eca_protocol.revisions import Revision
from tests.eca_protocol.client.fake_server import (
    CURRENT,
    ON_A_CLOCK_OF_ITS_OWN,
    FakeServer,
    begun,
    chatting,
    connected,
)
from tests.tasks import run_in

pytestmark = pytest.mark.anyio
NAMES: dict[str, Any] = {"origin": "native", "name": "shell", "server": "eca"}


def call(call_id: str = "1") -> m.ChatToolCallRunContent:
    return m.ChatToolCallRunContent(id=call_id, manual_approval=True, summary="ls", **NAMES)


def rejected(call_id: str = "1") -> m.ChatToolCallRejectedContent:
    return m.ChatToolCallRejectedContent(id=call_id, reason="user-choice", **NAMES)


def calls_on_prompt(server: FakeServer, *ids: str) -> None:
    """Call tools in each turn; finish it when all are answered, or at a stop."""
    waiting: set[str] = set()

    def prompt(params: m.ChatPromptParams) -> m.ChatPromptResponse:
        waiting.update(ids)
        for call_id in ids:
            server.content("c", call(call_id))
        return server.taken(params)

    def answer(params: Any) -> None:
        waiting.discard(params.tool_call_id)
        if not waiting:
            server.finish("c", "done")

    server.on("chat/prompt", prompt)
    server.on("chat/toolCallApprove", answer)
    server.on("chat/toolCallReject", answer)
    server.on("chat/promptStop", lambda _: server.finish("c"))


async def test_without_a_handler_a_waiting_call_raises_at_once_and_stops_the_turn() -> None:
    async with chatting() as (chat, server):
        calls_on_prompt(server, "1")
        with pytest.raises(ApprovalNeeded, match=r"eca/shell \(ls\) needs approval: .*on_approval"):
            await chat.prompt("hi").text()
        await server.until("chat/promptStop")
        with pytest.raises(ApprovalNeeded) as raised:
            async for _ in chat.prompt("hi"):
                pass
        assert raised.value.call == call()
        server.answers_with("next")
        assert await chat.prompt("again").text() == "next"


@pytest.mark.requirement("TOOL-16", "TOOL-17", "TOOL-20")
@pytest.mark.parametrize("decision", ["allow", "allow_session", "reject", Rejection("too risky")])
async def test_a_function_decides_about_each_call(decision: Any) -> None:
    questions: list[m.ChatToolCallRunContent] = []

    def decide(waiting: m.ChatToolCallRunContent) -> Any:
        questions.append(waiting)
        return decision

    async def decide_later(waiting: m.ChatToolCallRunContent) -> Any:
        await anyio.sleep(0)
        return decide(waiting)

    for handler in (decide, decide_later):
        options: dict[str, Any] = {"config": CURRENT, "on_approval": handler}
        async with connected(speaks=Revision.CURRENT, **options) as (client, server):
            calls_on_prompt(server, "1", "2")
            assert await client.chat("c").prompt("hi").text() == "done"
            ids = [each.tool_call_id for each in server.params_of("chat/toolCallReject")]
            saves = [each.save for each in server.params_of("chat/toolCallApprove")]
            reasons = [each.message for each in server.params_of("chat/promptSteer")]
        is_rejection = decision == "reject" or isinstance(decision, Rejection)
        assert ids == (["1", "2"] if is_rejection else [])
        save = "session" if decision == "allow_session" else None
        assert saves == ([] if is_rejection else [save, save])
        assert reasons == (["too risky"] * 2 if isinstance(decision, Rejection) else [])
    assert questions == [call("1"), call("2")] * 2


async def test_a_short_form_decides_even_if_the_turn_is_not_read() -> None:
    async with chatting(on_approval="allow", idle_deadline=5) as (chat, server):
        calls_on_prompt(server, "1", "2")
        turn = await begun(chat.prompt("hi"))
        await server.until("chat/toolCallApprove", 2)
        await chat.prompt("without a reader").start()
        await server.until("chat/toolCallApprove", 4)
        assert await chat.prompt("next").text() == "done"
        assert await turn.text() == "done"


async def test_a_short_form_approves_nothing_after_a_stop() -> None:
    async with connected(on_approval="allow") as (client, server):
        server.on("chat/promptStop", lambda _: (server.content("c", call()), server.finish("c")))
        async with client.chat("c").prompt("hi"):
            pass
        server.answers_with("next")
        assert await client.chat("c").prompt("again").text() == "next"
        assert server.params_of("chat/toolCallApprove") == []


async def test_a_call_that_the_program_answers_itself_is_not_decided_again() -> None:
    def decide(_: m.ChatToolCallRunContent) -> Any:
        pytest.fail("it was answered")

    for handler in (None, decide):
        async with chatting(on_approval=handler) as (chat, server):
            calls_on_prompt(server, "1", "2")
            async for content in chat.prompt("hi"):
                if isinstance(content, m.ChatToolCallRunContent):
                    chat.approve(content.id) if content.id == "1" else chat.reject(content.id)
            assert len(server.params_of("chat/toolCallApprove")) == 1
            assert len(server.params_of("chat/toolCallReject")) == 1


async def test_with_manual_another_task_may_answer_later() -> None:
    async with connected(on_approval="manual") as (client, server):
        calls_on_prompt(server, "1")
        chat = client.chat("c")
        async with anyio.create_task_group() as tasks:
            texts = run_in(tasks, chat.prompt("hi").text)
            await server.until("chat/prompt")
            await anyio.wait_all_tasks_blocked()
            chat.approve("1")
        assert texts == ["done"]
        client.chat("unread").approve("t", save="session")
        late = m.ChatToolCallApproveParams(chat_id="unread", tool_call_id="t", save="session")
        assert (await server.until("chat/toolCallApprove", 2))[1] == late


async def test_a_handler_ends_when_its_call_is_closed_or_its_turn_is_stopped() -> None:
    cancelled = anyio.Event()

    async def decide(_: m.ChatToolCallRunContent) -> Any:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    async with chatting(on_approval=decide) as (chat, server):
        calls_on_prompt(server, "1")
        for stops in (True, False):
            started, cancelled = anyio.Event(), anyio.Event()
            turn = chat.prompt("hi")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(turn.text)
                await started.wait()
                if stops:
                    turn.stop()
                else:
                    server.content("c", rejected())
                    server.finish("c")
            assert cancelled.is_set()
        assert server.params_of("chat/toolCallApprove") == []


async def test_a_failing_handler_fails_the_turn_and_stops_it() -> None:
    def fail(_: m.ChatToolCallRunContent) -> Any:
        raise RuntimeError("my mistake")

    async with connected(on_approval=fail) as (client, server):
        calls_on_prompt(server, "1")
        with pytest.raises(RuntimeError, match="my mistake"):
            await client.chat("c").prompt("hi").text()
        await server.until("chat/promptStop")


async def test_what_is_no_decision_is_refused() -> None:
    async with connected(on_approval=lambda _: True) as (client, server):
        calls_on_prompt(server, "1")
        with pytest.raises(LocalProtocolError, match=r"'allow', .* got True"):
            await client.chat("c").prompt("hi").text()


async def test_a_call_that_was_closed_meanwhile_does_not_wait() -> None:
    async with connected() as (client, server):
        server.sends(call(), rejected())
        contents = [content async for content in client.chat("c").prompt("hi")]
        assert contents == [call(), rejected()]


@pytest.mark.parametrize("handler", [None, "allow"])
async def test_a_call_of_a_subagent_waits_in_its_parent_s_turn(handler: Any) -> None:
    options: dict[str, Any] = {"config": CURRENT, "on_approval": handler}
    async with connected(speaks=Revision.CURRENT, **options) as (client, server):
        received = m.ChatContentReceivedParams(
            chat_id="sub", parent_chat_id="c", role="assistant", content=call()
        )
        server.on("chat/toolCallApprove", lambda _: server.finish("c"))
        server.on("chat/promptStop", lambda _: server.finish("c"))
        turn = await begun(client.chat("c").prompt("hi"))
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                if handler is None:
                    with pytest.raises(ApprovalNeeded):
                        await turn.text()
                else:
                    assert await turn.text() == ""

            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            server.peer.notify("chat/contentReceived", received)
        approvals = server.params_of("chat/toolCallApprove")
        assert [each.chat_id for each in approvals] == ([] if handler is None else ["sub"])


async def test_without_a_handler_a_question_is_refused_and_raises_from_the_turn() -> None:
    question = m.ChatAskQuestionParams(chat_id="c", question="which color?")
    async with connected(speaks=Revision.CURRENT) as (client, server):
        turn = await begun(client.chat("c").prompt("hi"))
        with pytest.raises(RequestFailed, match="-32601"):
            await server.peer.call("chat/askQuestion", question)
        with pytest.raises(AnswerNeeded, match=r"which color.*on_question") as raised:
            await turn.text()
        assert raised.value.question == question
        await server.until("chat/promptStop")


async def test_a_flood_of_questions_is_refused_beyond_a_limit(monkeypatch) -> None:
    monkeypatch.setattr(session, "MAX_RUNNING", 3)
    questions_asked = set()

    async def think(params: m.ChatAskQuestionParams) -> str:
        questions_asked.add(params.question)
        await anyio.sleep_forever()
        return ""

    async with connected(speaks=Revision.CURRENT, on_question=think) as (client, server):
        questions = [m.ChatAskQuestionParams(chat_id="c", question=str(n)) for n in range(5)]
        calls = [server.peer.start_call("chat/askQuestion", each) for each in questions]
        for call in calls[3:]:
            with pytest.raises(RequestFailed, match="3 requests are pending"):
                await call.result(deadline=None)
        assert questions_asked == {"0", "1", "2"}
        assert await client.chat().query_commands()


@ON_A_CLOCK_OF_ITS_OWN
@pytest.mark.parametrize("approval", ["function", "manual", "question"])
async def test_the_time_of_the_user_is_not_the_silence_of_the_server(approval: str) -> None:
    async def think(params: Any) -> Any:
        await anyio.sleep(1000)
        return "allow"

    options: dict[str, Any] = {"on_approval": "manual" if approval == "manual" else think}
    options |= {"on_question": think, "idle_deadline": 100, "speaks": Revision.CURRENT}
    question = m.ChatAskQuestionParams(chat_id="c", question="which color?")
    async with chatting(**options) as (chat, server), anyio.create_task_group() as tasks:
        calls_on_prompt(server, *([] if approval == "question" else ["1"]))
        texts = run_in(tasks, chat.prompt("one").text)
        await server.until("chat/prompt")
        run_in(tasks, chat.prompt("two").text)
        if approval == "question":
            assert (await server.peer.call("chat/askQuestion", question)).answer == "allow"
            server.finish("c", "done")
        elif approval == "manual":
            await think(None)
            chat.approve("1")
        await anyio.sleep(1050 if approval == "function" else 50)
        assert texts == ["done"]
        assert [each.message for each in server.params_of("chat/prompt")] == ["one", "two"]
        tasks.cancel_scope.cancel()


@ON_A_CLOCK_OF_ITS_OWN
@pytest.mark.parametrize("act", [Chat.approve, Chat.reject, lambda chat, _: chat.stop()])
async def test_after_the_decision_the_server_has_to_answer(act: Any) -> None:
    async with chatting(on_approval="manual", idle_deadline=100) as (chat, server):
        calls_on_prompt(server, "1")
        for method in ("chat/promptStop", "chat/toolCallApprove", "chat/toolCallReject"):
            server.on(method, lambda _: None)
        start = anyio.current_time()

        async def decide() -> None:
            await anyio.sleep(500)
            act(chat, "1")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(decide)
            with pytest.raises(DeadlineExceeded):
                await chat.prompt("hi").text()
            assert 600 <= anyio.current_time() - start < 700
