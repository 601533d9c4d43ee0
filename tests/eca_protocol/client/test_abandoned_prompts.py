"""Prompts whose caller was cancelled before their answer."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from fake_server import FakeServer, connected

from eca_protocol import messages as m
from eca_protocol.client import Chat
from eca_protocol.endpoint import Dialect
from eca_protocol.errors import DeadlineExceeded, RPCError

pytestmark = pytest.mark.anyio


def answers_late(server: FakeServer) -> anyio.Event:
    """Answer the prompt "slow" when the event is set or it is cancelled, and others at once."""
    may_answer = anyio.Event()

    async def answer_late() -> Any:
        await may_answer.wait()
        raise RPCError(-32000, "no")

    def prompt(params: m.ChatPromptParams) -> Any:
        if params.message == "slow":
            return answer_late()
        server.text("c", params.message)
        server.finish("c")
        return server.taken(params)

    server.on("chat/prompt", prompt)
    return may_answer


async def cancel_prompt(chat: Chat, server: FakeServer) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(chat.prompt("slow").text)
        await server.until("chat/prompt")
        tasks.cancel_scope.cancel()


async def test_a_refusal_after_the_cancellation_frees_the_chat() -> None:
    async with connected(idle_deadline=5) as (client, server):
        answers_late(server)
        chat = client.chat("c")
        await cancel_prompt(chat, server)
        with anyio.fail_after(5):
            assert await chat.prompt("next").text() == "next"
        assert not client._peer.pending_calls


async def test_a_refusal_after_the_deadline_frees_the_chat() -> None:
    async with connected(deadline=0.05, idle_deadline=5) as (client, server):
        answers_late(server)
        chat = client.chat("c")
        with pytest.raises(DeadlineExceeded):
            await chat.prompt("slow").text()
        client.deadline = 5
        with anyio.fail_after(5):
            assert await chat.prompt("next").text() == "next"


async def test_a_late_refusal_does_not_end_the_next_turn() -> None:
    async with connected() as (client, server):
        may_refuse = answers_late(server)
        server.peer._endpoint.dialect = Dialect()  # it knows no cancellation
        chat = client.chat("c")
        await cancel_prompt(chat, server)
        server.finish("c")
        await client.chat().query_commands()
        server.on("chat/prompt", server.taken)
        turn = chat.prompt("next")
        await turn.start()
        may_refuse.set()
        await client.chat().query_commands()
        server.text("c", "fine")
        server.finish("c")
        assert await turn.text() == "fine"
