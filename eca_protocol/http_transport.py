"""The connections of HTTP requests, to servers and to proxies.

httpx parses URLs and makes TLS contexts. The number of connections is unlimited: no request waits
for one.
"""

from __future__ import annotations

import base64
import functools
import math
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import NamedTuple

import anyio
import anyio.lowlevel
import attrs
import httpx
from anyio.abc import ByteStream

from eca_protocol.errors import HTTPError
from eca_protocol.http_connection import HTTPConnection
from eca_protocol.http_errors import (
    CLOSED_UNANSWERED,
    NO_DESCRIPTORS,
    invalid_url,
    is_out_of_descriptors,
    timed_out,
)
from eca_protocol.http_network import SleepDetector, add_tls, connect, socket_options
from eca_protocol.http_request import ConnectionConfig, HTTPRequest
from eca_protocol.proxies import PROXY_LOGIN, explain_proxy_error
from eca_protocol.tls import make_context

__all__ = ["MAX_IDLE", "ConnectionPool", "make_pool"]

IDLE_SECONDS = 30
"""Seconds after which an unused connection is closed."""

MAX_IDLE = 20
"""The number of connections above which idle ones are closed."""

PORTS = range(1, 65536)
"""The ports that a URL may name; 0 is none."""

STALE = 1.0
"""Seconds within which a reused connection fails if the server had closed it before."""


def make_pool(config: ConnectionConfig) -> ConnectionPool:
    """Return a new pool without connections.

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
        return ConnectionPool(context, None if config.proxy is None else _proxy(config.proxy))
    except (ImportError, ValueError, HTTPError, httpx.InvalidURL) as error:
        raise HTTPError("config", explain_proxy_error(error)) from None  # as in `_target`


class _Server(NamedTuple):
    """The server of a URL, or a proxy."""

    is_secure: bool
    host: str
    port: int


class _Proxy(NamedTuple):
    """A proxy: its server, and what connects it to the server of a request."""

    server: _Server
    headers: Mapping[str, str] | None
    """The headers for requests without TLS, which it forwards; None: they need a tunnel, too."""
    open_tunnel: Callable[[ByteStream, str, int], Awaitable[None]]


@attrs.frozen
class _Target:
    """A parsed URL, its server, the path with the query, and the login in it."""

    url: str = attrs.field(repr=False)
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
        if url.port is not None and url.port not in PORTS:
            raise invalid_url(ValueError("Invalid port"))
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
    return _Target(str(url), server, url.netloc.decode("ascii"), path, basic)


def _proxy(address: str) -> _Proxy:
    """Return the proxy of an address; a SOCKS proxy needs an optional package."""
    proxy = httpx.Proxy(address)
    if proxy.url.scheme in {"http", "https"}:
        target = _target(address)
        headers = {} if target.login is None else {"Proxy-Authorization": target.login}
        return _Proxy(target.server, headers, functools.partial(_connect_tunnel, headers))
    from eca_protocol.http_socks import open_tunnel  # noqa: PLC0415 - its package is optional

    host, port = proxy.url.raw_host.decode("ascii"), proxy.url.port
    port = 1080 if port is None else port
    if not host or port not in PORTS:
        raise ValueError(port)
    with_login = functools.partial(open_tunnel, name=_address(host, port), login=proxy.auth)
    return _Proxy(_Server(False, host, port), None, with_login)


async def _connect_tunnel(
    headers: Mapping[str, str], stream: ByteStream, host: str, port: int
) -> None:
    """Let an HTTP proxy connect its end of a stream to a server."""
    proxy, where = HTTPConnection(stream, None), _address(host, port)
    head = _head("CONNECT", where, {"Host": where, "Accept": "*/*", **headers})
    if not proxy.start("CONNECT", head, b"", closes=False):
        await proxy.send(math.inf)
    await proxy.receive_head()
    if proxy.status == 407:
        raise HTTPError("config", f"the proxy requires a login: {PROXY_LOGIN}")
    if proxy.status not in range(200, 300):
        raise HTTPError("proxy", f"the proxy refused: {proxy.status} {proxy.reason}")


class ConnectionPool:
    """The connections to servers, or to those behind one proxy.

    Attributes:
        connections: the open connections, the oldest first.
    """

    def __init__(self, context: ssl.SSLContext | None, proxy: _Proxy | None) -> None:
        self.connections: list[HTTPConnection] = []
        self._context = context
        self._proxy = proxy
        self._options = socket_options()
        self._sleep_detector = SleepDetector()
        self._is_closed = False

    async def exchange(self, request: HTTPRequest) -> HTTPConnection:
        """Send a request over an idle connection, or over a new one.

        Raises:
            HTTPError: there is no response.
        """
        target, limits = _target(request.url), request.deadlines
        path, added = target.path, None if self._proxy is None else self._proxy.headers
        if added is not None and not target.server.is_secure:
            path = f"http://{target.netloc}{path}"
        else:
            added = {}
        headers = request.framed_headers(target.netloc, added)
        if target.login is not None:
            headers.pop("authorization", None)
            headers["Authorization"] = target.login
        head = _head(request.method, path, headers)
        closes, takes_idle = "close" in headers["connection"].lower(), request.address is None
        scope = anyio.CancelScope(deadline=anyio.current_time() + limits.first_byte)
        with nullcontext() if limits.first_byte == math.inf else scope:
            while True:
                connection = await self._take(request, target, takes_idle=takes_idle)
                started = anyio.current_time()
                try:
                    await anyio.lowlevel.checkpoint_if_cancelled()
                    is_sent = connection.start(request.method, head, request.content, closes=closes)
                    if not is_sent:
                        scope.deadline = math.inf  # each write has its own limit
                        await connection.send(limits.write)
                    if not is_sent or not connection.is_reused:
                        scope.deadline = anyio.current_time() + limits.first_byte
                    await connection.receive_head()
                except BaseException as error:
                    await self._close([connection])
                    is_stale = connection.is_reused and anyio.current_time() - started <= STALE
                    is_broken = isinstance(error, HTTPError) and error.kind == "broken"
                    may_have_run = connection.is_answered or self._is_closed
                    if request.resend and is_stale and is_broken and not may_have_run:
                        takes_idle = False  # another may be broken as well: send at most twice
                        continue
                    if str(error) == CLOSED_UNANSWERED and not target.server.is_secure:
                        text = f"{error} If it expects TLS, use https://."
                        raise HTTPError("broken", text) from error
                    raise
                connection.url = target.url
                return connection
        raise timed_out("first_byte", limits.first_byte)

    async def _take(
        self, request: HTTPRequest, target: _Target, *, takes_idle: bool
    ) -> HTTPConnection:
        """Return an idle connection, or a new one."""
        if self.connections:
            now, has_slept = time.monotonic(), self._sleep_detector.has_slept()
            await self._close([each for each in self._idle() if has_slept or each.is_stale(now)])
            for connection in self._idle() if takes_idle else ():
                if connection.server == target.server:
                    connection.idle_until = None
                    connection.is_reused = True
                    return connection
        connection = await self._connect(request, target)
        self.connections.append(connection)
        return connection

    async def _connect(self, request: HTTPRequest, target: _Target) -> HTTPConnection:
        limits, server = request.deadlines, target.server
        first, host = server, request.address or server.host
        if self._proxy is not None:
            first, host = self._proxy.server, self._proxy.server.host
        where = _address(host, first.port)
        stream = await connect(host, first.port, self._options, limits.connect, where)
        try:
            if first.is_secure:
                stream = await add_tls(stream, self._context, first.host, limits.connect, where)
            if self._proxy is not None:
                if server.is_secure or self._proxy.headers is None:
                    await _open_tunnel(self._proxy, stream, server, limits.connect)
                if server.is_secure:
                    host = server.host
                    stream = await add_tls(stream, self._context, host, limits.connect, where)
            return HTTPConnection(stream, server)
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise

    async def release(self, connection: HTTPConnection) -> None:
        """End an exchange; close its connection, unless it can be used again."""
        if self._is_closed or not connection.is_reusable():
            await self._close([connection])
            return
        now = time.monotonic()  # it advances also while this process is stopped
        connection.idle_until = now + IDLE_SECONDS
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


async def _open_tunnel(proxy: _Proxy, stream: ByteStream, server: _Server, seconds: float) -> None:
    """Let the proxy connect its end of the stream to a server, within the seconds."""
    with anyio.move_on_after(seconds):
        await proxy.open_tunnel(stream, server.host, server.port)
        return
    raise timed_out("connect", seconds)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
    return f"{''.join(lines)}\r\n".encode("ascii")
