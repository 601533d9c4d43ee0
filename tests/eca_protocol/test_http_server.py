"""The small HTTP server, with plain sockets and with our client, on both async libraries."""

import logging

import anyio
import pytest

from eca_protocol import http_server
from eca_protocol.errors import LocalProtocolError
from eca_protocol.http import HTTPClient
from eca_protocol.http_server import HTTPRequest, HTTPServer, Responder, ServerLimits, serve

pytestmark = pytest.mark.anyio


async def hello(_request: HTTPRequest, responder: Responder) -> None:
    await responder.respond(200, b"hello")


async def exchange(server: HTTPServer, request: bytes) -> bytes:
    """Send raw bytes and read until the server closes."""
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(request)
        answer = b""
        with anyio.fail_after(5):
            try:
                while True:
                    answer += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return answer


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def test_pipelined_requests_are_answered_in_order_on_one_connection():
    async def handler(request: HTTPRequest, responder: Responder) -> None:
        await responder.respond(200, request.path.encode())

    async with serve(handler) as server:
        first = b"GET /first HTTP/1.1\r\nHost: localhost\r\n\r\n"
        second = b"GET /second HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        answer = await exchange(server, first + second)
    assert answer.index(b"/first") < answer.index(b"/second")


def request_to(host: bytes, method: bytes = b"GET") -> bytes:
    return method + b" / HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"


GET = request_to(b"localhost")
TOO_LONG = b" / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 5000, 431),
        (b"POST" + TOO_LONG, 413),
        (b"POST" + TOO_LONG.removesuffix(b"x" * 2000), 413),
        (request_to(b"evil.example:80"), 403),
        (request_to(b"LOCALHOST:80"), 200),
        (request_to(b"["), 403),
        (request_to(b"a]b"), 403),
    ],
)
async def test_what_is_out_of_bounds_is_refused_with_its_status(request_bytes, expected):
    limits = ServerLimits(max_header=4000, max_body=1000)
    async with serve(hello, limits=limits) as server:
        assert status(await exchange(server, request_bytes)) == expected


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (request_to(b"localhost", b"HEAD"), 200),
        (request_to(b"evil.example", b"HEAD"), 403),
        (b"HEAD" + TOO_LONG, 413),
    ],
)
async def test_an_answer_to_head_has_no_body_and_the_server_continues(
    request_bytes, expected, caplog
):
    async with serve(hello, limits=ServerLimits(max_body=1000)) as server:
        answer = await exchange(server, request_bytes)
        assert status(answer) == expected
        assert answer.endswith(b"\r\n\r\n")
        assert b"content-length: " in answer.lower()
        assert (await exchange(server, GET)).endswith(b"hello")
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


async def test_what_cannot_be_read_behind_a_head_request_is_refused_with_a_reason(caplog):
    async with serve(hello) as server:
        request = b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\nno request\r\n\r\n"
        head, _, refused = (await exchange(server, request)).partition(b"\r\n\r\n")
        assert (status(head), status(refused)) == (200, 400)
        assert refused.partition(b"\r\n\r\n")[2].endswith(b"\n")
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


async def test_an_error_of_an_exchange_is_logged_and_the_server_continues(caplog, monkeypatch):
    async with serve(hello) as server:
        with monkeypatch.context() as patched:
            patched.setattr(http_server, "_request", lambda *_: 1 / 0)
            assert await exchange(server, GET) == b""
        assert (await exchange(server, GET)).endswith(b"hello")
    assert "an HTTP exchange failed" in caplog.text


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/a/b?c=d?e", "/a/b", "c=d?e"),
        ("//[", "//[", ""),
        ("*", "*", ""),
        ("http://localhost:80/a?b", "/a", "b"),
        ("http://[", "/", ""),
    ],
)
def test_a_target_has_a_path_and_a_query_whatever_it_is(target, path, query):
    request = HTTPRequest(method="GET", target=target, headers={}, body=b"")
    assert (request.path, request.query) == (path, query)


async def test_one_connection_too_many_is_refused():
    async with (
        serve(hello, limits=ServerLimits(max_connections=1)) as server,
        await anyio.connect_tcp("127.0.0.1", server.port) as first,
    ):
        await first.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status(await first.receive()) == 200
        assert status(await exchange(server, b"")) == 503


async def test_a_client_that_does_not_finish_its_request_is_dropped():
    begun = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf"
    async with serve(hello, limits=ServerLimits(idle_deadline=0.02)) as server:
        assert await exchange(server, b"") == b""
    async with serve(hello, limits=ServerLimits(request_deadline=0.02)) as server:
        assert await exchange(server, begun) == b""


async def test_a_failing_or_silent_handler_is_answered_500_and_the_server_continues(caplog):
    async def handler(request: HTTPRequest, _responder: Responder) -> None:
        if request.path == "/fail":
            raise RuntimeError("planted")

    async with serve(handler) as server, HTTPClient() as client:
        for path in ("/fail", "/silent"):
            async with client.stream("GET", server.url + path) as answer:
                assert answer.status == 500
                assert b"planted" not in await answer.read()
    assert [record.levelno for record in caplog.records if record.exc_info] == [logging.ERROR]


async def test_an_answer_is_ended_by_the_server_and_out_of_order_the_callers_error():
    async def handler(request: HTTPRequest, responder: Responder) -> None:
        if request.path == "/begun":
            await responder.start(200)
            await responder.send(b"a", b"b")
            return
        await responder.respond(200, b"done")
        with pytest.raises(LocalProtocolError):
            await responder.send(b"more")

    async with serve(handler) as server, HTTPClient() as client:
        for path, body in (("/begun", b"ab"), ("/done", b"done")):
            async with client.stream("GET", server.url + path) as answer:
                assert await answer.read() == body


async def test_leaving_the_block_raises_what_the_block_raised():
    with pytest.raises(ZeroDivisionError):
        async with serve(hello):
            raise ZeroDivisionError
