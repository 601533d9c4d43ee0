"""Chunks that arrive together: joined, and otherwise read as h11 reads them. Dead peers."""

import os
import socket
import sys
from contextlib import suppress
from itertools import pairwise
from typing import Any
from unittest.mock import AsyncMock, Mock

import anyio
import anyio.abc
import h11
import httpcore
import httpx
import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from eca_protocol import platforms
from eca_protocol.http import HTTPClient
from eca_protocol.http_connection import (
    PROBED_AFTER,
    PROBED_EVERY,
    PROBES,
    UNACKNOWLEDGED,
    JoinedChunks,
    socket_options,
)
from eca_protocol.http_transport import MAX_IDLE, close_idle, replace_pool
from eca_protocol.testing.provider import Provider, burst, reply
from tests.eca_protocol.http_peers import Traffic, server

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def read(pieces: list[bytes], *, is_joined: bool) -> tuple[bytes, str, bytes]:
    """Return the body of a response, how it ended, and the bytes behind it."""
    parser = h11.Connection(h11.CLIENT)
    request = h11.Request(method="GET", target="/", headers=[("host", "model")])
    parser.send(request)
    parser.send(h11.EndOfMessage())
    parser.receive_data(HEAD)
    parser.next_event()
    if is_joined:
        parser._reader = JoinedChunks(parser._reader)
    body = b""
    for piece in (*pieces, b""):
        parser.receive_data(piece)
        while True:
            try:
                event = parser.next_event()
            except h11.RemoteProtocolError as error:
                return body, str(error), b""
            if event is h11.NEED_DATA:
                break
            if not isinstance(event, h11.Data):
                return body, repr(event), bytes(parser.trailing_data[0])
            body += event.data
    raise AssertionError("h11 ends every body")


CHUNKS = st.builds(
    lambda data, head, end: head % len(data) + data + end,
    st.binary(min_size=1, max_size=20),
    st.sampled_from(
        [b"%x\r\n", b"%X\r\n", b"%012x\r\n", b"%x;name=value\r\n", b"%x \r\n", b"+%x\r\n"]
    ),
    st.sampled_from([b"\r\n"] * 6 + [b"\n", b"", b"x\r\n"]),
)
ENDS = st.sampled_from(
    [b"0\r\n\r\n", b"0\r\n\r\nHTTP/1.1", b"00\r\nmark: 1\r\n\r\n", b"0\r\n", b""]
)


@given(st.lists(CHUNKS, max_size=6), ENDS, st.lists(st.integers(0, 200), max_size=5))
@example([b"1\r\na\r\n", b"1\r\nb\r\n"], b"0\r\n\r\n", [])
def test_joined_chunks_are_the_body_that_h11_reads_with_its_end_and_its_errors(chunks, end, cuts):
    sent = b"".join([*chunks, end])
    places = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    pieces = [sent[first:last] for first, last in pairwise(places)]
    assert read(pieces, is_joined=True) == read(pieces, is_joined=False)


@pytest.mark.anyio
async def test_chunks_that_arrive_together_are_one_and_the_connection_serves_on():
    async with Provider(lambda _: reply(burst(1000, "word"))) as provider, HTTPClient() as client:
        for _ in range(2):
            async with client.stream("POST", provider.url + "/chat/completions") as response:
                assert response.headers["transfer-encoding"] == "chunked"
                chunks = [chunk async for chunk in response.chunks()]
            assert b"".join(chunks).count(b'"word"') == 1000
            assert len(chunks) < 100
            assert provider.open_connections == 1


@pytest.mark.anyio
async def test_a_request_is_received_in_one_piece():
    received: list[bytes] = []
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    url = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}/"

    async def answer(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            with suppress(anyio.EndOfStream):
                while True:
                    received.append(await stream.receive())
                    await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        async with HTTPClient() as client:
            for content in (b"one", b"", b"\r\n\r\n", b"two"):
                async with client.stream("POST", url, content=content) as response:
                    assert await response.read() == b""
        tasks.cancel_scope.cancel()
    assert [each.partition(b"\r\n\r\n")[2] for each in received] == [
        b"one",
        b"",
        b"\r\n\r\n",
        b"two",
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("written", [10, 0, None])
async def test_a_socket_that_takes_a_part_of_a_request_or_fails_at_first_gets_all(
    monkeypatch, written
):
    write, descriptors = os.write, set()

    def write_part(descriptor: int, data: bytes) -> int:
        descriptors.add(descriptor)
        if written is None:
            raise BlockingIOError
        return write(descriptor, data[:written])

    async with server() as traffic, HTTPClient() as client:
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", write_part)
            for _ in range(2):
                assert await body_from(client, traffic) == b"hello"
    assert len(traffic.heads) == 2
    assert all(head.startswith("GET / HTTP/1.1") for head in traffic.heads)
    assert len(descriptors) == (os.name == "posix" and trio.lowlevel.in_trio_run())


@pytest.mark.anyio
async def test_a_body_that_was_read_leaves_its_connection_to_the_next_even_if_cancelled():
    async with server() as traffic, HTTPClient() as client:
        for _ in range(3):
            with anyio.CancelScope() as scope:
                url = f"http://127.0.0.1:{traffic.port}/"
                async with client.stream("GET", url) as response:
                    assert await response.read() == b"hello"
                    scope.cancel()
        assert traffic.connections == 1


@pytest.mark.anyio
@pytest.mark.parametrize("replaces_pool", [True, False])
async def test_a_connection_serves_on_without_the_private_names_of_httpx_too(
    monkeypatch, replaces_pool
):
    if not replaces_pool:
        monkeypatch.setattr("eca_protocol.http_transport.replace_pool", lambda _: None)
    async with server() as traffic, HTTPClient() as client:
        for _ in range(3):
            assert await body_from(client, traffic) == b"hello"
        assert traffic.connections == 1
        (transport,) = client._transports.values()
        assert isinstance(transport, httpx.AsyncHTTPTransport)
        assert isinstance(transport._pool, httpcore.AsyncConnectionPool) is not replaces_pool


def test_a_transport_without_those_names_is_left_as_it_is():
    transport = httpx.MockTransport(lambda _: httpx.Response(200))
    before = dict(vars(transport))
    replace_pool(transport)
    assert vars(transport) == before


@pytest.mark.anyio
async def test_many_requests_at_once_leave_few_idle_connections():
    async with server() as traffic, HTTPClient() as client:
        async with anyio.create_task_group() as tasks:
            for _ in range(3 * MAX_IDLE):
                tasks.start_soon(body_from, client, traffic)
        assert traffic.connections > MAX_IDLE
        (transport,) = client._transports.values()
        assert isinstance(transport, httpx.AsyncHTTPTransport)
        open_ones = [each for each in transport._pool.connections if not each.is_closed()]
        assert len(open_ones) == MAX_IDLE


@pytest.mark.anyio
async def test_no_connection_is_closed_that_a_request_took_while_others_were_closed():
    idle, taken = (
        Mock(aclose=AsyncMock(), is_closed=lambda: False, is_idle=Mock(return_value=True))
        for _ in range(2)
    )
    idle.aclose.side_effect = lambda: setattr(taken.is_idle, "return_value", False)
    await close_idle(Mock(_pool=Mock(connections=[idle, taken])))
    assert (idle.aclose.await_count, taken.aclose.await_count) == (1, 0)


@pytest.mark.anyio
async def test_a_dead_peer_is_noticed_by_the_system(monkeypatch):
    made: list[Any] = []
    transport_class = httpx.AsyncHTTPTransport

    def make(**options: Any) -> httpx.AsyncBaseTransport:
        made.append(options["socket_options"])
        return transport_class(**options)

    monkeypatch.setattr(httpx, "AsyncHTTPTransport", make)
    async with server() as traffic, HTTPClient() as client:
        assert await body_from(client, traffic) == b"hello"
    (options,) = made
    assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in options
    if sys.platform == "linux":
        assert (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED * 1000) in options
    last_probe = PROBED_AFTER + (PROBES - 1) * PROBED_EVERY
    assert last_probe < UNACKNOWLEDGED <= last_probe + PROBED_EVERY


def test_an_option_that_the_system_does_not_have_is_left_out(monkeypatch):
    monkeypatch.setattr(socket, "TCP_KEEPINTVL", 9_999, raising=False)
    monkeypatch.delattr(socket, "TCP_KEEPCNT", raising=False)
    options = socket_options()
    assert options[0] == (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    assert not [each for each in options if each[2] in {PROBED_EVERY, PROBES}]


@pytest.mark.anyio
async def test_no_connection_is_used_again_once_the_machine_has_slept(monkeypatch):
    asleep, uptime = 0.0, platforms.uptime
    monkeypatch.setattr(platforms, "uptime", lambda: uptime() + asleep)
    async with server() as traffic, HTTPClient() as client:
        for slept in (0.0, 0.0, 3_600.0, 0.0):
            asleep += slept
            assert await body_from(client, traffic) == b"hello"
        assert traffic.connections == 2
        (transport,) = client._transports.values()
        assert isinstance(transport, httpx.AsyncHTTPTransport)
        assert len(transport._pool.connections) == 1


async def body_from(client: HTTPClient, traffic: Traffic) -> bytes:
    async with client.stream("GET", f"http://127.0.0.1:{traffic.port}/") as response:
        return await response.read()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "content", "headers", "added"),
    [
        ("GET", b"", {}, ["Host: 127.0.0.1:PORT"]),
        ("DELETE", b"", {}, ["Host: 127.0.0.1:PORT"]),
        ("POST", b"", {}, ["Host: 127.0.0.1:PORT", "Content-Length: 0"]),
        ("POST", b"{}", {}, ["Host: 127.0.0.1:PORT", "Content-Length: 2"]),
        ("GET", b"", {"HOST": "other"}, ["host: other"]),
    ],
)
async def test_a_request_has_its_host_and_the_length_of_its_body(method, content, headers, added):
    async with server() as traffic, HTTPClient() as client:
        url = f"http://127.0.0.1:{traffic.port}/"
        async with client.stream(method, url, headers=headers, content=content) as response:
            await response.read()
    lines = traffic.heads[0].replace(str(traffic.port), "PORT").splitlines()
    assert [each for each in lines if each.lower().startswith(("host:", "content-le"))] == added
