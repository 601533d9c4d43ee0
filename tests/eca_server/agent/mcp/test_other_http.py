"""Servers over HTTP of the transport of 2024, without sessions (2026-07-28), or not reached."""

import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from eca_protocol.errors import HTTPError, HTTPTimeout
from eca_protocol.http import HTTPClient, HTTPResponse
from eca_server.agent.mcp import http_transport
from eca_server.agent.mcp.inbox import Inbox
from eca_server.agent.mcp.session import Session
from tests.eca_server.agent.mcp import web
from tests.eca_server.agent.mcp.scripted import STATELESS, error_of
from tests.eca_server.agent.mcp.scripted_server import DECENT, INFO
from tests.tasks import run_in


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
    async with old_server() as old, web.session_at(old.url, type="sse") as session:
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
        assert "status 404" in (await web.fails_to_start(old.url, type="http")).message
        assert "GET" not in old.server.kinds()


async def test_a_different_origin_is_not_used_and_a_url_of_neither_transport_gets_a_hint():
    async with old_server() as old, web.web_server() as other:
        old.place = f"{other.at.url}/message"
        error = await web.fails_to_start(old.url, type="sse")
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

        error = await error_of(web.call(session))
        assert error.kind == "closed"
        assert "stream has ended" in error.message


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
            old.url, type="sse", start_seconds=0.2 if kind == "timeout" else 5
        )
    assert error.kind == kind


DISCOVERY = {
    "supportedVersions": [STATELESS],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
}


async def refuses(exchange: web.Exchange) -> None:
    data = {"supported": [STATELESS]}
    await exchange.error(400, -32022, "Unsupported protocol version", data=data)


@asynccontextmanager
async def stateless(
    revision: str = "auto", **on: Any
) -> AsyncIterator[tuple[web.WebServer, Session]]:
    """Yield a server that refuses the handshake as such servers do, and a session with it."""
    async with web.web_server() as server:
        server.session_id = None
        server.on |= {
            "initialize": refuses,
            "server/discover": lambda e: e.json(e.result(DISCOVERY)),
            "subscriptions/listen": lambda e: e.error(404, -32601, "Method not found"),
            **{name.replace("_", "/"): answer for name, answer in on.items()},
        }
        async with web.session_at(server.url, protocol=revision) as session:
            yield server, session


async def test_a_stateless_server_is_used_in_its_own_revision():
    async with stateless() as (server, session):
        assert session.era.revision == STATELESS
        assert web.text_of(await session.call_tool("grüße", {}, deadline=5)) == "called"
        await server.has_seen("subscriptions/listen")
    (call,) = server.of("tools/call")
    assert not {"GET", "DELETE", "notifications/initialized"} & set(server.kinds())
    assert call.headers["mcp-protocol-version"] == STATELESS
    assert call.headers["mcp-method"] == "tools/call"
    assert call.headers["mcp-name"] == "=?base64?Z3LDvMOfZQ==?="
    meta = call.message["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == STATELESS


async def test_a_server_that_refuses_its_own_revision_at_first_is_asked_once_more():
    async def refuses_once(exchange: web.Exchange) -> None:
        exchange.server.on["server/discover"] = lambda e: e.json(e.result(DISCOVERY))
        await refuses(exchange)

    async with stateless(STATELESS, server_discover=refuses_once) as (server, session):
        assert session.era.revision == STATELESS
        server.on["server/discover"] = refuses
        assert "Unsupported" in (await web.fails_to_start(server.url)).message
    assert server.kinds().count("server/discover") == 3


def tool_with(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def marked(header: Any, kind: str = "string") -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": header}


async def test_arguments_that_a_server_wants_as_headers_are_sent_so():
    marked_tool = tool_with(
        "where",
        region=marked("Region"),
        place={"type": "object", "properties": {"city": marked("City")}},
        count=marked("Count", "integer"),
        dry=marked("Dry", "boolean"),
        absent=marked("Absent"),
    )
    arguments = {"region": "süd", "place": {"city": "Bern"}, "count": 3, "dry": True}
    tools = {"tools": [marked_tool]}
    async with stateless(STATELESS, tools_list=lambda e: e.json(e.result(tools))) as pair:
        server, session = pair
        await session.list_tools()
        await session.call_tool("where", {**arguments, "absent": None}, deadline=5)
        marked_tool["inputSchema"] = {"type": "object"}
        await session.list_tools()
        await session.call_tool("where", arguments, deadline=5)
    first, second = server.of("tools/call")
    sent = {name: text for name, text in first.headers.items() if name.startswith("mcp-param-")}
    assert sent == {
        "mcp-param-region": "=?base64?c8O8ZA==?=",
        "mcp-param-city": "Bern",
        "mcp-param-count": "3",
        "mcp-param-dry": "true",
    }
    assert first.message["params"]["arguments"] == {**arguments, "absent": None}
    assert not any(name.startswith("mcp-param-") for name in second.headers)


GUILTY: list[dict[str, Any]] = [
    {"a": marked("")},
    {"a": marked("two words")},
    {"a": marked(7)},
    {"a": marked("A", "number")},
    {"a": {"type": ["string"], "x-mcp-header": "A"}},
    {"a": marked("Same"), "b": marked("same")},
    {"a": {"type": "array", "items": marked("A")}},
    {"a": {"anyOf": [marked("A"), {"type": "null"}]}},
]


async def test_tools_whose_headers_cannot_be_sent_are_left_out_alone(caplog):
    innocent = tool_with("innocent", **{"x-mcp-header": {"type": "string"}})
    innocent["inputSchema"]["required"] = ["x-mcp-header"]
    guilty = [tool_with(f"guilty{number}", **each) for number, each in enumerate(GUILTY)]
    tools = {"tools": [*guilty, innocent]}
    async with stateless(STATELESS, tools_list=lambda e: e.json(e.result(tools))) as (_, session):
        assert await web.names_of_tools(session) == ["innocent"]
    for tool in guilty:
        assert f"the tool '{tool['name']}' was left out" in caplog.text


async def test_leaving_the_stream_is_the_cancellation():
    async with stateless(STATELESS) as (server, session):
        departure = server.hold("tools/call")
        await web.stop_a_call(server, session)
        with trio.fail_after(5):
            await departure.wait()
        await session.list_tools()
    assert "initialize" not in server.kinds()
    assert "notifications/cancelled" not in server.kinds()


async def test_a_change_is_announced_on_the_stream_of_the_subscription():
    async def listens(exchange: web.Exchange) -> None:
        await exchange.begin_events()
        for name in ("subscriptions/acknowledged", "tools/list_changed"):
            await exchange.event({"jsonrpc": "2.0", "method": f"notifications/{name}"})
        await web.until_left(exchange)

    changed = trio.Event()
    async with stateless(subscriptions_listen=listens) as (_, session):
        session.on_change = lambda what: changed.set()
        with trio.fail_after(5):
            await changed.wait()


@pytest.mark.parametrize(
    "fault",
    [
        HTTPTimeout("connect", 10, "no connection within 10 s"),
        HTTPError("tls", "no connection: the certificate of a hotel"),
        HTTPError("proxy", "no connection by the proxy"),
    ],
)
async def test_a_connection_that_is_never_made_has_sent_nothing_and_may_be_made_later(
    monkeypatch, fault
):
    @contextlib.asynccontextmanager
    async def silent(*_: object, **__: object) -> AsyncIterator[HTTPResponse]:
        raise fault
        yield

    async with web.serving() as (server, session):
        await server.has_seen("GET")  # the handshake is over
        with monkeypatch.context() as patch:
            patch.setattr(HTTPClient, "stream", silent)
            result = await web.call(session)
            assert "the request was not sent: no connection" in web.text_of(result)
            await session.ended.wait()
            assert session.error.kind == "closed"
            assert (await web.fails_to_start(server.url)).kind == "unreachable"


async def test_a_server_that_accepts_no_answers_is_not_read_any_further(monkeypatch):
    monkeypatch.setattr(http_transport, "_CLOGGED", 0)
    accepts = trio.Event()

    async def ask_often(exchange: web.Exchange) -> None:
        await exchange.begin_events()
        for number in range(50):
            await exchange.event({"jsonrpc": "2.0", "id": number, "method": "ping"})
        await exchange.event(exchange.result(DECENT["tools/call"]))

    async def hold(exchange: web.Exchange) -> None:
        await accepts.wait()
        await exchange.text(202)

    async with (
        web.serving({"tools/call": ask_often, "answer": hold}) as (server, session),
        trio.open_nursery() as nursery,
    ):
        results = run_in(nursery, web.call, session)
        await server.has_seen("answer", 16)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert results == []
        accepts.set()
        assert len(await server.has_seen("answer", 50)) == 50
    assert web.text_of(results[0]) == "called"


async def test_other_tasks_get_their_turn_in_a_flood_of_events():
    notice, messages = {"jsonrpc": "2.0", "method": "ping"}, list[Any]()
    inbox = Inbox(linger=1, accept=lambda each: each, ready=trio.lowlevel.checkpoint_if_cancelled)
    inbox.reader, inbox.take = (lambda texts: [json.loads(text) for text in texts]), messages.extend
    counts: list[int] = []

    async def count() -> None:
        counts.append(len(messages))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        for _ in range(100):
            await inbox.deliver(json.dumps(notice).encode())
        assert counts
    assert 0 < counts[0] < len(messages) == 100
    inbox.close()
    await inbox.deliver(json.dumps(notice).encode())
    assert len(messages) == 100
