"""Unread contents of turns: their size is limited, and no other wait needs their reader."""

from typing import Any

import anyio
import pytest

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.client import Chat, Client, Turn, session
from eca_protocol.client.session import INBOX
from eca_protocol.revisions import Revision
from tests.eca_protocol.client.fake_server import FakeServer, begun, connected

pytestmark = pytest.mark.anyio

PIECE = "x" * 60_000
COUNT = 10 * 2**20 // len(PIECE)
MESSAGE = m.ShowMessageParams(type="info", message="look")
CONFIG = m.ConfigUpdatedParams(chat=m.ChatConfig(models=("a/b",)))


def unread_in(chat: Chat) -> int:
    """Return the size of a chat's unread contents."""
    inbox = chat._queue.inbox
    return 0 if inbox is None else inbox.size


async def long_turn(client: Client, server: FakeServer) -> Turn:
    """Start a turn whose contents exceed the inbox."""
    turn = await begun(client.chat("c").prompt("long"))
    server.finish("c", *[PIECE] * COUNT)
    return turn


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_turn_whose_reader_left_does_not_delay_the_next(leaves: bool) -> None:
    async with connected(idle_deadline=5) as (client, server):
        turn = await long_turn(client, server)
        await anext(aiter(turn))
        await anyio.wait_all_tasks_blocked()
        if leaves:
            await turn.__aexit__(None, None, None)
            assert unread_in(turn.chat) == 0
        server.answers_with("next")
        assert await turn.chat.prompt("again").text() == "next"


async def test_the_arguments_and_details_of_calls_count_in_the_inbox() -> None:
    async with connected() as (client, server):
        chat = client.chat("c")
        turn = await begun(chat.prompt("hi"))
        edit = m.FileChangeDetails(path="/f", diff="x" * 1000, lines_added=1, lines_removed=0)
        arguments = {"path": "/f", "edits": [{"new": "y" * 2000}], "empty": [[]] * 100}
        output = m.ToolCallTextOutput(text="z" * 4000)
        names: dict[str, Any] = {"origin": "native", "id": "1", "name": "n", "server": "s"}
        run = m.ChatToolCallRunContent(arguments=arguments, details=edit, **names)
        server.content("c", run)
        server.content("c", m.ChatToolCalledContent(outputs=(output,), **names))
        await client.chat().query_commands()
        assert 15_000 < unread_in(chat) < 18_000
        server.finish("c")
        assert [content async for content in turn]
        assert unread_in(chat) == 0


async def test_a_full_inbox_makes_the_server_wait_until_it_is_read_or_a_call_is_pending() -> None:
    async with connected() as (client, server):
        turn = await long_turn(client, server)
        with anyio.move_on_after(0.05) as waited:
            await server.peer.transport.drain()
        assert waited.cancelled_caught
        await anyio.wait_all_tasks_blocked()
        assert INBOX < unread_in(turn.chat) < 3 * INBOX
        await client.chat().query_commands()
        assert len(await turn.text()) == COUNT * len(PIECE)


async def content_of_another_chat(client: Client) -> Any:
    return await client.chat("other").prompt("hi").text()


async def event(client: Client) -> Any:
    return await anext(client.events())


async def config(client: Client) -> Any:
    return await client.wait_for_config()


def finish_other_chat(server: FakeServer) -> None:
    server.finish("other", "fine")


@pytest.mark.parametrize(
    ("wait", "send", "result"),
    [
        (content_of_another_chat, finish_other_chat, "fine"),
        (event, lambda server: server.peer.notify("$/showMessage", MESSAGE), MESSAGE),
        (config, lambda server: server.peer.notify("config/updated", CONFIG), CONFIG.chat),
    ],
)
async def test_a_wait_inside_a_turn_does_not_wait_for_its_reader(wait, send, result) -> None:
    async with connected(idle_deadline=5) as (client, server):
        contents = aiter(await long_turn(client, server))
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


async def unanswered(client: Client) -> None:
    await client.request(methods.CHAT_LIST, m.ChatListParams())


@pytest.mark.parametrize("wait", [event, unanswered])
async def test_a_task_that_waits_leaves_the_inbox_a_limit(wait, monkeypatch) -> None:
    monkeypatch.setattr(session, "AWAITED_INBOX", 4 * INBOX)
    options: dict[str, Any] = {"speaks": Revision.CURRENT, "revision": Revision.CURRENT}
    async with connected(**options) as (client, server), anyio.create_task_group() as tasks:
        server.on("chat/list", lambda _: anyio.sleep_forever())
        tasks.start_soon(wait, client)
        turn = await long_turn(client, server)
        with anyio.move_on_after(0.05) as waited:
            await server.peer.transport.drain()
        assert waited.cancelled_caught
        await anyio.wait_all_tasks_blocked()
        assert 4 * INBOX < sum(inbox.size for inbox in client._inboxes) < 6 * INBOX
        assert len(await turn.text()) == COUNT * len(PIECE)
        tasks.cancel_scope.cancel()


async def test_the_shutdown_does_not_wait_for_a_reader(monkeypatch) -> None:
    monkeypatch.setattr(session, "AWAITED_INBOX", 2 * INBOX)
    with anyio.move_on_after(4) as limit:  # the shutdown's own limit is 5 s
        async with connected() as (client, server):
            turn = await long_turn(client, server)
    assert (turn.chat.id, limit.cancel_called) == ("c", False)


async def test_the_chats_of_the_past_are_not_looked_at_before_each_read() -> None:
    async with connected() as (client, server):
        server.answers_with("x")
        for _ in range(3):
            await client.chat().prompt("hi").text()
        last = client.chat().prompt("hi")
        assert await last.text() == "x"
        assert list(client._inboxes) == [last._inbox]
