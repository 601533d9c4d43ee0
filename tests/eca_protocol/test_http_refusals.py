"""Answers that arrive while the request is still being sent, such as a 413."""

from typing import Any

import anyio
import anyio.abc
import pytest
import trustme
from anyio.streams.tls import TLSStream

from eca_protocol.errors import HTTPError
from eca_protocol.http import Deadlines, HTTPClient
from tests.eca_protocol.http_peers import Traffic, listening, read_head, remove_proxies, tls, trust

pytestmark = pytest.mark.anyio

NAME = "model.example"

BODY = bytes(32_000_000)
"""A body that fits in no buffer of a socket."""


@pytest.fixture
def authority(tmp_path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """An authority that this process trusts, for requests without a proxy."""
    remove_proxies(monkeypatch)
    authority = trustme.CA()
    trust(authority, tmp_path / "authority.pem", monkeypatch)
    return authority


def url_of(traffic: Traffic, secure: bool) -> str:
    return f"{'https' if secure else 'http'}://127.0.0.1:{traffic.port}/"


async def send_body(client: HTTPClient, url: str) -> tuple[int, bytes]:
    """Send a large body; return the status of the answer and its text."""
    options: Any = {"content": BODY, "deadlines": Deadlines(write=5)}
    async with client.stream("POST", url, **options) as response:
        response.idle = 10
        return response.status, await response.read()


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize(("status", "closes"), [(401, True), (413, True), (413, False)])
async def test_a_refusal_ends_the_sending_and_is_read(authority, secure, status, closes):
    async def refuse(stream: anyio.abc.ByteStream) -> None:
        await read_head(stream)
        await stream.send(f"HTTP/1.1 {status} No\r\ncontent-length: 7\r\n\r\n".encode())
        await stream.send(b"refused")
        if not closes:
            await finished.wait()

    finished = anyio.Event()
    context = tls(authority, "127.0.0.1") if secure else None
    async with listening(refuse, context) as traffic, HTTPClient() as client:
        assert await send_body(client, url_of(traffic, secure)) == (status, b"refused")
        finished.set()
        (pool,) = client._pools.values()
        assert pool.connections == []


async def test_a_refusal_is_read_through_the_tls_of_a_proxy(authority, monkeypatch):
    async def refuse(stream: anyio.abc.ByteStream) -> None:
        await read_head(stream)
        await stream.send(b"HTTP/1.1 200 OK\r\n\r\n")
        inner = await TLSStream.wrap(stream, server_side=True, ssl_context=context)
        await read_head(inner)
        await inner.send(b"HTTP/1.1 413 No\r\ncontent-length: 7\r\n\r\n")
        await inner.send(b"refused")

    context = tls(authority, NAME)
    async with (
        listening(refuse, tls(authority, "127.0.0.1")) as traffic,
        HTTPClient() as client,
    ):
        monkeypatch.setenv("HTTPS_PROXY", f"https://127.0.0.1:{traffic.port}")
        assert await send_body(client, f"https://{NAME}/") == (413, b"refused")


@pytest.mark.parametrize("secure", [False, True])
async def test_a_body_is_sent_to_its_end_if_the_answer_begins_before(authority, secure):
    async def accept(stream: anyio.abc.ByteStream) -> None:
        size = len((await read_head(stream)).partition("\r\n\r\n")[2])
        await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n")
        while size < len(BODY):
            size += len(await stream.receive())
        await stream.send(b"%d" % size)

    context = tls(authority, "127.0.0.1") if secure else None
    async with listening(accept, context) as traffic, HTTPClient() as client:
        assert await send_body(client, url_of(traffic, secure)) == (200, b"%d" % len(BODY))


@pytest.mark.parametrize(("answer", "kind"), [(b"nonsense\r\n\r\n", "protocol"), (b"", "broken")])
async def test_an_answer_that_is_none_ends_the_sending(authority, answer, kind):
    async def serve(stream: anyio.abc.ByteStream) -> None:
        await read_head(stream)
        await stream.send(answer)
        await stream.send_eof()
        await finished.wait()

    finished = anyio.Event()
    async with listening(serve) as traffic, HTTPClient() as client:
        with pytest.raises(HTTPError) as caught:
            await send_body(client, url_of(traffic, secure=False))
        finished.set()
    assert caught.value.kind == kind
