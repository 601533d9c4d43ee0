import contextlib
from typing import Any

import anyio
import pytest

from eca_protocol import messages as m
from eca_protocol.client import Chat
from eca_protocol.client.session import INBOX
from eca_protocol.endpoint import Dialect
from eca_protocol.errors import DeadlineExceeded, LocalProtocolError, RPCError, TurnFailed
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


@pytest.mark.requirement("CHAT-10", "CHAT-22", "CHAT-23")
async def test_a_turn_is_sent_once_gives_what_comes_for_its_chat_and_ends_with_finished() -> None:
    async with connected() as (client, server):
        server.answers_with("Hel", "lo")
        chat = client.chat("c", model="a/b", behavior="plan")
        server.text("another chat", "not mine")
        turn = chat.prompt("one", contexts=[m.FileContext(path="/f")])
        assert [content async for content in turn] == [
            m.ChatProgressContent(state="running", text="w"),
            m.ChatTextContent(text="Hel"),
            m.ChatTextContent(text="lo"),
        ]
        assert turn.response == m.ChatPromptResponse(chat_id="c", model="a/b", status="prompting")
        assert [await turn.text() for _ in range(2)] == ["Hello"] * 2
        with pytest.raises(LocalProtocolError):
            await turn.start()
        with pytest.warns(RuntimeWarning, match="the prompt 'never' was never sent"):
            chat.prompt("never")
        received = chat.prompt("two", model="c/d").contents_with_roles()
        roles = [each.role async for each in received]
        assert roles == ["system", "user", "assistant", "assistant"]
        first, second = server.params_of("chat/prompt")
        assert (first.chat_id, first.model, first.behavior) == ("c", "a/b", "plan")
        assert first.contexts == (m.FileContext(path="/f"),)
        assert (second.chat_id, second.model, second.behavior) == ("c", "c/d", "plan")


@pytest.mark.requirement("TOOL-2")
async def test_the_pieces_of_a_call_s_arguments_are_joined_in_order() -> None:
    async with connected() as (client, server):
        names: dict[str, Any] = {"origin": "native", "name": "f", "server": "eca"}
        server.sends(
            *(
                m.ChatToolCallPrepareContent(id=call_id, arguments_text=piece, **names)
                for call_id, piece in (("1", ""), ("1", '{"path":'), ("2", "{"), ("1", ' "a"}'))
            )
        )
        turn = client.chat("c").prompt("hi")
        so_far = [turn.arguments_texts.get("1") async for _ in turn]
        assert so_far == ["", '{"path":', '{"path":', '{"path": "a"}']
        assert turn.arguments_texts == {"1": '{"path": "a"}', "2": "{"}


@pytest.mark.parametrize("is_answered", [False, True])
async def test_a_prompt_cancelled_before_its_answer_or_in_that_instant_is_stopped_and_separated(
    is_answered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = anyio.Event()

    async def prompt(params: m.ChatPromptParams) -> m.ChatPromptResponse:
        with anyio.CancelScope(shield=True):
            await answer.wait()
        return server.taken(params)

    def cancel_and_settle(result: Any) -> None:
        tasks.cancel_scope.cancel()
        settle(result)

    async with chatting() as (chat, server):
        server.on("chat/prompt", prompt)
        turn = chat.prompt("one")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn.start)
            await server.until("chat/prompt")
            if is_answered:
                call = turn._inbox.call
                settle = call.settle
                monkeypatch.setattr(call, "settle", cancel_and_settle)
                answer.set()
            else:
                tasks.cancel_scope.cancel()
        await server.until("chat/promptStop")
        answer.set()
        server.answers_with("second")
        async with anyio.create_task_group() as tasks:
            texts = run_in(tasks, chat.prompt("two").text)
            await anyio.wait_all_tasks_blocked()
            server.finish("c", "first")
        assert texts == ["second"]
        assert len(server.params_of("chat/prompt")) == 2


async def test_a_turn_that_is_stopped_while_it_waits_is_not_sent_and_stops_no_other() -> None:
    async with chatting() as (chat, server), anyio.create_task_group() as group:
        one = run_in(group, chat.prompt("one").text)
        await server.until("chat/prompt")
        waiting = chat.prompt("two")
        two = run_in(group, waiting.text)
        await anyio.wait_all_tasks_blocked()
        waiting.stop()
        server.finish("c", "first")
        await anyio.wait_all_tasks_blocked()
        assert (one, two) == (["first"], [""])
        stopped = chat.prompt("three")
        stopped.stop()
        with pytest.raises(LocalProtocolError, match="stopped before"):
            await stopped.start()
        server.answers_with("next")
        assert await chat.prompt("four").text() == "next"
        assert server.params_of("chat/promptStop") == []
        assert [each.message for each in server.params_of("chat/prompt")] == ["one", "four"]


async def test_waiting_prompts_are_sent_in_the_order_of_their_start() -> None:
    messages = list("123456789")
    async with chatting() as (chat, server), anyio.create_task_group() as tasks:
        await chat.prompt("0").start()
        for message in messages:
            tasks.start_soon(chat.prompt(message).text)
            await anyio.wait_all_tasks_blocked()
        server.answers_with("fine")
        server.finish("c")
    assert [each.message for each in server.params_of("chat/prompt")[1:]] == messages


@pytest.mark.requirement("W-60f", "W-60g")
async def test_what_comes_behind_the_end_does_no_harm() -> None:
    async with chatting() as (chat, server):
        server.answers_with("x")
        assert await chat.prompt("hi").text() == "x"
        server.content("c", m.ChatUsageContent(session_tokens=7), "system")
        server.finish("c")
        server.content("c", m.ChatMetadataContent(title="Late"), "system")
        assert await chat.prompt("hi").text() == "x"
        assert chat.usage == m.ChatUsageContent(session_tokens=7)
        assert chat.title == "Late"


@pytest.mark.requirement("CHAT-37")
async def test_a_deleted_chat_ends_its_turn_and_may_be_used_until_it_is_made_anew() -> None:
    async with connected(idle_deadline=5) as (client, server):
        chat = client.chat("c", model="a/b", behavior="plan")
        turn = await begun(chat.prompt("hi"))
        await chat.delete()
        assert await turn.text() == ""
        assert server.params_of("chat/delete") == [m.ChatDeleteParams(chat_id="c")]
        server.answers_with("x")
        assert await chat.prompt("again").text() == "x"
        assert client.chat("c", model="c/d") is client.chat("c") is chat
        assert (chat.model, chat.behavior) == ("c/d", "plan")
        await chat.delete()
        other = client.chat("c")
        assert other is not chat
        assert other.usage is None
        with pytest.raises(LocalProtocolError, match="use the new one"):
            await chat.prompt("once more").text()
        assert await other.prompt("hi").text() == "x"
        unnamed = client.chat()
        assert client.chat(unnamed.id) is unnamed is not client.chat()


@ON_A_CLOCK_OF_ITS_OWN
async def test_a_turn_waits_as_long_as_the_one_before_has_something_to_say() -> None:
    async with chatting(idle_deadline=100) as (chat, server):
        await chat.prompt("one").start()
        async with anyio.create_task_group() as tasks:
            texts = run_in(tasks, chat.prompt("two").text)
            for _ in range(6):
                await anyio.sleep(60)
                server.text("c", "more")
            server.answers_with("next")
            server.finish("c")
        assert texts == ["next"]


async def test_a_turn_behind_a_silent_one_is_not_sent() -> None:
    async with connected(idle_deadline=0.02) as (client, server):
        chat = client.chat("c")
        await chat.prompt("one").start()
        with pytest.raises(DeadlineExceeded, match="the next content of the previous turn"):
            await chat.prompt("two").start()
        assert len(server.params_of("chat/prompt")) == 1
        with pytest.raises(DeadlineExceeded):
            await client.chat().prompt("hi").text()


@ON_A_CLOCK_OF_ITS_OWN
@pytest.mark.parametrize("idle_deadline", [600, None, 1])
async def test_a_turn_whose_error_has_no_reason_fails_soon_and_frees_the_chat(
    idle_deadline,
) -> None:
    options: dict[str, Any] = {"speaks": Revision.CURRENT, "config": CURRENT}
    async with connected(**options, idle_deadline=idle_deadline) as (client, server):
        failed = m.ChatPromptResponse(chat_id="c", model="a/b", status="error")
        server.answers("chat/prompt", failed)
        started = anyio.current_time()
        with pytest.raises(TurnFailed, match="status `error`"):
            await client.chat("c").prompt("hi").text()
        assert anyio.current_time() - started <= 10
        server.answers_with("x")
        assert await client.chat("c").prompt("hi").text() == "x"


def writes_until_stopped(server: FakeServer) -> None:
    """Answer each prompt with one text, and finish it with very much when it is stopped."""

    def prompt(params: m.ChatPromptParams) -> m.ChatPromptResponse:
        server.text("c", "one")
        return server.taken(params)

    server.on("chat/prompt", prompt)
    end = ["x" * 100_000] * (2 * INBOX // 100_000)
    server.on("chat/promptStop", lambda _: server.finish("c", *end))


async def turn_stopped_and_read(chat: Chat) -> None:
    turn = await begun(chat.prompt("hi"))
    turn.stop()
    assert len(await turn.text()) > INBOX
    assert turn.stopped
    chat.stop()


async def block_left_early(chat: Chat) -> None:
    async with chat.prompt("hi"):
        pass


async def loop_left_by_break(chat: Chat) -> None:
    turn = chat.prompt("hi")
    async for _ in turn:
        break
    assert turn.stopped


async def loop_with_roles_left_by_break(chat: Chat) -> None:
    async for _ in chat.prompt("hi").contents_with_roles():
        break


async def loop_left_by_an_exception(chat: Chat) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async for _ in chat.prompt("hi"):
            raise ZeroDivisionError


async def text_cancelled(chat: Chat) -> None:
    turn = await begun(chat.prompt("hi"))
    with anyio.move_on_after(0.05) as scope:
        await turn.text()
    assert scope.cancelled_caught


async def loop_body_cancelled(chat: Chat) -> None:
    turn = await begun(chat.prompt("hi"))
    with anyio.move_on_after(0.05) as scope:
        async for _ in turn:
            await anyio.sleep_forever()
    assert scope.cancelled_caught


@pytest.mark.parametrize(
    "leave",
    [
        turn_stopped_and_read,
        block_left_early,
        loop_left_by_break,
        loop_with_roles_left_by_break,
        loop_left_by_an_exception,
        text_cancelled,
        loop_body_cancelled,
    ],
)
async def test_a_turn_that_is_not_read_to_its_end_is_stopped_once(leave: Any) -> None:
    async with chatting() as (chat, server):
        writes_until_stopped(server)
        await leave(chat)
        with anyio.fail_after(5):
            await server.until("chat/promptStop")
            server.answers_with("next")
            assert await chat.prompt("again").text() == "next"
        assert server.params_of("chat/promptStop") == [m.ChatPromptStopParams(chat_id="c")]


async def test_a_prompt_cancelled_behind_a_running_turn_stops_no_other() -> None:
    async with chatting() as (chat, server):
        first = await begun(chat.prompt("one"))
        with anyio.move_on_after(0.05):
            await chat.prompt("two").text()
        server.finish("c", "first")
        assert await first.text() == "first"
        assert len(server.params_of("chat/prompt")) == 1
        assert server.params_of("chat/promptStop") == []


def fails_with(server: FakeServer, text: str, status: m.ChatPromptStatus = "prompting") -> None:
    def prompt(params: m.ChatPromptParams) -> m.ChatPromptResponse:
        server.content("c", m.ChatTextContent(text=params.message), "user")
        server.content("c", m.ChatTextContent(text=text), "system")
        server.finish("c")
        return m.ChatPromptResponse(chat_id="c", model="a/b", status=status)

    server.on("chat/prompt", prompt)


@pytest.mark.parametrize("status", ["prompting", "error"])
async def test_a_text_of_the_server_in_place_of_an_answer_is_an_exception(status: Any) -> None:
    async with chatting(speaks=Revision.CURRENT, config=CURRENT) as (chat, server):
        fails_with(server, "\nNo key for a/b.", status)
        with pytest.raises(TurnFailed, match=r"^No key for a/b\.$"):
            await chat.prompt("hi").text()
        contents = [content async for content in chat.prompt("hi")]
        assert contents == [m.ChatTextContent(text="\nNo key for a/b.")]
        fails_with(server, "All is well.")
        assert await chat.prompt("/doctor").text() == "All is well."  # a command's text


def answers_late(server: FakeServer) -> anyio.Event:
    """Answer the prompt "slow" when the event is set or it is cancelled, and others at once."""
    may_answer = anyio.Event()

    async def answer_late() -> Any:
        await may_answer.wait()
        raise RPCError(-32000, "no")

    def prompt(params: m.ChatPromptParams) -> Any:
        if params.message == "slow":
            return answer_late()
        server.finish("c", params.message)
        return server.taken(params)

    server.on("chat/prompt", prompt)
    return may_answer


async def cancel_prompt(chat: Chat, server: FakeServer) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(chat.prompt("slow").text)
        await server.until("chat/prompt")
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("deadline", [None, 0.05])
async def test_a_refusal_after_the_cancellation_or_the_deadline_frees_the_chat(deadline) -> None:
    async with connected(deadline=deadline or 5, idle_deadline=5) as (client, server):
        answers_late(server)
        chat = client.chat("c")
        if deadline is None:
            await cancel_prompt(chat, server)
        else:
            with pytest.raises(DeadlineExceeded):
                await chat.prompt("slow").text()
            client.deadline = 5
        with anyio.fail_after(5):
            assert await chat.prompt("next").text() == "next"
        assert not client._peer.pending_calls


async def test_a_late_refusal_does_not_end_the_next_turn() -> None:
    async with connected() as (client, server):
        may_refuse = answers_late(server)
        server.peer._endpoint.dialect = Dialect()  # it knows no cancellation
        chat = client.chat("c")
        await cancel_prompt(chat, server)
        server.finish("c")
        await client.chat().query_commands()
        server.on("chat/prompt", server.taken)
        turn = await begun(chat.prompt("next"))
        may_refuse.set()
        await client.chat().query_commands()
        server.finish("c", "fine")
        assert await turn.text() == "fine"
