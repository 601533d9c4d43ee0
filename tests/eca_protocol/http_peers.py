"""Peers for an HTTP client: a server with or without TLS, a proxy, an authority."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import attrs
import pytest
import trustme
from anyio.streams.tls import TLSListener

from eca_protocol.errors import HTTPError
from eca_protocol.http import HTTPClient


@attrs.define
class Traffic:
    """The traffic of a server: its port, the heads of its requests, the number of connections."""

    port: int
    heads: list[str] = attrs.field(factory=list)
    connections: int = 0
    _open: int = 0
    _closed: anyio.Event = attrs.field(factory=anyio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @contextmanager
    def connected(self) -> Iterator[None]:
        self.connections, self._open = self.connections + 1, self._open + 1
        yield
        self._open -= 1
        self._closed.set()
        self._closed = anyio.Event()

    async def until_closed(self) -> None:
        """Wait until no connection is open."""
        with anyio.fail_after(5):
            while self._open:
                await self._closed.wait()


async def read_head(stream: anyio.abc.ByteReceiveStream) -> str:
    head = b""
    while b"\r\n\r\n" not in head:
        head += await stream.receive()
    return head.decode()


@asynccontextmanager
async def listening(
    serve: Callable[[anyio.abc.ByteStream], Awaitable[None]], context: ssl.SSLContext | None = None
) -> AsyncIterator[Traffic]:
    """Serve each connection until its peer ends it, over TLS if there is a context."""
    tcp = await anyio.create_tcp_listener(local_host="127.0.0.1")
    traffic = Traffic(tcp.extra(anyio.abc.SocketAttribute.local_port))
    listener = tcp if context is None else TLSListener(tcp, context, standard_compatible=False)

    async def connected(stream: anyio.abc.ByteStream) -> None:
        with traffic.connected():
            async with stream:
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                    await serve(stream)

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, connected)
        yield traffic
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def server(
    context: ssl.SSLContext | None = None, content_type: str = "text/html"
) -> AsyncIterator[Traffic]:
    """Answer each request with `hello`, over TLS if there is a context."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: 5\r\n\r\n"

    async def answer(stream: anyio.abc.ByteStream) -> None:
        while True:
            traffic.heads.append(await read_head(stream))
            await stream.send(f"{head}hello".encode())

    async with listening(answer, context) as traffic:
        yield traffic


@asynccontextmanager
async def answering(*answers: bytes) -> AsyncIterator[Traffic]:
    """Answer the requests of each connection with these bytes, and then close it."""

    async def answer(stream: anyio.abc.ByteStream) -> None:
        for each in answers:
            traffic.heads.append(await read_head(stream))
            await stream.send(each)

    async with listening(answer) as traffic:
        yield traffic


async def ask(
    url: str, client: HTTPClient | None = None, *, method: str = "GET", **options: Any
) -> bytes:
    """Return the body of an answer; without a client, one of its own asks."""
    if client is None:
        async with HTTPClient() as client:
            return await ask(url, client, method=method, **options)
    async with client.stream(method, url, **options) as response:
        return await response.read()


async def failure(url: str, client: HTTPClient | None = None, **options: Any) -> HTTPError:
    """Return the error of a request."""
    with pytest.raises(HTTPError) as caught, anyio.fail_after(30):
        await ask(url, client, **options)
    return caught.value


@asynccontextmanager
async def proxy(leads_to: int) -> AsyncIterator[Traffic]:
    """Run a proxy that connects every name to the same server on this machine."""

    async def pass_on(stream: anyio.abc.ByteStream) -> None:
        head = await read_head(stream)
        traffic.heads.append(head)
        async with await anyio.connect_tcp("127.0.0.1", leads_to) as far:
            if head.startswith("CONNECT"):
                await stream.send(b"HTTP/1.1 200 OK\r\n\r\n")
            else:
                await far.send(head.encode())
            await join(stream, far)

    async with listening(pass_on) as traffic:
        yield traffic


async def join(one: anyio.abc.ByteStream, other: anyio.abc.ByteStream) -> None:
    """Send on what either stream receives, until one of them ends."""

    async def pump(source: anyio.abc.ByteStream, sink: anyio.abc.ByteStream) -> None:
        try:
            while True:
                await sink.send(await source.receive())
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await sink.aclose()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pump, one, other)
        tasks.start_soon(pump, other, one)


def tls(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    return context


def mutual_tls(authority: trustme.CA, name: str) -> ssl.SSLContext:
    """Return the TLS context of a server that demands a client certificate of the authority."""
    context = tls(authority, name)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def trust(authority: trustme.CA, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process trust only one authority."""
    authority.cert_pem.write_to_path(str(bundle))
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))


def remove_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the proxies from the environment."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
