"""Servers at a URL that are odd in ways of their own, and still served well."""

from __future__ import annotations

import attrs
import pytest
import trio

from eca_server.agent.mcp.messages import TextContent
from tests.eca_server.agent.mcp.scripted_server import DECENT
from tests.eca_server.agent.mcp.web import QUICK, Exchange, session_at, until_left, web_server

CALLED = TextContent(text="called")


async def test_a_stream_of_server_messages_that_never_starts_delays_nothing():
    async with web_server() as server:
        server.on["GET"] = until_left
        timeouts = attrs.evolve(QUICK, headers=0.02)
        async with session_at(server.url, timeouts=timeouts) as session:
            await server.has_seen("GET")
            assert (await session.call_tool("echo", {}, deadline=5)).content == (CALLED,)


async def test_a_login_that_is_wanted_of_a_notification_is_wanted():
    async with web_server() as server:
        server.on["notifications/initialized"] = lambda e: e.text(401)
        async with session_at(server.url) as session:
            with trio.fail_after(5):
                await session.ended.wait()
    assert session.error is not None
    assert session.error.kind == "login"


async def test_a_session_keeps_the_id_that_it_was_opened_with():
    async with web_server() as server:
        server.on["tools/list"] = lambda e: e.json(
            e.result(DECENT["tools/list"]), mcp_session_id="another"
        )
        async with session_at(server.url) as session:
            await session.list_tools()
            await session.call_tool("echo", {}, deadline=5)
        (call,) = server.of("tools/call")
    assert call.headers["mcp-session-id"] == "s1"


@pytest.mark.parametrize("session_id", [None, "caf\xe9"])
async def test_a_session_without_a_usable_id_has_none(session_id: str | None):
    async with web_server() as server:
        server.session_id = session_id
        async with session_at(server.url) as session:
            assert (await session.call_tool("echo", {}, deadline=5)).content == (CALLED,)
        assert not [e for e in server.seen if "mcp-session-id" in e.headers]
        assert "DELETE" not in server.kinds()


async def test_repeated_events_of_a_resumed_stream_are_ignored():
    asked: list[Exchange] = []

    async def breaks(exchange: Exchange) -> None:
        asked.append(exchange)
        await exchange.begin_events()
        await exchange.responder.send(b"id: 1\nretry: 1\ndata:\n\n")

    async def says_all_again(exchange: Exchange) -> None:
        if "last-event-id" not in exchange.headers:
            await exchange.text(405)
            return
        await exchange.begin_events()
        for earlier in server.of("tools/list"):
            await exchange.event(earlier.result({"tools": []}))
        for _ in range(2):
            await exchange.event(asked[0].result(DECENT["tools/call"]))

    async with web_server() as server:
        server.on |= {"tools/call": breaks, "GET": says_all_again}
        async with session_at(server.url) as session:
            await session.list_tools()
            assert (await session.call_tool("echo", {}, deadline=5)).content == (CALLED,)
            assert [tool.name for tool in await session.list_tools()] == ["echo"]
    assert len(asked) == 1
