"""The HTTP client: one streamed request at a time, with a deadline for every wait.

The only module that names httpx, and it imports it in a worker thread at the first request; it uses
its transports and not its client, whose redirects and cookies cost half of a request's time. The
rules it keeps: no request waits for a pool slot; leaving the block closes the connection at once,
however much of the body is unread; chunks that came together are read with a checkpoint every half
millisecond, so that a stream that arrives faster than it is read can still be stopped; no redirect
is followed, so that a key never reaches a host it was not configured for; no cookie is kept; a
connection with bytes behind the end of a response is closed, never reused; every failure below the
status line is an `HTTPError`.
"""

from __future__ import annotations

import functools
import re
import socket
import time
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
import anyio.lowlevel
import anyio.to_thread
import attrs

from eca_protocol.errors import HTTPError, HTTPTimeout
from eca_protocol.http_errors import (
    NO_DESCRIPTORS,
    Deadlines,
    idle_timeout,
    is_out_of_descriptors,
    to_http_error,
)
from eca_protocol.proxies import explain_proxy_error, proxy_for
from eca_protocol.tls import ClientCertificate, TLSObject, make_context

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = ["Deadlines", "HTTPClient", "HTTPResponse"]

PACE = 0.0005
"""Seconds for which buffered chunks are given without a checkpoint: a stop waits as long."""

CLOSE_DEADLINE = 2.0
"""Seconds that closing a connection may take, whatever state it is in."""

STALE = 1.0
"""Seconds within which a kept connection that the server has closed already shows it."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")


class HTTPResponse:
    """An answer whose body is still to come.

    Attributes:
        status: the status code.
        headers: names in lower case, repeated ones joined by `, `.
        url: the URL that was asked.
        idle: seconds the next piece of the body may take; may be made less while reading.
    """

    def __init__(
        self, response: httpx.Response, *, url: str, idle: float, socket_idle: float | None
    ) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = dict(response.headers.items())
        self.url = url
        self.idle = idle
        self.is_read = False  # to its end
        self._socket_idle = socket_idle  # the time that each read of the socket is bounded by
        # The plain stream: httpx's own iterators put two generators more around it.
        assert isinstance(response.stream, AsyncIterable)
        self._body: AsyncIterator[bytes] = aiter(response.stream)

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes, decompressed if need be; to be asked for once.

        Raises:
            HTTPError: the connection broke or the encoding is wrong.
            HTTPTimeout: nothing came for `idle` seconds.
        """
        return _Chunks(self)

    async def read(self, limit: int = 64 * 1024) -> bytes:
        """Up to `limit` bytes of the body; the rest is dropped with the connection.

        Raises:
            HTTPError: as `chunks`.
        """
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) >= limit:
                del body[limit:]
                break
        return bytes(body)

    async def _unwind(self) -> None:
        """Ends a body that was not read to its end, by a read that finds itself cancelled.

        The cancellation runs through every generator below from the inside; closing the outermost
        one would leave the inner ones to the garbage collector.
        """
        with anyio.CancelScope() as scope, suppress(_httpx().HTTPError):
            scope.cancel()
            async for _ in self._body:
                pass


class _Chunks:
    def __init__(self, response: HTTPResponse) -> None:
        self._response = response
        self._next = response._body.__anext__
        self._decompress = _decompressor(response.headers.get("content-encoding", "identity"))
        self._looked = time.perf_counter()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        now = time.perf_counter()
        if now - self._looked > PACE:
            await anyio.lowlevel.checkpoint()
            self._looked = time.perf_counter()
        response = self._response
        try:
            if response.idle == response._socket_idle:
                chunk = await self._next()
            else:
                with anyio.fail_after(response.idle):
                    chunk = await self._next()
            return self._decompress(chunk) if self._decompress else chunk
        except StopAsyncIteration:
            response.is_read = True
            raise
        except TimeoutError:
            raise idle_timeout(response.idle) from None
        except zlib.error as error:
            raise HTTPError("protocol", f"the body cannot be decompressed: {error}") from None
        except Exception as error:
            raise to_http_error(_httpx(), error, Deadlines(idle=response.idle)) or error from error


def _decompressor(encoding: str) -> Callable[[bytes], bytes] | None:
    """We ask for no compression; this is for servers that do not listen."""
    match encoding.strip().lower():
        case "identity" | "":
            return None
        case "gzip" | "x-gzip" | "deflate":
            return zlib.decompressobj(wbits=47).decompress
    raise HTTPError("protocol", f"expected an uncompressed body or gzip, got {encoding!r}")


class HTTPClient:
    """A client with kept connections; `async with` it, then `stream` from any task.

    Proxies are those of the environment at the first request (`HTTPS_PROXY`, `HTTP_PROXY`,
    `ALL_PROXY`, `NO_PROXY`, in either case), certificates those of `SSL_CERT_FILE` or
    `SSL_CERT_DIR` if one is set. Constructing it costs nothing: httpx is imported at the first
    request, certificates are loaded at the first one that needs them.

    Args:
        headers: sent with every request unless it has its own of that name.
        transport: replaces the network, for tests.

    Attributes:
        ca_file: certificates of authorities that are trusted beside those; may be set at any time.
        client_certificate: shown to servers that ask for one, by requests that may show it;
            likewise.
    """

    def __init__(
        self,
        *,
        headers: Mapping[str, str] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._headers = {
            "accept": "*/*",
            "accept-encoding": "identity",
            "connection": "keep-alive",
            "user-agent": "eca-protocol",
        }
        self._headers |= _checked(headers or {})
        self._transport = transport
        self.ca_file: str | None = None
        self.client_certificate: ClientCertificate | None = None
        self._environment: Mapping[str, str] | None = None
        self._transports: dict[_ConnectionConfig, httpx.AsyncBaseTransport] = {}
        self._unread: list[HTTPResponse] = []
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closed = True
        with anyio.move_on_after(CLOSE_DEADLINE, shield=True):
            await self._unwind_unread()
            for transport in (*self._transports.values(), self._transport):
                if transport is not None:
                    await transport.aclose()

    async def _unwind_unread(self) -> None:
        """Unwinds the bodies that were left.

        That reads through what had been received of them, a millisecond or two, which whoever
        stopped a fast stream should not wait for: their connections were closed at once.
        """
        while self._unread:
            await self._unread.pop()._unwind()

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        deadlines: Deadlines | None = None,
        address: str | None = None,
        shows_certificate: bool = False,
        resend: bool = True,
    ) -> AsyncIterator[HTTPResponse]:
        """Sends a request; in the block its answer can be read, after it the body is gone.

        A body that was not read to its end costs its connection. Cancelling closes it at once.
        A request whose kept connection breaks at once, before any byte of an answer, is sent again
        on another one: the server had most likely closed it before, and has dropped it unread.

        Args:
            method: the HTTP method.
            url: an absolute `http` or `https` URL.
            headers: sent with the request; a name replaces the default of that name in any case;
                values lose white space around them (keys are pasted with a line end).
            content: the body.
            deadlines: how long each wait may take.
            address: where to connect in place of what the URL's host resolves to; the name stays in
                `Host`, and the certificate must be for it. Such a connection serves one request. A
                proxy is given the name and resolves it itself.
            shows_certificate: the client's certificate may be shown to the server (and to a proxy
                that is asked over TLS). It tells who the user is: leave it where the URL is not of
                the user's own choice. Requests that show it share no connection with those that do
                not.
            resend: whether it may be sent again like that; not what must on no account run twice.

        Raises:
            HTTPError: no answer could be had; `kind` and text say why.
            HTTPTimeout: a deadline passed; `timer` says which.
        """
        deadlines = deadlines or Deadlines()
        merged = self._headers | _checked(headers or {})
        await self._unwind_unread()
        transport, proxy = await self._transport_for(url, shows_certificate)
        request = _request(method, url, merged, content, deadlines)
        if address is not None and proxy is None:
            _connect_to(request, address)
        response = await _send(transport, request, deadlines, resend=resend)
        # From here on the transport bounds each read of the socket, which costs far less than a
        # scope around each chunk; a transport of a test may not, so there are scopes.
        request.extensions["timeout"]["read"] = deadlines.idle
        socket_idle = None if self._transport else deadlines.idle
        answer = HTTPResponse(
            response, url=str(request.url), idle=deadlines.idle, socket_idle=socket_idle
        )
        try:
            yield answer
        finally:
            with anyio.move_on_after(CLOSE_DEADLINE, shield=True):
                if answer.is_read and _has_surplus(response):
                    _break(response)
                await response.aclose()
            if not answer.is_read:
                self._unread.append(answer)

    async def _transport_for(
        self, url: str, shows_certificate: bool
    ) -> tuple[httpx.AsyncBaseTransport, str | None]:
        """What carries requests to this URL, and the proxy it goes through."""
        if self._closed:
            raise HTTPError("config", "the HTTP client is closed")
        if self._transport is not None:
            return self._transport, None
        proxy = self._proxy_for(url)
        secure = any(each.lower().startswith("https:") for each in (url, proxy or ""))
        config = _ConnectionConfig(
            secure=secure,
            proxy=proxy,
            ca_file=self.ca_file if secure else None,
            certificate=self.client_certificate if secure and shows_certificate else None,
        )
        if config not in self._transports:
            transport = await anyio.to_thread.run_sync(_make_transport, config)
            if config in self._transports or self._closed:
                await transport.aclose()  # another request was quicker, or we are leaving
            else:
                self._transports[config] = transport
        if self._closed:
            raise HTTPError("config", "the HTTP client is closed")
        return self._transports[config], proxy

    def _proxy_for(self, url: str) -> str | None:
        if self._environment is None:
            from urllib.request import getproxies  # noqa: PLC0415 - as slow as all of the rest here

            self._environment = getproxies()
        try:
            return proxy_for(url, self._environment)
        except ValueError as error:
            raise HTTPError("config", f"not a URL that can be asked: {error}") from error


@attrs.frozen(kw_only=True)
class _ConnectionConfig:
    """What requests that share connections have in common."""

    secure: bool
    proxy: str | None
    ca_file: str | None
    certificate: ClientCertificate | None


def _make_transport(config: _ConnectionConfig) -> httpx.AsyncBaseTransport:
    library = _httpx()
    context: ssl.SSLContext | bool = False
    if config.secure:
        try:
            context = make_context(library.create_ssl_context, config.ca_file, config.certificate)
        except (OSError, HTTPError) as error:
            if is_out_of_descriptors(error):
                raise HTTPError("resources", NO_DESCRIPTORS) from error
            if isinstance(error, HTTPError):
                raise
            raise HTTPError("config", f"certificates cannot be loaded: {error}") from error
    limits = library.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30)
    try:
        proxy = config.proxy and _proxy(config.proxy, context)
        transport: httpx.AsyncBaseTransport = library.AsyncHTTPTransport(
            verify=context, limits=limits, proxy=proxy, trust_env=False
        )
    except (ImportError, ValueError, library.InvalidURL) as error:
        raise HTTPError("config", explain_proxy_error(error)) from error
    return transport


def _httpx() -> ModuleType:
    import httpx  # noqa: PLC0415 - loading it takes 45 ms, which nobody pays who sends nothing

    return httpx


@functools.cache
def _body_type() -> type[httpx.ByteStream]:
    class Body(_httpx().ByteStream):  # type: ignore[misc]  # the module is known as any
        """A body that can be left halfway; httpx's own is a generator, which wants to be closed."""

        def __aiter__(self) -> Self:
            self._rest: list[bytes] = [self._stream]
            return self

        async def __anext__(self) -> bytes:
            if self._rest:
                return self._rest.pop()
            raise StopAsyncIteration

    return Body


def _request(
    method: str, url: str, headers: Mapping[str, str], content: bytes, deadlines: Deadlines
) -> httpx.Request:
    library = _httpx()
    limits = {"connect": deadlines.connect, "write": deadlines.write, "read": None, "pool": None}
    try:
        request: httpx.Request = library.Request(
            method, _url(url), headers=headers, content=content, extensions={"timeout": limits}
        )
    except (library.InvalidURL, UnicodeError) as error:  # a host that is no name is the latter
        raise HTTPError("config", f"not a URL that can be asked: {error}") from error
    if request.url.userinfo:
        login = library.BasicAuth(request.url.username, request.url.password)
        next(login.sync_auth_flow(request))
    request.stream = _body_type()(content)
    return request


@functools.lru_cache(maxsize=16)
def _url(text: str) -> httpx.URL:
    """Parsed once: it takes as long as all of the rest of a request's making."""
    url: httpx.URL = _httpx().URL(text)
    return url


def _proxy(address: str, context: ssl.SSLContext | bool) -> httpx.Proxy:
    is_secure = address.lower().startswith("https:")  # the config to the proxy, whatever is asked
    proxy: httpx.Proxy = _httpx().Proxy(address, ssl_context=context if is_secure else None)
    return proxy


def _connect_to(request: httpx.Request, address: str) -> None:
    """Let a request connect to an address in the name of its host."""
    name = request.url.raw_host.decode("ascii")
    request.headers["connection"] = "close"  # nobody else may find it under the bare address
    request.url = request.url.copy_with(host=address)
    request.extensions["sni_hostname"] = name.strip("[]")


async def _send(
    transport: httpx.AsyncBaseTransport,
    request: httpx.Request,
    deadlines: Deadlines,
    *,
    resend: bool,
) -> httpx.Response:
    first_byte = deadlines.first_byte
    with anyio.CancelScope(deadline=anyio.current_time() + first_byte):
        while True:
            connected = False
            began = anyio.current_time()

            async def trace(event: str, _info: Mapping[str, Any]) -> None:
                nonlocal connected
                connected = connected or event.startswith("connection.connect")

            request.extensions["trace"] = trace
            try:
                return await transport.handle_async_request(request)
            except Exception as error:
                fault = to_http_error(_httpx(), error, deadlines)
                if fault is None:
                    raise
                is_stale = not connected and anyio.current_time() - began <= STALE
                if not (resend and is_stale and fault.kind == "broken"):
                    raise fault from error
    raise HTTPTimeout("first_byte", first_byte, f"no answer began within {first_byte:g} s")


def _has_surplus(response: httpx.Response) -> bool:
    """Return whether bytes behind the end of a response were received.

    They would be read as the response to the next request. Bytes that are still in the socket
    need no look: httpcore drops an idle connection whose socket can be read. Where the library's
    parser cannot be reached, its connection counts as one with a surplus: that costs a connection,
    not a wrong response.
    """
    connection = response.extensions.get("network_stream")
    if connection is None:
        return False  # the transport of a test
    secured = connection.get_extra_info("ssl_object")
    if secured is not None and (not isinstance(secured, TLSObject) or secured.has_unread_bytes):
        return True
    try:
        # No public name leads from a response to its parser: through httpx, the pool, to h11.
        stream: Any = response.stream
        surplus, _ = stream._httpcore_stream._stream._connection._h11_state.trailing_data
    except AttributeError:
        return True
    return bool(surplus)


def _break(response: httpx.Response) -> None:
    """Shut a connection down: httpcore finds it at its end and drops it before its next use."""
    connection = response.extensions["network_stream"].get_extra_info("socket")
    with suppress(OSError):  # the server was quicker
        connection.shutdown(socket.SHUT_RDWR)


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    checked = {}
    for name, raw in headers.items():
        value = raw.strip()
        if not _NAME.fullmatch(name):
            raise HTTPError("config", f"header {name!r}: expected a header name")
        if not _VALUE.fullmatch(value):
            odd = next(char for char in value if not _VALUE.fullmatch(char))
            raise HTTPError(
                "config", f"header {name}: expected printable ASCII, got U+{ord(odd):04X} in it"
            )
        checked[name.lower()] = value
    return checked
