"""Servers at a URL: what is sent to them, and what is made of every kind of answer.

Also of those that lead elsewhere, want a login, are not there, or are left.
"""

import json
import logging
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from eca_protocol.http import HTTPClient
from tests.eca_server.agent.mcp import web
from tests.eca_server.agent.mcp.scripted import error_of
from tests.eca_server.agent.mcp.scripted_server import DECENT, INFO
from tests.promises import within

OK = {"content": [{"type": "text", "text": "ok"}]}
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


async def answers_in_events(exchange: web.Exchange) -> None:
    await exchange.begin_events()
    await exchange.event("", id="0")
    await exchange.event(exchange.result(OK), event="message")
    await web.until_left(exchange)


async def test_every_request_after_the_handshake_has_the_session_id():
    mine = {"X-Team": "red", "Content-Type": "text/plain", "Mcp-Session-Id": "mine", "Host": "else"}
    async with web.serving(headers=mine) as (server, session):
        assert web.text_of(await web.call(session)) == "called"
        await server.has_seen("GET")
    first, *rest = server.exchanges
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
        assert exchange.headers["host"].startswith("127.0.0.1")
    assert server.of("tools/call")[0].headers["content-type"] == "application/json"


async def test_nothing_overtakes_the_notification_that_ends_the_handshake():
    overtakers: list[str] = []

    async def slowly(exchange: web.Exchange) -> None:
        await trio.sleep(0.05)
        overtakers.extend(exchange.server.kinds()[2:])
        await exchange.text(202)

    async with web.serving({"notifications/initialized": slowly}) as (_, session):
        assert await web.names_of_tools(session) == ["echo"]
    assert overtakers == []


async def test_an_answer_may_come_as_events_on_a_stream_that_is_left_soon_after_it():
    departure = trio.Event()

    async def answers(exchange: web.Exchange) -> None:
        try:
            await answers_in_events(exchange)
        finally:
            departure.set()

    async with web.serving({"tools/call": answers}) as (_, session):
        with within(1):
            assert web.text_of(await web.call(session)) == "ok"
            assert web.text_of(await web.call(session)) == "ok"
        with trio.fail_after(5):
            await departure.wait()


async def test_a_server_may_ask_before_it_answers():
    async def asks_first(exchange: web.Exchange) -> None:
        await exchange.begin_events()
        await exchange.event({"jsonrpc": "2.0", "id": "r1", "method": "roots/list"})
        (answer,) = await exchange.server.has_seen("answer")
        assert answer.message == {"jsonrpc": "2.0", "id": "r1", "result": {"roots": []}}
        await exchange.event(exchange.result(OK))

    async with web.serving({"tools/call": asks_first}) as (_, session):
        assert web.text_of(await web.call(session)) == "ok"


async def test_an_answer_may_arrive_on_the_stream_of_server_messages():
    async def listens(exchange: web.Exchange) -> None:
        await exchange.begin_events()
        await web.until_left(exchange)

    async def answers_there(exchange: web.Exchange) -> None:
        await exchange.begin_events()
        await exchange.server.of("GET")[0].event(exchange.result(OK))
        await web.until_left(exchange)

    async with web.serving({"GET": listens, "tools/call": answers_there}) as (server, session):
        await server.has_seen("GET")
        assert web.text_of(await web.call(session)) == "ok"


@pytest.mark.long
async def test_requests_wait_in_the_socket_while_their_answers_are_not_accepted():
    size, number = 2**18, 160  # 40 MiB in all; an answer is as long as the id of its request
    accepts, all_sent = trio.Event(), trio.Event()

    async def asks(exchange: web.Exchange) -> None:
        await exchange.begin_events()
        for each in range(number):
            long_id = f"{each}:{'i' * size}"
            await exchange.event({"jsonrpc": "2.0", "id": long_id, "method": "roots/list"})
        all_sent.set()
        await web.until_left(exchange)

    async def accepts_late(exchange: web.Exchange) -> None:
        await accepts.wait()
        await exchange.text(202)

    patient = attrs.evolve(web.QUICK, notice=60)
    async with web.serving({"GET": asks, "answer": accepts_late}, timeouts=patient) as (server, _):
        with trio.move_on_after(3):
            await all_sent.wait()
        assert not all_sent.is_set()
        accepts.set()
        with trio.fail_after(20):
            await all_sent.wait()
        await server.has_seen("answer", number)


async def test_server_messages_are_received_and_their_stream_is_reopened():
    async def says_once(exchange: web.Exchange) -> None:
        await exchange.begin_events()
        await exchange.event(CHANGED, id=str(len(exchange.server.of("GET"))))

    twice = trio.Event()
    changes: list[str] = []

    def on_change(what: str) -> None:
        changes.append(what)
        if len(changes) == 2:
            twice.set()

    async with web.serving({"GET": says_once}) as (server, session):
        session.on_change = on_change
        with trio.fail_after(5):
            await twice.wait()
    assert set(changes) == {"tools"}
    assert server.of("GET")[1].headers["last-event-id"] == "1"


@pytest.mark.parametrize("status", [404, 405, 400, 501, None])
async def test_a_server_need_not_have_anything_to_say_unasked(status):
    async def refuses(exchange: web.Exchange) -> None:
        await (web.until_left(exchange) if status is None else exchange.text(status))

    timeouts = web.QUICK if status else attrs.evolve(web.QUICK, headers=0.1)
    async with web.serving({"GET": refuses}, timeouts=timeouts) as (server, session):
        await server.has_seen("GET")
        assert web.text_of(await web.call(session)) == "called"
        assert status is None or len(server.of("GET")) == 1


def breaks_off(*pieces: bytes) -> Any:
    """Return an answer that begins events, sends these bytes, and ends or is reset."""

    async def answer(exchange: web.Exchange) -> None:
        await exchange.begin_events()
        for piece in pieces:
            await exchange.responder.send(piece)
        if pieces[-1].startswith(b"data: {"):
            await exchange.responder.reset()

    return answer


PRIMED = b"id: e7\nretry: 1\ndata:\n\n"
LOST_CALL = "may have run"


@pytest.mark.parametrize("says_all_again", [False, True])
async def test_a_stream_that_breaks_is_resumed_where_it_was(says_all_again):
    async def continues(exchange: web.Exchange) -> None:
        if "last-event-id" not in exchange.headers:
            await exchange.text(405)
            return
        await exchange.begin_events()
        if says_all_again:
            for earlier in exchange.server.of("tools/list"):
                await exchange.event(earlier.result({"tools": []}))
        for _ in range(1 + says_all_again):
            await exchange.event(exchange.server.of("tools/call")[0].result(OK), id="e8")

    on = {"tools/call": breaks_off(PRIMED, b'data: {"half'), "GET": continues}
    async with web.serving(on) as (server, session):
        await session.list_tools()
        assert web.text_of(await web.call(session)) == "ok"
        assert await web.names_of_tools(session) == ["echo"]
    assert "e7" in [e.headers.get("last-event-id") for e in server.of("GET")]
    assert len(server.of("tools/call")) == 1


async def test_a_stream_that_brings_nothing_is_not_taken_up_for_ever():
    async def primes(exchange: web.Exchange) -> None:
        if "last-event-id" in exchange.headers:
            await breaks_off(PRIMED)(exchange)
        else:
            await exchange.text(405)

    async with web.serving({"tools/call": breaks_off(PRIMED), "GET": primes}) as (server, session):
        result = await web.call(session)
    again = [e for e in server.of("GET") if e.headers.get("last-event-id") == "e7"]
    assert result.is_error
    assert "may have run" in web.text_of(result)
    assert len(again) == 5


async def test_a_stream_that_ends_at_once_each_time_is_resumed_a_few_times_a_second():
    async def advances(exchange: web.Exchange) -> None:
        position = len(exchange.server.exchanges)
        await breaks_off(b"id: %d\nretry: 0\ndata:\n\n" % position)(exchange)

    on = {"tools/call": advances, "GET": advances}
    patient = attrs.evolve(web.QUICK, reconnect=1.0, longest_reconnect=1.0)
    async with web.serving(on, timeouts=patient) as (server, session):
        assert (await error_of(web.call(session, deadline=1))).kind == "timeout"
    assert len(server.of("GET")) < 20, "each connection has a new position"


async def test_a_list_that_is_lost_and_a_busy_server_are_asked_again():
    async def breaks_once(exchange: web.Exchange) -> None:
        attempt = len(exchange.server.of("tools/list"))
        if attempt == 1:
            await exchange.responder.reset()
        elif attempt == 2:
            await exchange.text(502, "<html><body>Bad <b>gateway</b></body></html>")
        else:
            await exchange.server.be_decent(exchange)

    async def busy_once(exchange: web.Exchange) -> None:
        if len(exchange.server.of("tools/call")) == 1:
            date, retry_after = "Sat, 01 Jan 2000 00:00:00 GMT", "Sat, 01 Jan 2000 00:00:01 GMT"
            await exchange.text(503, "busy", retry_after=retry_after, date=date)
            busy_at.append(trio.current_time())
        else:
            await exchange.server.be_decent(exchange)

    busy_at: list[float] = []
    async with web.serving({"tools/list": breaks_once, "tools/call": busy_once}) as (_, session):
        assert await web.names_of_tools(session) == ["echo"]
        assert web.text_of(await web.call(session)) == "called"
        assert trio.current_time() >= busy_at[0] + 1, "the wait is measured on the server's clock"


def forget(server: web.WebServer, status: int, body: dict[str, Any] | None) -> None:
    """Let the server have forgotten its first session by the first call."""

    async def by_session(exchange: web.Exchange) -> None:
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
async def test_a_forgotten_session_is_opened_again_once_and_the_calls_are_made(status, body):
    changes: list[str] = []
    async with web.serving() as (server, session):
        session.on_change = changes.append
        forget(server, status, body)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(web.call, session)
            assert web.text_of(await web.call(session)) == "called"
    assert len(server.of("initialize")) == 2
    assert "mcp-session-id" not in server.of("initialize")[1].headers
    assert len(server.of("notifications/initialized")) == 2
    assert server.of("DELETE")[0].headers["mcp-session-id"] == "s2"
    assert set(changes) == {"tools", "prompts", "resources"}


async def test_a_session_that_cannot_be_opened_again_is_not_tried_for_ever():
    async with web.serving() as (server, session):
        server.on["tools/call"] = lambda exchange: exchange.text(404, "gone")
        server.on["initialize"] = lambda exchange: exchange.text(404, "gone")
        result = await web.call(session)
    assert len(server.of("initialize")) == 2
    assert result.is_error
    assert "status 404: gone" in web.text_of(result)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda e: e.error(400, -32602, "no such tool"), "no such tool"),
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
        (lambda e: e.responder.reset(), LOST_CALL),
        *((breaks_off(cut), LOST_CALL) for cut in (PRIMED, b": alive\n\n", b'data: {"jsonrpc":')),
    ],
)
async def test_an_invalid_or_lost_answer_fails_the_call_and_is_not_asked_for_again(answer, words):
    async with web.serving({"tools/call": answer}) as (server, session):
        result = await web.call(session)
        assert await web.names_of_tools(session) == ["echo"]
    assert result.is_error
    assert words in web.text_of(result)
    assert len(server.of("tools/call")) == len(server.of("initialize")) == 1


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('{"jsonrpc":"2.0","id":%d,"result":%s}', "text/plain"),
        ('\ufeff{"jsonrpc":"2.0","id":%d,"result":%s}', "application/json; charset=utf-8"),
        ('data: {"jsonrpc":"2.0","id":%d,"result":%s}\n\n', "text/plain"),
        ('[{"jsonrpc":"2.0","id":%d,"result":%s}]', "application/json"),
        ('{"jsonrpc":"2.0","id":"%d","result":%s}', "Application/JSON"),
        ('{"jsonrpc":"2.0","x":%d,"id":null,"result":%s}', "application/json"),
    ],
)
async def test_an_answer_is_recognized_by_its_content_even_without_its_id(body, kind):
    async def answers(exchange: web.Exchange) -> None:
        text = body % (exchange.message["id"], json.dumps(OK))
        await exchange.text(200, text, content_type=kind)

    async with web.serving({"tools/call": answers}) as (_, session):
        assert web.text_of(await web.call(session)) == "ok"


async def test_a_call_that_is_stopped_is_cancelled_and_its_stream_left():
    async with web.serving() as (server, session):
        departure = server.hold("tools/call")
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(web.call, session)
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()  # perhaps before it was sent
        await server.has_seen("notifications/cancelled")
        if server.of("tools/call"):
            with trio.fail_after(5):
                await departure.wait()
        departure = server.hold("tools/call")
        call = await web.stop_a_call(server, session)
        *_, cancelled = await server.has_seen("notifications/cancelled", 2)
        assert cancelled.message["params"]["requestId"] == call.message["id"]
        with trio.fail_after(5):
            await departure.wait()
        assert await web.names_of_tools(session) == ["echo"]


async def test_a_batch_of_messages_is_taken_apart():
    async def batch(exchange: web.Exchange) -> None:
        await exchange.json([CHANGED, exchange.result(OK)])

    async def speaks_march(exchange: web.Exchange) -> None:
        await exchange.json(exchange.result({**INFO, "protocolVersion": "2025-03-26"}))

    changes: list[str] = []
    async with web.serving({"tools/call": batch, "initialize": speaks_march}) as (server, session):
        session.on_change = changes.append
        assert web.text_of(await web.call(session)) == "ok"
    assert "mcp-protocol-version" not in server.of("tools/call")[0].headers
    assert "DELETE" not in server.kinds()
    assert changes == ["tools"]


@pytest.mark.parametrize(("opened", "used"), [("s1", "s1"), (None, None), ("caf\xe9", None)])
async def test_a_session_keeps_the_id_that_it_was_opened_with(opened, used):
    async def introduces(exchange: web.Exchange) -> None:
        exchange.server.session_id = opened
        await exchange.server.be_decent(exchange)

    async def renames(exchange: web.Exchange) -> None:
        await exchange.json(exchange.result(DECENT["tools/list"]), mcp_session_id="another")

    async with web.serving({"initialize": introduces, "tools/list": renames}) as (server, session):
        await session.list_tools()
        assert web.text_of(await web.call(session)) == "called"
    ids = {exchange.headers.get("mcp-session-id") for exchange in server.exchanges[1:]}
    assert ids == {used}
    assert ("DELETE" in server.kinds()) is (used is not None)


BEARER = {"Authorization": "Bearer abcdefgh1"}
KEY = {"X-API-Key": "hunter2hunter2"}


async def test_redirects_that_keep_the_body_are_followed_and_remembered():
    async def leads_on(exchange: web.Exchange) -> None:
        if exchange.request.path == "/mcp":
            await exchange.text(307, "", location="/elsewhere")
        else:
            await exchange.server.be_decent(exchange)

    async with web.serving({"initialize": leads_on}) as (server, session):
        assert web.text_of(await web.call(session)) == "called"
    assert [e.request.path for e in server.of("initialize")] == ["/mcp", "/elsewhere"]
    assert server.of("tools/call")[0].request.path == "/elsewhere"


class Remembering(HTTPClient):
    """Knows which URLs may be shown who the user is."""

    def __init__(self) -> None:
        super().__init__()
        self.shows: dict[str, bool] = {}

    def stream(self, method: str, url: str, **more: Any) -> Any:
        self.shows[url] = more.get("shows_certificate", False)
        return super().stream(method, url, **more)


async def test_the_users_headers_and_certificate_are_not_sent_to_a_different_origin():
    async with web.web_server() as server, web.web_server() as other, Remembering() as http:
        target = other.url
        server.on["initialize"] = lambda e: e.text(307, "", location=f"{target}#abcdefgh1")
        error = await web.fails_to_start(server.url, headers=BEARER)
        assert other.exchanges == []
        assert "must not go" in error.message
        assert "abcdefgh1" not in error.message
        server.on["initialize"] = lambda e: e.text(307, "", location=target)
        async with web.session_at(server.url, http=http) as session:
            assert web.text_of(await web.call(session)) == "called"
        assert "authorization" not in other.exchanges[0].headers
        assert http.shows == {server.url: True, other.url: False}
        server.on["initialize"] = lambda e: e.text(307, "", location="/mcp")
        assert "more than 3 redirects" in (await web.fails_to_start(server.url)).message


async def test_a_server_that_requires_a_login_is_an_error_with_the_reason():
    async with web.web_server() as server:
        server.on["initialize"] = lambda e: e.text(401, "who are you?")
        error = await web.fails_to_start(server.url)
        assert (error.kind, "who are you?" in error.message) == ("login", True)
        error = await web.fails_to_start(server.url, headers=BEARER)
    assert error.kind == "start"
    assert "configured `Authorization`" in error.message


async def test_a_login_that_ends_in_the_middle_or_is_wanted_of_a_notification_ends_the_session():
    async with web.serving({"tools/call": lambda e: e.text(401)}) as (_, session):
        assert (await error_of(web.call(session))).kind == "login"
        await session.ended.wait()
    async with web.serving({"notifications/initialized": lambda e: e.text(401)}) as (_, session):
        with trio.fail_after(5):
            await session.ended.wait()
        assert session.error.kind == "login"


async def test_a_refusal_shows_no_key_that_it_quotes_nor_a_part_at_its_cut(caplog):
    caplog.set_level(logging.DEBUG)
    on = {"GET": lambda e: e.text(500, "bad header hunter2hunter2")}
    async with web.serving(on, headers=KEY) as (server, session):
        server.on["tools/call"] = server.on["GET"]
        assert "bad header ***" in web.text_of(await web.call(session))
        for before in range(150, 201, 10):
            text = f"{'x' * (before - 1)} hunter2hunter2"
            server.on["tools/call"] = lambda e, text=text: e.text(500, text)
            assert "hun" not in web.text_of(await web.call(session))
    assert "hunter2" not in caplog.text


async def test_a_server_that_is_not_there_is_asked_three_times_and_an_ended_one_ends_the_session():
    async with web.web_server() as gone:
        url = gone.url
    error = await web.fails_to_start(url)
    assert error.kind == "unreachable"
    assert "cannot be reached" in error.message
    async with web.serving({"tools/call": lambda e: e.text(308, "", location=url)}) as (_, session):
        result = await web.call(session)
        assert result.is_error
        assert "the request was not sent: cannot connect" in web.text_of(result)
        await session.ended.wait()
        assert session.error.kind == "closed"


async def test_a_farewell_that_is_not_answered_is_not_waited_for_long():
    with within(2.5):
        async with web.serving({"DELETE": web.until_left}) as (server, _):
            pass
    assert server.of("DELETE")
