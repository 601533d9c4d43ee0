"""Chunks that arrive together: joined, and otherwise read as h11 reads them. The sent request."""

import socket
from itertools import pairwise

import anyio
import anyio.abc
import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eca_protocol.errors import HTTPError
from eca_protocol.http import HTTPClient
from eca_protocol.http_connection import JoinedChunks
from eca_protocol.testing.provider import Provider, burst, reply
from tests.eca_protocol.http_peers import ask, listening, server

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
    contents = [b"one", b"", b"\r\n\r\n", b"two"]

    async def answer(stream: anyio.abc.ByteStream) -> None:
        while True:
            received.append(await stream.receive())
            await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    async with listening(answer) as traffic, HTTPClient() as client:
        for content in contents:
            assert await ask(traffic.url, client, method="POST", content=content) == b""
    assert [each.partition(b"\r\n\r\n")[2] for each in received] == contents


@pytest.mark.parametrize("written", [10, 0, None])
async def test_a_socket_that_takes_a_part_of_a_request_or_fails_at_first_gets_all(
    monkeypatch, written
):
    send, attempts = socket.socket.send, []

    def send_part(self: socket.socket, data: bytes, *flags: int) -> int:
        if self.family != socket.AF_INET:  # by which threads wake up trio
            return send(self, data, *flags)
        attempts.append(data)
        if written is None:
            raise BlockingIOError
        return send(self, data[:written], *flags) if written else 0

    async with server() as traffic, HTTPClient() as client:
        with monkeypatch.context() as patched:
            patched.setattr(socket.socket, "send", send_part)
            for _ in range(2):
                assert await ask(traffic.url, client) == b"hello"
    assert len(traffic.heads) == 2
    assert all(head.startswith("GET / HTTP/1.1") for head in traffic.heads)
    assert len(attempts) == 2


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
        await ask(traffic.url, client, method=method, headers=headers, content=content)
    lines = traffic.heads[0].replace(str(traffic.port), "PORT").splitlines()
    assert [each for each in lines if each.lower().startswith(("host:", "content-le"))] == added


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "headers"),
    [("NO METHOD", {}), ("POST", {"content-length": "9"}), ("POST", {"transfer-encoding": "x"})],
)
async def test_a_request_that_cannot_be_framed_is_not_sent(method, headers):
    async with server() as traffic, HTTPClient() as client:
        url = traffic.url
        with pytest.raises(HTTPError, match=r"^not a valid request: ") as caught:
            async with client.stream(method, url, headers=headers, content=b"{}"):
                pass
    assert caught.value.kind == "config"
    assert traffic.heads == []
