"""Waits of a program whose unread turn has a full inbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from fake_server import FakeServer, connected

from eca_protocol import messages as m
from eca_protocol.client import Client, session
from eca_protocol.client.session import INBOX

pytestmark = pytest.mark.anyio

PIECE = "x" * 60_000
COUNT = 10 * 2**20 // len(PIECE)
MESSAGE = m.ShowMessageParams(type="info", message="look")
CONFIG = m.ConfigUpdatedParams(chat=m.ChatConfig(models=("a/b",)))


async def content_of_another_chat(client: Client) -> Any:
    return await client.chat("other").prompt("hi").text()


async def event(client: Client) -> Any:
    return await anext(client.events())


async def config(client: Client) -> Any:
    return await client.wait_for_config()


def finish_other_chat(server: FakeServer) -> None:
    server.text("other", "fine")
    server.finish("other")


@pytest.mark.parametrize(
    ("wait", "send", "result"),
    [
        (content_of_another_chat, finish_other_chat, "fine"),
        (event, lambda server: server.peer.notify("$/showMessage", MESSAGE), MESSAGE),
        (config, lambda server: server.peer.notify("config/updated", CONFIG), CONFIG.chat),
    ],
)
async def test_a_wait_inside_a_turn_does_not_wait_for_its_reader(
    wait: Callable[[Client], Awaitable[Any]], send: Callable[[FakeServer], None], result: Any
) -> None:
    async with connected(idle_deadline=5) as (client, server):
        turn = client.chat("c").prompt("long")
        await turn.start()
        server.text("c", *[PIECE] * COUNT)
        server.finish("c")
        contents = aiter(turn)
        await anext(contents)
        await anyio.wait_all_tasks_blocked()
        results: list[Any] = []

        async def wait_for_result() -> None:
            with anyio.fail_after(5):
                results.append(await wait(client))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for_result)
            await anyio.wait_all_tasks_blocked()
            send(server)
        assert results == [result]
        assert len([each async for each in contents]) == COUNT - 1


async def test_a_task_that_waits_for_events_leaves_the_inbox_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "AWAITED_INBOX", 4 * INBOX)
    async with connected() as (client, server):
        turn = client.chat("c").prompt("long")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(event, client)
            await turn.start()
            server.text("c", *[PIECE] * COUNT)
            server.finish("c")
            with anyio.move_on_after(0.05) as waited:
                await server.peer.transport.drain()
            assert waited.cancelled_caught
            assert 4 * INBOX < client._unread() < 6 * INBOX
            assert len(await turn.text()) == COUNT * len(PIECE)
            tasks.cancel_scope.cancel()
