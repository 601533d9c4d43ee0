"""Handlers that fail: only their turn or request does, with its end on the wire."""

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from eca_protocol import ContextQuery, Prompt, Server, ServerChat, connect
from eca_protocol import messages as m
from eca_protocol.errors import LocalProtocolError, RequestFailed, TurnFailed
from eca_protocol.methods import CHAT_LIST
from eca_protocol.server import chat as chat_module
from tests.tasks import run_in

pytestmark = pytest.mark.anyio


async def await_cancelled(*_: Any) -> Any:
    """Await a task of asyncio that is cancelled, as a library may do."""
    task = asyncio.ensure_future(asyncio.sleep(9))
    task.cancel()
    await task


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancelled_task_that_a_handler_awaits_fails_only_its_turn_or_request(caplog):
    server = Server(name="my server")
    entered, may_end = anyio.Event(), anyio.Event()

    @server.prompt
    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        if prompt.text == "prompt":
            await await_cancelled()
        elif prompt.text == "group":
            results = await asyncio.gather(await_cancelled(), return_exceptions=True)
            raise BaseExceptionGroup("failed", results)
        elif prompt.text == "tool":
            await chat.tool_call("x", {}, run=await_cancelled, approval=False)
        elif prompt.text == "question":
            await chat.say(f"answer: {await chat.ask('Which?')}")
        else:
            entered.set()
            await may_end.wait()
            await chat.say("fine")

    @server.context_query
    async def find(query: ContextQuery) -> list[m.ChatContext]:
        await await_cancelled()
        raise AssertionError

    with anyio.fail_after(10):
        async with (
            connect(server=server, on_question=await_cancelled) as client,
            anyio.create_task_group() as tasks,
        ):
            waited = run_in(tasks, client.chat().prompt("wait").text)
            await entered.wait()
            for text in ("prompt", "group", "tool"):
                with pytest.raises(TurnFailed, match="An internal error ended this turn"):
                    await client.chat().prompt(text).text()
            with pytest.raises(RequestFailed, match="chat/queryContext failed"):
                await client.chat().query_context()
            assert await client.chat().prompt("question").text() == "answer: None"
            may_end.set()
    assert waited == ["fine"]
    assert caplog.text.count("the handler of a prompt failed") == 3
    current = asyncio.current_task()
    assert current.cancelling() == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_stopped_handler_may_await_a_cancelled_task_in_its_cleanup():
    server = Server(name="my server")

    @server.prompt
    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        await chat.say("fine")
        if prompt.text == "wait":
            try:
                await anyio.sleep_forever()
            finally:
                await await_cancelled()

    with anyio.fail_after(10):
        async with connect(server=server) as client:
            chat = client.chat()
            async for content in chat.prompt("wait"):
                if isinstance(content, m.ChatTextContent):
                    break
            assert await chat.prompt("go").text() == "fine"


async def reason_late(chat: ServerChat) -> None:
    async with chat.reasoning() as think:
        pass
    await think("too late")


COST: Any = Decimal("0.01")
WRONG_VALUES: dict[str, Callable[[ServerChat], Any]] = {
    "a cost that is no text": lambda chat: chat.set_usage(1, session_cost=COST),
    "tokens that are no number": lambda chat: chat.set_usage(float("nan")),  # type: ignore[arg-type]
    "a number of a wrong type": lambda chat: chat.set_usage("1"),  # type: ignore[arg-type]
    "a title that is no text": lambda chat: chat.set_title([]),  # type: ignore[arg-type]
    "a content that is not JSON": lambda chat: chat.send(m.ChatURLContent(title="t", url=COST)),
    "a number in place of a text": lambda chat: chat.send(m.ChatURLContent(title=7, url="u")),  # type: ignore[arg-type]
    "the end of the turn": lambda chat: chat.send(m.ChatProgressContent(state="finished", text="")),
    "arguments that are no object": lambda chat: chat.tool_call("x", ["a"]),  # type: ignore[arg-type]
    "a text as the options": lambda chat: chat.ask("Which?", "a.txt"),
    "reasoning behind its block": reason_late,
}


async def test_a_wrong_value_is_an_error_at_its_call_and_leaves_nothing_behind(caplog):
    server = Server(name="サーバー")
    errors: list[Exception] = []

    @server.prompt
    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        for act in WRONG_VALUES.values():
            try:
                outcome = act(chat)
                await (outcome if outcome is not None else anyio.lowlevel.checkpoint())
            except LocalProtocolError as error:
                errors.append(error)
        await chat.say("fine")

    with anyio.fail_after(10):
        async with connect(server=server) as client:
            chat = client.chat()
            assert await chat.prompt("go").text() == "fine"
            assert await chat.prompt("go").text() == "fine"
            types = [each.content.type for each in (await chat.history()).contents]
            chats = (await client.request(CHAT_LIST, m.ChatListParams())).chats
    assert len(errors) == 2 * len(WRONG_VALUES)
    assert types == ["text", "reasonStarted", "reasonFinished", "text"] * 2
    assert [each.title for each in chats] == [None]
    assert "could not be written" not in caplog.text


async def test_a_turn_ends_even_if_its_last_contents_cannot_be_written(monkeypatch, caplog):
    server = Server(name="my server")
    monkeypatch.setattr(chat_module, "_check_content", lambda _: None)

    @server.prompt
    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        if prompt.text == "go":
            chat.set_usage(1, session_cost=COST)
        await chat.say("fine")

    with anyio.fail_after(10):
        async with connect(server=server) as client:
            assert await client.chat("a").prompt("go").text() == "fine"
            assert await client.chat("b").prompt("other").text() == "fine"
            assert await client.chat("a").prompt("go").text() == "fine"
    assert caplog.text.count("a content at the end of a turn could not be written") == 2
