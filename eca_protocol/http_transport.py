"""The transports of HTTP requests: connections to servers and HTTP proxies, and those of httpx.

httpx parses URLs and makes TLS contexts. Its own transports serve SOCKS proxies, each request with
a new connection, and tests. The number of connections is unlimited: no request waits for one.
"""

from __future__ import annotations

import base64
import functools
import math
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, NamedTuple, Self, TypeAlias

import anyio
import anyio.lowlevel
import attrs
import httpx
from anyio.abc import ByteStream

from eca_protocol.errors import HTTPError, HTTPErrorKind
from eca_protocol.http_connection import CLOSE_DEADLINE, SENT_PIECE, HTTPConnection
from eca_protocol.http_errors import (
    CLOSED_UNANSWERED,
    NO_DESCRIPTORS,
    explained,
    invalid_url,
    is_out_of_descriptors,
    timed_out,
)
from eca_protocol.http_network import SleepDetector, add_tls, connect, socket_options
from eca_protocol.http_request import ConnectionConfig, HTTPRequest
from eca_protocol.proxies import explain_proxy_error
from eca_protocol.tls import make_context

__all__ = [
    "MAX_IDLE",
    "ConnectionPool",
    "Exchange",
    "HTTPXTransport",
    "Transport",
    "make_transport",
]

IDLE_SECONDS = 30
"""Seconds after which an unused connection is closed."""

MAX_IDLE = 20
"""The number of connections above which idle ones are closed."""

STALE = 1.0
"""Seconds within which a reused connection fails if the server had closed it before."""


def make_transport(config: ConnectionConfig) -> Transport:
    """Return a new transport.

    Raises:
        HTTPError: the certificates or the proxy of the configuration cannot be used.
    """
    context: ssl.SSLContext | None = None
    if config.secure:
        try:
            context = make_context(httpx.create_ssl_context, config.ca_file, config.certificate)
        except (OSError, HTTPError) as error:
            if is_out_of_descriptors(error):
                raise HTTPError("resources", NO_DESCRIPTORS) from error
            if isinstance(error, HTTPError):
                raise
            raise HTTPError("config", f"certificates cannot be loaded: {error}") from error
        context.set_alpn_protocols(["http/1.1"])
    try:
        if config.proxy is None:
            return ConnectionPool(context, None)
        proxy = httpx.Proxy(config.proxy)
        if proxy.url.scheme in {"http", "https"}:
            return ConnectionPool(context, _target(config.proxy))
        verify: ssl.SSLContext | bool = context or False
        limits = httpx.Limits(max_keepalive_connections=0)
        return HTTPXTransport(
            httpx.AsyncHTTPTransport(verify=verify, limits=limits, proxy=proxy, trust_env=False),
            _address(proxy.url.host, proxy.url.port or 1080),
        )
    except (ImportError, ValueError, HTTPError, httpx.InvalidURL) as error:
        raise HTTPError("config", explain_proxy_error(error)) from error


class _Server(NamedTuple):
    """The server of a URL, or a proxy."""

    is_secure: bool
    host: str
    port: int


@attrs.frozen
class _Target:
    """A parsed URL: its server, the path with the query, and the login in it."""

    url: httpx.URL
    text: str = attrs.field(repr=False)
    server: _Server
    netloc: str
    path: str = attrs.field(repr=False)
    login: str | None = attrs.field(repr=False)


@functools.lru_cache(maxsize=16)
def _target(text: str) -> _Target:
    """Parse a URL; cached, since it takes longer than the rest of a short request."""
    try:
        url = httpx.URL(text)
        fault = "" if url.host else "has no host."
        if url.port is not None and not 0 <= url.port <= 65535:
            fault = f"has the port {url.port}: expected 1 to 65535."
        if url.scheme not in {"http", "https"}:
            fault = f"has an unsupported protocol '{url.scheme}://'."
        if not url.scheme:
            fault = "is missing an 'http://' or 'https://' protocol."
        if fault:
            raise HTTPError("config", f"not a valid URL: Request URL {fault}")
        is_secure = url.scheme == "https"
        port = url.port or (443 if is_secure else 80)
        server = _Server(is_secure, url.raw_host.decode("ascii"), port)
        login = f"{url.username}:{url.password}".encode() if url.userinfo else b""
    except (httpx.InvalidURL, UnicodeError) as error:  # UnicodeError: an invalid host name
        raise invalid_url(error) from None  # its traceback may show a password
    basic = f"Basic {base64.b64encode(login).decode()}" if login else None
    path = url.raw_path.decode("ascii")
    return _Target(url, str(url), server, url.netloc.decode("ascii"), path, basic)


def _headers(
    request: HTTPRequest, target: _Target, proxy_headers: Mapping[str, str] | None = None
) -> dict[str, str]:
    headers = request.framed_headers(target.netloc, proxy_headers or {})
    if target.login is not None:
        headers.pop("authorization", None)
        headers["Authorization"] = target.login
    return headers


class ConnectionPool:
    """The connections to servers, or to those behind one HTTP proxy.

    Attributes:
        connections: the open connections, the oldest first.
    """

    def __init__(self, context: ssl.SSLContext | None, proxy: _Target | None) -> None:
        self.connections: list[HTTPConnection] = []
        self._context = context
        self._proxy = None if proxy is None else proxy.server
        login = None if proxy is None else proxy.login
        self._proxy_headers = {} if login is None else {"Proxy-Authorization": login}
        self._options = socket_options()
        self._sleep_detector = SleepDetector()
        self._is_closed = False

    async def exchange(self, request: HTTPRequest) -> HTTPConnection:
        """Send a request over an idle connection, or over a new one.

        Raises:
            HTTPError: there is no response.
        """
        target, limits = _target(request.url), request.deadlines
        if self._proxy is None or target.server.is_secure:
            headers, path = _headers(request, target), target.path
        else:
            headers = _headers(request, target, self._proxy_headers)
            path = f"http://{target.netloc}{target.path}"
        head = _head(request.method, path, headers)
        closes = "close" in headers["connection"].lower()
        scope = anyio.CancelScope(deadline=anyio.current_time() + limits.first_byte)
        with nullcontext() if limits.first_byte == math.inf else scope:
            while True:
                connection = await self._take(request, target)
                started = anyio.current_time()
                try:
                    await anyio.lowlevel.checkpoint_if_cancelled()
                    if not connection.start(request.method, head, request.content, closes=closes):
                        scope.deadline = math.inf  # each write has its own limit
                        await connection.send(limits.write)
                        scope.deadline = anyio.current_time() + limits.first_byte
                    await connection.receive_head()
                except BaseException as error:
                    await self._close([connection])
                    is_stale = connection.is_reused and anyio.current_time() - started <= STALE
                    is_broken = isinstance(error, HTTPError) and error.kind == "broken"
                    if request.resend and is_stale and is_broken:
                        continue
                    if str(error) == CLOSED_UNANSWERED and not target.server.is_secure:
                        text = f"{error} If it expects TLS, use https://."
                        raise HTTPError("broken", text) from error
                    raise
                connection.url = target.text
                return connection
        raise timed_out("first_byte", limits.first_byte)

    async def _take(self, request: HTTPRequest, target: _Target) -> HTTPConnection:
        """Return an idle connection, or a new one."""
        if self.connections:
            now, has_slept = anyio.current_time(), self._sleep_detector.has_slept()
            await self._close([each for each in self._idle() if has_slept or each.is_stale(now)])
            for connection in self._idle() if request.address is None else ():
                if connection.server == target.server:
                    connection.idle_until = None
                    connection.is_reused = True
                    return connection
        connection = await self._connect(request, target)
        connection.release = functools.partial(self._release, connection)
        self.connections.append(connection)
        return connection

    async def _connect(self, request: HTTPRequest, target: _Target) -> HTTPConnection:
        limits, server = request.deadlines, target.server
        first, host = server, request.address or server.host
        if self._proxy is not None:
            first, host = self._proxy, self._proxy.host
        where = _address(host, first.port)
        stream = await connect(host, first.port, self._options, limits.connect, where)
        if first.is_secure:
            stream = await add_tls(stream, self._context, first.host, limits.connect, where)
        if self._proxy is not None and server.is_secure:
            await self._open_tunnel(stream, server, limits.connect)
            stream = await add_tls(stream, self._context, server.host, limits.connect, where)
        return HTTPConnection(stream, server)

    async def _open_tunnel(self, stream: ByteStream, server: _Server, seconds: float) -> None:
        """Let the proxy connect its end of the stream to a server, within the seconds."""
        proxy, where = HTTPConnection(stream, server), _address(server.host, server.port)
        headers = {"Host": where, "Accept": "*/*", **self._proxy_headers}
        try:
            with anyio.fail_after(seconds):
                if not proxy.start("CONNECT", _head("CONNECT", where, headers), b"", closes=False):
                    await proxy.send(seconds)
                await proxy.receive_head()
        except TimeoutError:
            await proxy.aclose()
            raise timed_out("connect", seconds) from None
        except BaseException:
            await proxy.aclose()
            raise
        if proxy.status not in range(200, 300):
            await proxy.aclose()
            raise explained(ValueError(f"{proxy.status} {proxy.reason}"), "proxy")

    async def _release(self, connection: HTTPConnection) -> None:
        if self._is_closed or not connection.is_reusable():
            await self._close([connection])
            return
        connection.idle_until = anyio.current_time() + IDLE_SECONDS
        if (surplus := len(self.connections) - MAX_IDLE) > 0:
            await self._close(self._idle()[:surplus])

    def _idle(self) -> list[HTTPConnection]:
        return [each for each in self.connections if each.idle_until is not None]

    async def _close(self, connections: list[HTTPConnection]) -> None:
        if connections:
            self.connections = [each for each in self.connections if each not in connections]
            for connection in connections:
                await connection.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        self._is_closed = True
        await self._close(self.connections)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
    return f"{''.join(lines)}\r\n".encode("ascii")


class HTTPXTransport:
    """A transport of httpx, for SOCKS proxies and for tests.

    Args:
        transport: the transport, whose connections serve one request.
        target: the address that it connects to, if it is known.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport, target: str = "") -> None:
        self._transport = transport
        self._target = target
        self.aclose = transport.aclose

    async def exchange(self, request: HTTPRequest) -> _HTTPXExchange:
        """Send a request.

        Raises:
            HTTPError: there is no response.
        """
        target, limits, stream = _target(request.url), request.deadlines, None
        scope = anyio.CancelScope(deadline=anyio.current_time() + limits.first_byte)
        tunnel = anyio.CancelScope()

        async def trace(event: str, info: Mapping[str, Any]) -> None:
            nonlocal stream
            if event.startswith("http11.send_request_body"):  # each write has its own limit
                seconds = math.inf if event.endswith(".started") else limits.first_byte
                scope.deadline = anyio.current_time() + seconds
            elif event.endswith(".connect_tcp.complete"):
                stream, tunnel.deadline = (
                    info["return_value"],
                    anyio.current_time() + limits.connect,
                )
            elif event == "http11.send_request_headers.started":
                stream, tunnel.deadline = None, math.inf

        timeout = {"connect": limits.connect, "write": limits.write, "read": None, "pool": None}
        with scope, tunnel, _errors_of_httpx(request, self._target):
            try:
                response = await self._transport.handle_async_request(
                    httpx.Request(
                        request.method,
                        target.url,
                        headers=_headers(request, target),
                        stream=_Body(request.content),
                        extensions={"timeout": timeout, "trace": trace},
                    )
                )
                return _HTTPXExchange(response, request)
            finally:
                if stream is not None:  # httpcore forgets a half-open tunnel
                    with anyio.CancelScope(shield=True):
                        await stream.aclose()
        if tunnel.cancelled_caught:
            raise timed_out("connect", limits.connect)
        raise timed_out("first_byte", limits.first_byte)


class _Body(httpx.AsyncByteStream):
    """A body in pieces; no generator, which would have to be closed when it is left halfway."""

    def __init__(self, content: bytes) -> None:
        self._pieces = iter(
            content[start : start + SENT_PIECE] for start in range(0, len(content), SENT_PIECE)
        )

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration


class _HTTPXExchange:
    """A response of httpx, with the members of an `HTTPConnection` that are read."""

    def __init__(self, response: httpx.Response, request: HTTPRequest) -> None:
        self.url, self.status = _target(request.url).text, response.status_code
        self.headers = dict(response.headers.items())
        self._request = request
        self._close = response.aclose
        assert isinstance(response.stream, AsyncIterable)
        self._body: AsyncIterator[bytes] = aiter(response.stream)

    async def read(self, idle: float) -> bytes:
        """Return the next piece of the body, or nothing at its end."""
        with _errors_of_httpx(self._request):
            with anyio.move_on_after(idle):
                return await anext(self._body, b"")
            raise timed_out("idle", idle)

    async def release(self) -> None:
        """Close the connection, and end an unread body by a cancelled read.

        The cancellation closes every generator from the inside; closing the outermost one would
        leave the inner ones to the garbage collector.
        """
        with anyio.move_on_after(CLOSE_DEADLINE, shield=True):
            await self._close()
        with anyio.CancelScope() as scope, suppress(httpx.HTTPError):
            scope.cancel()
            async for _ in self._body:
                pass


@contextmanager
def _errors_of_httpx(request: HTTPRequest, target: str = "") -> Iterator[None]:
    """Raise an `HTTPError` for an exception of httpx."""
    kinds: tuple[tuple[type[Exception] | tuple[type[Exception], ...], HTTPErrorKind], ...] = (
        (httpx.ConnectError, "connect"),
        (httpx.ProxyError, "proxy"),
        (httpx.RemoteProtocolError, "protocol"),
        (httpx.LocalProtocolError, "config"),
        ((httpx.TransportError, OSError), "broken"),  # OSError: of asyncio's TLS
    )
    try:
        yield
    except httpx.ConnectTimeout as error:
        raise timed_out("connect", request.deadlines.connect) from error
    except httpx.WriteTimeout as error:
        raise timed_out("write", request.deadlines.write) from error
    except UnicodeError as error:
        raise HTTPError("config", f"not a valid host name: {error}") from error
    except Exception as error:
        if type(error).__module__.startswith("socksio."):  # httpcore passes on its errors
            raise HTTPError("proxy", f"the SOCKS proxy's reply is not valid: {error}") from error
        if isinstance(error, httpx.NetworkError) and error.__cause__ is not None:
            error.__cause__.__cause__ = error.__cause__.__context__  # httpcore's pool removes it
        for classes, kind in kinds:
            if isinstance(error, classes):
                raise explained(error, kind, target) from error
        raise


Transport: TypeAlias = ConnectionPool | HTTPXTransport
Exchange: TypeAlias = HTTPConnection | _HTTPXExchange
