"""Servers at a URL: what is sent to them, and what is made of every kind of answer."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
import trio
import trio.testing

from tests.eca_server.agent.mcp.scripted_server import INFO
from tests.eca_server.agent.mcp.web import (
    Exchange,
    WebServer,
    call,
    session_at,
    text_of,
    until_left,
    web_server,
)

OK = {"content": [{"type": "text", "text": "ok"}]}
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


async def answers_in_events(exchange: Exchange) -> None:
    await exchange.begin_events()
    await exchange.event("", id="0")
    await exchange.event(exchange.result(OK))
    await until_left(exchange)


async def test_every_request_after_the_handshake_has_the_session_id():
    async with web_server() as server:
        async with session_at(server.url, headers={"X-Team": "red"}) as session:
            assert text_of(await call(session)) == "called"
            await server.has_seen("GET")
        first, *rest = server.seen
    assert first.kind == "initialize"
    assert first.headers["content-type"] == "application/json"
    assert first.headers["accept"] == "application/json, text/event-stream"
    assert "mcp-session-id" not in first.headers
    assert "mcp-protocol-version" not in first.headers
    assert {"notifications/initialized", "GET", "tools/call", "DELETE"} == {e.kind for e in rest}
    for exchange in rest:
        assert exchange.headers["mcp-session-id"] == "s1"
        assert exchange.headers["mcp-protocol-version"] == "2025-11-25"
        assert exchange.headers["x-team"] == "red"


async def test_nothing_overtakes_the_notification_that_ends_the_handshake():
    overtakers: list[str] = []

    async def slowly(exchange: Exchange) -> None:
        await anyio.sleep(0.05)
        overtakers.extend(server.kinds()[2:])
        await exchange.text(202)

    async with web_server() as server:
        server.on["notifications/initialized"] = slowly
        async with session_at(server.url) as session:
            assert [tool.name for tool in await session.list_tools()] == ["echo"]
    assert overtakers == []


async def test_the_headers_of_the_protocol_are_not_the_users():
    mine = {"Content-Type": "text/plain", "Mcp-Session-Id": "mine", "Host": "elsewhere"}
    async with web_server() as server:
        async with session_at(server.url, headers=mine) as session:
            assert text_of(await call(session)) == "called"
        (sent,) = server.of("tools/call")
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["mcp-session-id"] == "s1"
    assert sent.headers["host"].startswith("127.0.0.1")


async def test_an_answer_may_come_as_events_on_a_stream_that_never_ends():
    async with web_server() as server:
        server.on["tools/call"] = answers_in_events
        async with session_at(server.url) as session:
            with trio.fail_after(1):
                assert text_of(await call(session)) == "ok"
                assert text_of(await call(session)) == "ok"


async def test_a_stream_is_left_soon_after_its_answer():
    left = anyio.Event()

    async def answers(exchange: Exchange) -> None:
        try:
            await answers_in_events(exchange)
        finally:
            left.set()

    async with web_server() as server:
        server.on["tools/call"] = answers
        async with session_at(server.url) as session:
            assert text_of(await call(session)) == "ok"
            with trio.fail_after(5):
                await left.wait()


async def test_a_server_may_ask_before_it_answers():
    async def asks_first(exchange: Exchange) -> None:
        await exchange.begin_events()
        await exchange.event({"jsonrpc": "2.0", "id": "r1", "method": "roots/list"})
        (answer,) = await server.has_seen("answer")
        assert answer.message == {"jsonrpc": "2.0", "id": "r1", "result": {"roots": []}}
        await exchange.event(exchange.result(OK))

    async with web_server() as server:
        server.on["tools/call"] = asks_first
        async with session_at(server.url) as session:
            assert text_of(await call(session)) == "ok"


async def test_an_answer_may_arrive_on_the_stream_of_server_messages():
    held: list[Exchange] = []

    async def listens(exchange: Exchange) -> None:
        await exchange.begin_events()
        held.append(exchange)
        await until_left(exchange)

    async def answers_there(exchange: Exchange) -> None:
        await exchange.begin_events()
        await held[0].event(exchange.result(OK))
        await until_left(exchange)

    async with web_server() as server:
        server.on |= {"GET": listens, "tools/call": answers_there}
        async with session_at(server.url) as session:
            await server.has_seen("GET")
            assert text_of(await call(session)) == "ok"


async def test_server_messages_are_received_and_their_stream_is_reopened():
    async def says_once(exchange: Exchange) -> None:
        await exchange.begin_events()
        await exchange.event(CHANGED, id=str(len(server.of("GET"))))

    feed = trio.Event()
    changes: list[str] = []

    def on_change(what: str) -> None:
        changes.append(what)
        if len(changes) == 2:
            feed.set()

    async with web_server() as server:
        server.on["GET"] = says_once
        async with session_at(server.url) as session:
            session.on_change = on_change
            with trio.fail_after(5):
                await feed.wait()
        second = server.of("GET")[1]
    assert set(changes) == {"tools"}
    assert second.headers["last-event-id"] == "1"


@pytest.mark.parametrize("status", [404, 405, 400, 501])
async def test_a_server_need_not_have_anything_to_say_unasked(status):
    async with web_server() as server:
        server.on["GET"] = lambda exchange: exchange.text(status)
        async with session_at(server.url) as session:
            await server.has_seen("GET")
            assert text_of(await call(session)) == "called"
        assert len(server.of("GET")) == 1


async def test_a_stream_that_breaks_is_resumed_where_it_was():
    async def breaks(exchange: Exchange) -> None:
        asked.append(exchange)
        await exchange.begin_events()
        await exchange.responder.send(b"id: e7\nretry: 5\ndata:\n\n")
        await exchange.responder.send(b'data: {"half')
        await exchange.responder.reset()

    async def goes_on(exchange: Exchange) -> None:
        if "last-event-id" not in exchange.headers:
            await exchange.text(405)
            return
        await exchange.begin_events()
        await exchange.event(asked[0].result(OK), id="e8")

    asked: list[Exchange] = []
    async with web_server() as server:
        server.on |= {"tools/call": breaks, "GET": goes_on}
        async with session_at(server.url) as session:
            assert text_of(await call(session)) == "ok"
        taken_up = [e.headers.get("last-event-id") for e in server.of("GET")]
    assert "e7" in taken_up
    assert len(asked) == 1


async def test_a_stream_that_brings_nothing_is_not_taken_up_for_ever():
    async def primes(exchange: Exchange) -> None:
        if exchange.kind == "GET" and "last-event-id" not in exchange.headers:
            await exchange.text(405)
            return
        await exchange.begin_events()
        await exchange.responder.send(b"id: e7\nretry: 1\ndata:\n\n")

    async with web_server() as server:
        server.on |= {"tools/call": primes, "GET": primes}
        async with session_at(server.url) as session:
            result = await call(session)
        again = [e for e in server.of("GET") if e.headers.get("last-event-id") == "e7"]
    assert result.is_error
    assert "may have run" in text_of(result)
    assert len(again) == 5


@pytest.mark.parametrize("cut", [None, b"", b'data: {"jsonrpc":'])
async def test_a_call_with_a_lost_answer_is_not_repeated(cut):
    async def breaks(exchange: Exchange) -> None:
        if cut is not None:
            await exchange.begin_events()
            await exchange.responder.send(b": alive\n\n" + cut)
        await exchange.responder.reset()

    async with web_server() as server:
        server.on["tools/call"] = breaks
        async with session_at(server.url) as session:
            await session.list_tools()
            result = await call(session)
            assert [tool.name for tool in await session.list_tools()] == ["echo"]
        assert len(server.of("tools/call")) == 1
    assert result.is_error
    assert "may have run" in text_of(result)


async def test_a_list_that_is_lost_is_asked_for_again():
    async def breaks_once(exchange: Exchange) -> None:
        if len(server.of("tools/list")) == 1:
            await exchange.responder.reset()
        elif len(server.of("tools/list")) == 2:
            await exchange.text(502, "<html><body>Bad <b>gateway</b></body></html>")
        else:
            await server.be_decent(exchange)

    async with web_server() as server:
        server.on["tools/list"] = breaks_once
        async with session_at(server.url) as session:
            assert [tool.name for tool in await session.list_tools()] == ["echo"]


async def test_a_busy_server_is_asked_again_when_it_says():
    async def busy_once(exchange: Exchange) -> None:
        if len(server.of("tools/call")) == 1:
            await exchange.text(503, "busy", retry_after="0")
        else:
            await server.be_decent(exchange)

    async with web_server() as server:
        server.on["tools/call"] = busy_once
        async with session_at(server.url) as session:
            assert text_of(await call(session)) == "called"


def forgets(server: WebServer, status: int, body: dict[str, Any] | None) -> None:
    """Let the server have forgotten its first session by the first call."""
    server.session_id = "s1"

    async def by_session(exchange: Exchange) -> None:
        if exchange.headers.get("mcp-session-id") == "s2":
            await server.be_decent(exchange)
        else:
            server.session_id = "s2"
            await exchange.json(body, status)

    server.on["tools/call"] = by_session


LOST = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "No valid session"}}


@pytest.mark.parametrize(
    ("status", "body"), [(404, None), (404, LOST), (400, LOST), (410, LOST), (409, LOST)]
)
async def test_a_forgotten_session_is_opened_again_and_the_call_is_made(status, body):
    changes: list[str] = []
    async with web_server() as server:
        async with session_at(server.url) as session:
            session.on_change = changes.append
            forgets(server, status, body)
            assert text_of(await call(session)) == "called"
        assert len(server.of("initialize")) == 2
        assert "mcp-session-id" not in server.of("initialize")[1].headers
        assert len(server.of("notifications/initialized")) == 2
        assert server.of("DELETE")[0].headers["mcp-session-id"] == "s2"
    assert set(changes) == {"tools", "prompts", "resources"}


async def test_calls_that_find_a_session_forgotten_open_one_together():
    async with web_server() as server:
        async with session_at(server.url) as session:
            forgets(server, 404, None)
            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(call, session)
        assert len(server.of("initialize")) == 2


async def test_a_session_that_cannot_be_opened_again_is_not_tried_for_ever():
    async with web_server() as server:
        async with session_at(server.url) as session:
            server.on["tools/call"] = lambda exchange: exchange.text(404, "gone")
            server.on["initialize"] = lambda exchange: exchange.text(404, "gone")
            result = await call(session)
        assert len(server.of("initialize")) == 2
    assert result.is_error
    assert "status 404: gone" in text_of(result)


async def test_an_error_with_our_id_is_an_answer_whatever_its_status():
    async with web_server() as server:
        server.on["tools/call"] = lambda exchange: exchange.error(400, -32602, "no such tool")
        async with session_at(server.url) as session:
            result = await call(session)
        assert len(server.of("initialize")) == 1
    assert result.is_error
    assert text_of(result) == "no such tool"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda e: e.text(202), "empty response (status 202)"),
        (lambda e: e.text(200), "empty response (status 200)"),
        (lambda e: e.json(CHANGED), "was not for this request"),
        (lambda e: e.text(500, "<h1>Oh</h1> <p>no</p>"), "status 500: Oh no"),
        (lambda e: e.text(200, "<!doctype html><p>Log in", content_type="text/html"), "web page"),
        (lambda e: e.text(200, "hello", content_type="text/plain"), "'text/plain'"),
        (lambda e: e.text(302, "", location="/login"), "redirects to /login"),
        (lambda e: e.text(307, "", location="http://["), "invalid URL: 'http://['"),
        (lambda e: e.text(307, "", location="file:///etc"), "invalid URL"),
        (lambda e: e.text(403, "no\x07 entry"), "status 403: no entry"),
    ],
)
async def test_an_invalid_answer_fails_the_call_at_once_with_the_reason(answer, words):
    async with web_server() as server:
        server.on["tools/call"] = answer
        async with session_at(server.url) as session:
            result = await call(session)
            assert [tool.name for tool in await session.list_tools()] == ["echo"]
    assert result.is_error
    assert words in text_of(result)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('{"jsonrpc":"2.0","id":%d,"result":%s}', "text/plain"),
        ('\ufeff{"jsonrpc":"2.0","id":%d,"result":%s}', "application/json; charset=utf-8"),
        ('data: {"jsonrpc":"2.0","id":%d,"result":%s}\n\n', "text/plain"),
        ('[{"jsonrpc":"2.0","id":%d,"result":%s}]', "application/json"),
        ('{"jsonrpc":"2.0","id":"%d","result":%s}', "Application/JSON"),
    ],
)
async def test_an_answer_is_recognized_by_its_content(body, kind):
    async def answers(exchange: Exchange) -> None:
        text = body % (exchange.message["id"], json.dumps(OK))
        await exchange.text(200, text, content_type=kind)

    async with web_server() as server:
        server.on["tools/call"] = answers
        async with session_at(server.url) as session:
            assert text_of(await call(session)) == "ok"


async def test_an_answer_that_lost_its_id_is_for_the_request_it_answers():
    async def answers(exchange: Exchange) -> None:
        await exchange.json({"jsonrpc": "2.0", "id": None, "result": OK})

    async with web_server() as server:
        server.on["tools/call"] = answers
        async with session_at(server.url) as session:
            assert text_of(await call(session)) == "ok"


async def test_a_call_that_is_stopped_is_cancelled_and_its_stream_left():
    left = anyio.Event()

    async def hangs(exchange: Exchange) -> None:
        try:
            await exchange.begin_events()
            await until_left(exchange)
        finally:
            left.set()

    async with web_server() as server:
        server.on["tools/call"] = hangs
        async with session_at(server.url) as session:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(call, session)
                    (asked,) = await server.has_seen("tools/call")
                    scope.cancel()
            (told,) = await server.has_seen("notifications/cancelled")
            assert told.message["params"]["requestId"] == asked.message["id"]
            with trio.fail_after(5):
                await left.wait()
            assert [tool.name for tool in await session.list_tools()] == ["echo"]


async def test_a_call_that_is_stopped_before_it_was_sent_is_left_too():
    left = anyio.Event()

    async def hangs(exchange: Exchange) -> None:
        try:
            await until_left(exchange)
        finally:
            left.set()

    async with web_server() as server:
        server.on["tools/call"] = hangs
        async with session_at(server.url) as session:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(call, session)
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
            await server.has_seen("notifications/cancelled")
            if server.of("tools/call"):
                with trio.fail_after(5):
                    await left.wait()


async def test_a_batch_of_messages_is_taken_apart():
    async def batch(exchange: Exchange) -> None:
        await exchange.json([CHANGED, exchange.result(OK)])

    async def speaks_march(exchange: Exchange) -> None:
        await exchange.json(exchange.result({**INFO, "protocolVersion": "2025-03-26"}))

    changes: list[str] = []
    async with web_server() as server:
        server.on |= {"tools/call": batch, "initialize": speaks_march}
        async with session_at(server.url) as session:
            session.on_change = changes.append
            assert text_of(await call(session)) == "ok"
        assert "mcp-protocol-version" not in server.of("tools/call")[0].headers
        assert "DELETE" not in server.kinds()
    assert changes == ["tools"]
