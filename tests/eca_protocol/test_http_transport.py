"""The connections of the HTTP client: which are used again, which are closed, and their options."""

import gc
import socket
import sys
import time
from functools import partial
from operator import add
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from trio.testing import MockClock

from eca_protocol import http_transport, platforms
from eca_protocol.errors import HTTPError
from eca_protocol.http import Deadlines, HTTPClient
from eca_protocol.http_connection import READ_SIZE
from eca_protocol.http_network import (
    PROBED_AFTER,
    PROBED_EVERY,
    PROBES,
    UNACKNOWLEDGED,
    socket_options,
)
from eca_protocol.http_transport import MAX_IDLE
from tests.eca_protocol.http_peers import answering, ask, failure, listening, read_head, server

pytestmark = pytest.mark.anyio
CLOCK = MockClock()


async def test_a_body_that_was_read_leaves_its_connection_to_the_next_even_if_cancelled():
    async with server() as traffic, HTTPClient() as client:
        for _ in range(3):
            with anyio.CancelScope() as scope:
                async with client.stream("GET", traffic.url) as response:
                    assert await response.read() == b"hello"
                    scope.cancel()
        assert traffic.connections == 1


async def test_many_requests_at_once_leave_few_idle_connections():
    async with server() as traffic, HTTPClient() as client:
        async with anyio.create_task_group() as tasks:
            for _ in range(3 * MAX_IDLE):
                tasks.start_soon(ask, traffic.url, client)
        assert traffic.connections > MAX_IDLE
        (pool,) = client._pools.values()
        assert len(pool.connections) == MAX_IDLE


async def test_a_connection_that_was_idle_for_too_long_is_closed(monkeypatch):
    async with server() as traffic, HTTPClient() as client:
        for seconds, connections in ((30, 1), (-1, 1), (30, 2)):
            monkeypatch.setattr(http_transport, "IDLE_SECONDS", seconds)
            assert await ask(traffic.url, client) == b"hello"
            assert traffic.connections == connections


@pytest.mark.parametrize("anyio_backend", [("trio", {"clock": CLOCK})], ids=["trio"])
async def test_a_connection_ages_while_the_clock_of_the_event_loop_stands_still(monkeypatch):
    async with server() as traffic, HTTPClient() as client:
        for passed, connections in ((0, 1), (20, 1), (40, 2)):
            monkeypatch.setattr(time, "monotonic", partial(add, time.monotonic(), passed))
            assert await ask(traffic.url, client) == b"hello"
            assert traffic.connections == connections


async def test_a_connection_that_the_server_has_closed_is_found_before_it_is_used():
    closed = anyio.Event()

    async def answer_once(stream: anyio.abc.ByteStream) -> None:
        await read_head(stream)
        await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
        await stream.aclose()
        closed.set()

    async with listening(answer_once) as traffic, HTTPClient() as client:
        for _ in range(3):
            assert await ask(traffic.url, client, method="POST", resend=False) == b"hello"
            await closed.wait()
            closed = anyio.Event()
        assert traffic.connections == 3


async def test_requests_at_the_same_time_share_no_connection():
    async with server() as traffic, HTTPClient() as client:
        assert await ask(traffic.url, client) == b"hello"
        url = traffic.url
        async with client.stream("GET", url) as first, client.stream("GET", url) as second:
            assert traffic.connections == 2
            assert await first.read() == await second.read() == b"hello"


async def test_a_response_that_was_left_does_not_read_the_next_one():
    async with server() as traffic, HTTPClient() as client:
        url = traffic.url
        async with client.stream("GET", url) as first:
            chunks = first.chunks()
            assert await first.read() == b"hello"
        async with client.stream("GET", url) as second:
            with pytest.raises(HTTPError, match="the response was closed"):
                await anext(chunks)
            assert await second.read() == b"hello"
        assert traffic.connections == 1


async def test_a_cancelled_request_leaves_no_connection_wherever_it_is():
    async def answer(stream: anyio.abc.ByteStream) -> None:
        while True:
            await read_head(stream)
            for piece in (b"HTTP/1.1 200 OK\r\n", b"content-length: 5\r\n\r\n", b"hel", b"lo"):
                await stream.send(piece)
                await anyio.lowlevel.checkpoint()

    async with listening(answer) as traffic, HTTPClient() as client:
        await ask(traffic.url, client)
        (pool,) = client._pools.values()
        await pool.aclose()
        for ticks in range(40):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, traffic.url, client)
                for _ in range(ticks):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
            assert pool.connections == []  # since the pool is closed


async def test_no_connection_is_used_again_once_the_machine_has_slept(monkeypatch):
    asleep, uptime = 0.0, platforms.uptime
    monkeypatch.setattr(platforms, "uptime", lambda: uptime() + asleep)
    async with server() as traffic, HTTPClient() as client:
        for slept in (0.0, 0.0, 3_600.0, 0.0):
            asleep += slept
            assert await ask(traffic.url, client) == b"hello"
        assert traffic.connections == 2
        (pool,) = client._pools.values()
        assert len(pool.connections) == 1


async def test_a_dead_peer_is_noticed_by_the_system():
    async with server() as traffic, HTTPClient() as client:
        assert await ask(traffic.url, client) == b"hello"
        (pool,) = client._pools.values()
        raw = pool.connections[0]._socket
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if sys.platform == "linux":
            unacknowledged = raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
            assert unacknowledged == UNACKNOWLEDGED * 1000
    last_probe = PROBED_AFTER + (PROBES - 1) * PROBED_EVERY
    assert last_probe < UNACKNOWLEDGED <= last_probe + PROBED_EVERY


def test_an_option_that_the_system_does_not_have_is_left_out(monkeypatch):
    monkeypatch.setattr(socket, "TCP_KEEPINTVL", 9_999, raising=False)
    monkeypatch.delattr(socket, "TCP_KEEPCNT", raising=False)
    options = socket_options()
    assert options[0] == (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    assert not [each for each in options if each[2] in {PROBED_EVERY, PROBES}]


OK = b"HTTP/1.1 200 OK\r\n"
OK_BODY = OK + b"content-length: 2\r\n\r\nok"


@pytest.mark.parametrize(
    ("method", "answer", "body", "is_reused"),
    [
        ("HEAD", OK + b"content-length: 9\r\n\r\n", b"", True),
        ("GET", b"HTTP/1.1 204 Empty\r\n\r\n", b"", True),
        ("GET", b"HTTP/1.1 304 Same\r\ncontent-length: 9\r\n\r\n", b"", True),
        ("GET", OK + b"content-length: 0\r\n\r\n", b"", True),
        ("GET", OK_BODY, b"ok", True),
        (
            "GET",
            OK + b"transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx: 1\r\n\r\n",
            b"ok",
            True,
        ),
        ("GET", b"HTTP/1.1 103 Hints\r\n\r\n" + OK_BODY, b"ok", True),
        ("GET", OK + b"content-length: 2\r\nconnection: close\r\n\r\nok", b"ok", False),
        ("GET", b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", b"ok", False),
        ("GET", OK + b"content-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n", b"ok", False),
        ("GET", OK + b"\r\nok", b"ok", False),
    ],
)
async def test_the_framing_of_a_response_decides_whether_its_connection_is_used_again(
    method, answer, body, is_reused
):
    async with answering(*[answer] * (1 + is_reused)) as traffic, HTTPClient() as client:
        for _ in range(2):
            assert await ask(traffic.url, client, method=method) == body
        assert traffic.connections == (1 if is_reused else 2)


async def test_headers_of_any_bytes_are_read_and_repeated_ones_are_joined():
    async def serve(stream: anyio.abc.ByteStream) -> None:
        await read_head(stream)
        head = OK + b"A: 1\r\na: 2\r\nB: \xc3\xa9\r\nC: \xe9\r\ncontent-length: 0\r\n\r\n"
        for byte in head:
            await stream.send(bytes([byte]))
        await read_head(stream)
        await stream.send(OK + b"x: " + bytes(200_000))

    async with listening(serve) as traffic, HTTPClient() as client:
        async with client.stream("GET", traffic.url) as response:
            assert await response.read() == b""
            assert (response.headers["a"], response.headers["b"]) == ("1, 2", "\u00e9")
            assert response.headers["c"] == "\u00e9"
        error = await failure(traffic.url, client)
        assert error.kind == "protocol"
        assert "not an HTTP response" in str(error)


async def test_bytes_behind_a_response_that_fills_a_read_are_not_the_next_response():
    head = OK + b"content-length: 65494\r\n\r\n"
    first = head + bytes(READ_SIZE - len(head))

    async def serve(stream: anyio.abc.ByteStream) -> None:
        await read_head(stream)
        if traffic.connections == 1:
            await stream.send(first + OK + b"content-length: 4\r\n\r\nevil")
        else:
            await stream.send(OK + b"content-length: 4\r\n\r\ngood")
        await read_head(stream)

    async with listening(serve) as traffic, HTTPClient() as client:
        async with client.stream("GET", traffic.url) as response:
            await anyio.wait_all_tasks_blocked()
            assert len(await response.read()) == 65494 == READ_SIZE - len(head)
        assert await ask(traffic.url, client) == b"good"


@pytest.mark.parametrize("part", [b"HTTP/1.1 20", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_request_is_not_sent_again_after_a_byte_of_its_answer(part):
    async with answering(OK_BODY, part) as traffic, HTTPClient() as client:
        assert await ask(traffic.url, client) == b"ok"
        assert (await failure(traffic.url, client)).kind == "broken"
        assert len(traffic.heads) == 2


async def test_a_request_whose_client_is_closed_is_not_sent_again():
    sent_twice = anyio.Event()

    async def serve(stream: anyio.abc.ByteStream) -> None:
        traffic.heads.append(await read_head(stream))
        await stream.send(OK_BODY)
        traffic.heads.append(await read_head(stream))
        sent_twice.set()
        await stream.receive()

    async with listening(serve) as traffic, anyio.create_task_group() as tasks:
        async with HTTPClient() as client:
            assert await ask(traffic.url, client) == b"ok"
            tasks.start_soon(failure, traffic.url, client)
            await sent_twice.wait()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert (traffic.connections, len(traffic.heads)) == (1, 2)


async def test_a_request_is_sent_at_most_twice_however_many_connections_are_idle():
    async def serve(stream: anyio.abc.ByteStream) -> None:
        if traffic.connections > 4:
            traffic.heads.append(await read_head(stream))
            return
        await read_head(stream)
        while traffic.connections < 4:
            await anyio.lowlevel.checkpoint()
        await stream.send(OK_BODY)
        traffic.heads.append(await read_head(stream))

    async with listening(serve) as traffic, HTTPClient() as client:
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(ask, traffic.url, client)
        await failure(traffic.url, client)
        assert traffic.connections == 5
        assert len(traffic.heads) == 2


@pytest.mark.parametrize("anyio_backend", [("trio", {"clock": CLOCK})], ids=["trio"])
async def test_the_time_of_connecting_is_not_taken_from_that_of_the_answer(monkeypatch):
    connect = http_transport.connect

    async def connect_slowly(*arguments: Any) -> anyio.abc.ByteStream:
        stream = await connect(*arguments)
        CLOCK.jump(50)
        return stream

    async def serve(stream: anyio.abc.ByteStream) -> None:
        await read_head(stream)
        CLOCK.jump(50)
        await anyio.wait_all_tasks_blocked()
        await stream.send(OK_BODY)

    monkeypatch.setattr(http_transport, "connect", connect_slowly)
    async with listening(serve) as traffic, HTTPClient() as client:
        assert await ask(traffic.url, client, deadlines=Deadlines(first_byte=60)) == b"ok"


@pytest.mark.parametrize("closing", [b"", b"connection: close\r\n"])
async def test_no_connection_retains_the_body_of_a_request(closing):
    content = bytes(200_000)

    async def serve(stream: anyio.abc.ByteStream) -> None:
        received = 0
        while received < len(content):
            received += len(await stream.receive())
        await stream.send(OK + closing + b"content-length: 2\r\n\r\nok")

    references = sys.getrefcount(content)
    gc.disable()
    try:
        async with listening(serve) as traffic, HTTPClient() as client:
            assert await ask(traffic.url, client, method="POST", content=content) == b"ok"
            assert sys.getrefcount(content) == references
    finally:
        gc.enable()
