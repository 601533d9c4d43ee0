"""Servers of the transport of 2024: one stream of events, and a URL for messages."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.session import Session
from tests.eca_server.agent.mcp import web
from tests.eca_server.agent.mcp.scripted_server import DECENT, INFO


class OldServer:
    """A server of the older transport, with one stream."""

    def __init__(self, server: web.WebServer) -> None:
        self.server = server
        self.url = f"{server.at.url}/sse"
        self.stream: web.Exchange
        self.place = "/message?sessionId=1"
        self.silent = frozenset[str]()
        self.over = trio.Event()
        methods = [*DECENT, "notifications/initialized", "notifications/cancelled"]
        server.on = dict.fromkeys(methods, self.take) | {"GET": self.open}

    async def open(self, exchange: web.Exchange) -> None:
        self.stream = exchange
        await exchange.begin_events()
        await exchange.event(self.place, event="endpoint")
        await self.over.wait()

    async def take(self, exchange: web.Exchange) -> None:
        if exchange.request.path != "/message":
            await exchange.text(404, "<html>Cannot POST /sse</html>")
            return
        await exchange.text(202, "Accepted")
        kind = exchange.kind
        if kind in self.silent or kind.startswith("notifications/"):
            return
        result = {**INFO, "protocolVersion": "2024-11-05"} if kind == "initialize" else DECENT[kind]
        await self.stream.event(exchange.result(result))


@asynccontextmanager
async def old_server() -> AsyncIterator[OldServer]:
    async with web.web_server() as server:
        yield OldServer(server)


@asynccontextmanager
async def old_session() -> AsyncIterator[tuple[OldServer, Session]]:
    async with old_server() as old, web.session_at(old.url, transport="sse") as session:
        yield old, session


async def test_a_url_that_refuses_the_first_message_is_tried_as_an_older_server():
    async with old_server() as old:
        async with web.session_at(old.url, headers={"X-Key": "k"}) as session:
            assert session.era.revision == "2024-11-05"
            assert web.text_of(await web.call(session)) == "called"
        first, *rest = old.server.exchanges
        assert (first.kind, first.request.path) == ("initialize", "/sse")
        assert rest[0].kind == "GET"
        assert all(exchange.headers["x-key"] == "k" for exchange in rest)
        assert {e.request.target for e in rest[1:]} == {"/message?sessionId=1"}


async def test_a_configured_transport_is_used_at_once_and_not_changed():
    async with old_session() as (old, session):
        assert web.text_of(await web.call(session)) == "called"
        assert old.server.kinds()[0] == "GET"
        old.server.exchanges.clear()
        assert "status 404" in (await web.fails_to_start(old.url, transport="http")).message
        assert "GET" not in old.server.kinds()


async def test_a_different_origin_is_not_used_and_a_url_of_neither_transport_gets_a_hint():
    async with old_server() as old, web.web_server() as other:
        old.place = f"{other.at.url}/message"
        error = await web.fails_to_start(old.url, transport="sse")
        assert other.exchanges == []
        assert "different origin" in error.message
        other.on["initialize"] = lambda e: e.text(404, "<p>Not here")
        error = await web.fails_to_start(other.url)
    assert error.kind == "start"
    assert "status 404: Not here" in error.message
    assert "/mcp or /sse" in error.message


async def test_the_end_of_the_stream_ends_the_session_and_pending_calls():
    async with old_session() as (old, session), trio.open_nursery() as nursery:
        old.silent = frozenset({"tools/call"})

        @nursery.start_soon
        async def end() -> None:
            await old.server.has_seen("tools/call")
            old.over.set()

        with pytest.raises(MCPError) as raised:
            await web.call(session)
        assert raised.value.kind == "closed"
        assert "stream has ended" in raised.value.message


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda e: e.text(500, "no room"), "status 500: no room"),
        (lambda e: e.responder.reset(), "may have run"),
    ],
)
async def test_a_lost_call_fails_alone_and_is_not_repeated(answer, words):
    async with old_session() as (old, session):
        old.server.on["tools/call"] = answer
        assert words in web.text_of(await web.call(session))
        assert len(old.server.of("tools/call")) == 1
        old.server.on["tools/call"] = old.take
        assert web.text_of(await web.call(session)) == "called"


async def test_a_call_that_is_stopped_is_cancelled():
    async with old_session() as (old, session):
        old.silent = frozenset({"tools/call"})
        call = await web.stop_a_call(old.server, session)
        (cancelled,) = await old.server.has_seen("notifications/cancelled")
    assert cancelled.message["params"]["requestId"] == call.message["id"]


@pytest.mark.parametrize(
    ("what", "answer", "kind"),
    [
        ("GET", lambda e: e.text(401), "login"),
        ("GET", lambda e: e.text(200, "<p>hello", content_type="text/html"), "start"),
        ("GET", lambda e: e.responder.reset(), "start"),
        ("initialize", web.until_left, "timeout"),
    ],
)
async def test_a_stream_that_does_not_start_fails_with_the_reason(what, answer, kind):
    async with old_server() as old:
        old.server.on[what] = answer
        error = await web.fails_to_start(
            old.url, transport="sse", start_seconds=0.2 if kind == "timeout" else 5
        )
    assert error.kind == kind
