"""The HTTP client: streamed responses, with a deadline for every wait.

Only this module imports httpx, in a worker thread at the first request. It uses httpx's transports
and not its client, whose redirects and cookies take half of a request's time. Rules:

- No request waits for a slot in a connection pool.
- Leaving the block closes the connection at once, even if the body is unread.
- Buffered chunks are returned with a checkpoint every half millisecond, so that a stream that
  arrives faster than it is read can still be stopped.
- No redirect is followed, so that a key never reaches a host it was not configured for.
- No cookie is stored.
- A connection with bytes behind the end of a response is closed, not reused; an idle one is closed
  if the machine has slept. A dead peer is noticed by TCP (`socket_options`).
- Chunks that have arrived together are returned as one (`http_connection`), and a short request
  leaves in one piece (`http_transport`).
- Every failure below the status line is an `HTTPError`.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import anyio
import anyio.lowlevel
import anyio.to_thread

from eca_protocol.decompression import decompressor_for
from eca_protocol.errors import HTTPError, HTTPTimeout
from eca_protocol.http_connection import (
    SleepDetector,
    has_surplus,
    join_chunks,
    shut_down,
    with_framing,
)
from eca_protocol.http_errors import (
    Deadlines,
    checked_headers,
    file_errors_explained,
    idle_timeout,
    proxy_errors_explained,
    to_http_error,
)
from eca_protocol.http_transport import MAX_IDLE, ConnectionConfig, close_idle, make_transport
from eca_protocol.http_tunnel import Trace, tunnel
from eca_protocol.proxies import proxy_for
from eca_protocol.tls import ClientCertificate

if TYPE_CHECKING:
    import httpx

__all__ = ["Deadlines", "HTTPClient", "HTTPResponse"]

_OF_WEB_SOCKETS = {"ws", "wss"}  # httpcore would connect

PACE = 0.0005
"""Seconds between the checkpoints while buffered chunks are read: the delay of a stop."""

SENT_PIECE = 64 * 1024
"""The size of the pieces of a sent body, in bytes: small enough for the slowest links."""

CLOSE_DEADLINE = 2.0
"""The limit for closing a connection, in seconds."""

EXCERPT_DEADLINE = 10.0
"""The limit for the body of a refusal, in seconds."""

CUT = "the connection was lost: the compressed body ended before its end mark"

STALE = 1.0
"""Seconds within which a reused connection fails if the server had closed it before."""


class HTTPResponse:
    """A response whose body is streamed.

    Attributes:
        status: the status code.
        headers: by name in lower case; repeated ones are joined by `, `.
        url: the URL of the request.
        idle: the limit for the next chunk of the body, in seconds; may be reduced while reading.
    """

    def __init__(
        self, response: httpx.Response, url: httpx.URL, *, idle: float, socket_idle: float | None
    ) -> None:
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = dict(response.headers.items())
        self.url: str = str(url)
        self.idle = idle
        self.is_read = False  # to its end
        self._socket_idle = socket_idle  # the limit of each read of the socket
        # The plain stream: httpx's iterators wrap it in two more generators.
        assert isinstance(response.stream, AsyncIterable)
        self._body: AsyncIterator[bytes] = aiter(response.stream)
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            join_chunks(response)

    def chunks(self) -> AsyncIterator[bytes]:
        """Return an iterator over the decompressed body; call it once.

        Raises:
            HTTPError: the connection broke or the encoding is invalid.
            HTTPTimeout: no byte arrived for `idle` seconds.
        """
        return _Chunks(self)

    async def read(self, limit: int = 64 * 1024) -> bytes:
        """Read up to `limit` bytes of the body; the rest is dropped with the connection.

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

    async def read_excerpt(self) -> bytes:
        """Read the beginning of the body of a refusal, or less if the rest cannot be read.

        The status counts more than its text, which may be late, cut, or compressed unasked.
        """
        body = bytearray()
        with anyio.move_on_after(EXCERPT_DEADLINE), suppress(HTTPError):
            async for chunk in self.chunks():
                body += chunk
                if len(body) >= 64 * 1024:
                    break
        return bytes(body)

    async def _unwind(self) -> None:
        """End an unread body by a cancelled read.

        The cancellation closes every generator from the inside; closing the outermost one would
        leave the inner ones to the garbage collector.
        """
        with anyio.CancelScope() as scope, suppress(_httpx().HTTPError):
            scope.cancel()
            async for _ in self._body:
                pass


class _Chunks:
    def __init__(self, response: HTTPResponse) -> None:
        self._response = response
        self._next = response._body.__anext__
        self._decompressor = decompressor_for(response.headers.get("content-encoding", "identity"))
        self._looked = time.perf_counter()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        now = time.perf_counter()
        if now - self._looked > PACE:
            await anyio.lowlevel.checkpoint()
            self._looked = time.perf_counter()
        response, decompressor = self._response, self._decompressor
        if decompressor is not None and decompressor.has_more:
            return decompressor.decompress()
        try:
            if response.idle == response._socket_idle:
                chunk = await self._next()
            else:
                with anyio.fail_after(response.idle):
                    chunk = await self._next()
        except StopAsyncIteration:
            response.is_read = True
            if decompressor is not None and decompressor.is_cut:
                raise HTTPError("broken", CUT) from None
            raise
        except TimeoutError:
            raise idle_timeout(response.idle) from None
        except Exception as error:
            raise to_http_error(_httpx(), error, Deadlines(idle=response.idle)) or error from error
        return chunk if decompressor is None else decompressor.decompress(chunk)


class HTTPClient:
    """An HTTP client that reuses connections; enter it, then call `stream` from any task.

    Proxies are read from the environment at the first request (`HTTPS_PROXY`, `HTTP_PROXY`,
    `ALL_PROXY`, `NO_PROXY`, in either case), certificates from `SSL_CERT_FILE` or `SSL_CERT_DIR`.
    The constructor is cheap: httpx is imported at the first request, certificates are loaded at
    the first HTTPS request.

    Args:
        headers: sent with every request, unless the request has a header of that name.
        transport: replaces the network, for tests.

    Attributes:
        ca_file: certificates of additional trusted authorities; may be set at any time.
        client_certificate: the certificate for requests with `shows_certificate`; may be set at
            any time.
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
        self._headers |= checked_headers(headers or {})
        self._transport = transport
        self.ca_file: str | None = None
        self.client_certificate: ClientCertificate | None = None
        self._environment: Mapping[str, str] | None = None
        self._transports: dict[ConnectionConfig, httpx.AsyncBaseTransport] = {}
        self._unread: list[HTTPResponse] = []
        self._sleep_detector = SleepDetector()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        with anyio.move_on_after(CLOSE_DEADLINE, shield=True):
            await self._unwind_unread()
            for transport in (*self._transports.values(), self._transport):
                if transport is not None:
                    await transport.aclose()

    async def _unwind_unread(self) -> None:
        """Unwind the bodies that were not read to their end.

        It reads through their received bytes, which takes a millisecond or two. Therefore it runs
        at the next request and not when a stream is stopped; the connection was closed then.
        """
        while self._unread:
            await self._unread.pop()._unwind()

    async def _clean_up(self) -> None:
        """Unwind what was not read, and close idle connections after a sleep of the machine."""
        await self._unwind_unread()
        if self._sleep_detector.has_slept():
            with anyio.move_on_after(CLOSE_DEADLINE, shield=True):
                for transport in list(self._transports.values()):
                    await close_idle(transport)

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
        """Send a request; the response can be read within the block.

        If the body was not read to its end, the connection is closed. Cancelling closes it at
        once. A request is sent again on a new connection if a reused one breaks at once, before
        any byte of a response: most likely the server had closed it and has not read the request.

        Args:
            method: the HTTP method.
            url: an absolute `http` or `https` URL.
            headers: sent with the request; they replace defaults of the same name in any case.
                White space around a value is removed (a pasted key may end with a line end).
            content: the body.
            deadlines: the limits of the waits.
            address: the address to connect to, in place of resolving the URL's host. `Host` and
                the check of the certificate still use the host. Such a connection serves one
                request. A proxy gets the host and resolves it itself.
            shows_certificate: send the client certificate to the server (and to a proxy over TLS)
                on demand. It identifies the user: do not set this for a URL that the user did not
                choose. Such requests share no connection with others.
            resend: allow sending again as described; False for requests that must not run twice.

        Raises:
            HTTPError: there is no response; `kind` and the message say why.
            HTTPTimeout: the deadline `timer` has passed.
        """
        deadlines = deadlines or Deadlines()
        await self._clean_up()
        transport, proxy = await self._transport_for(url, shows_certificate)
        headers = self._headers | checked_headers(headers or {})
        request = _request(method, url, headers, content, deadlines)
        if address is not None and proxy is None:
            _connect_to(request, address)
        with proxy_errors_explained(proxy):
            async with tunnel(proxy, request.url.scheme, deadlines.connect) as trace_tunnel:
                response = await _send(transport, request, deadlines, trace_tunnel, resend=resend)
        # From here on the transport limits each read of the socket, which costs far less than a
        # scope around each chunk. A test's transport may have no limits, so it gets scopes.
        request.extensions["timeout"]["read"] = idle = deadlines.idle
        socket_idle = None if self._transport else idle
        http_response = HTTPResponse(response, request.url, idle=idle, socket_idle=socket_idle)
        try:
            yield http_response
        finally:
            with anyio.move_on_after(CLOSE_DEADLINE, shield=True):
                await _close(response, is_read=http_response.is_read)
                await close_idle(transport, above=MAX_IDLE)
            if not http_response.is_read:
                self._unread.append(http_response)

    async def _transport_for(
        self, url: str, shows_certificate: bool
    ) -> tuple[httpx.AsyncBaseTransport, str | None]:
        """Return the transport for requests to this URL, and its proxy."""
        if self._closed:
            raise HTTPError("config", "the HTTP client is closed")
        if self._transport is not None:
            return self._transport, None
        with file_errors_explained():
            proxy = self._proxy_for(url)
            secure = any(each.lower().startswith("https:") for each in (url, proxy or ""))
            config = ConnectionConfig(
                secure=secure,
                proxy=proxy,
                ca_file=self.ca_file if secure else None,
                certificate=self.client_certificate if secure and shows_certificate else None,
            )
            if config not in self._transports:
                transport = await anyio.to_thread.run_sync(
                    lambda: make_transport(_httpx(), config), abandon_on_cancel=True
                )  # certificates may be on a disk that does not answer
                if config in self._transports or self._closed:
                    await transport.aclose()  # closed, or a concurrent request made one
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
            raise HTTPError("config", f"not a valid URL: {error}") from error


async def _close(response: httpx.Response, *, is_read: bool) -> None:
    if is_read and has_surplus(response):
        shut_down(response)
    await response.aclose()


def _httpx() -> ModuleType:
    import httpx  # noqa: PLC0415 - loading it takes 45 ms, saved in programs without requests

    return httpx


@functools.cache
def _body_type() -> type[httpx.ByteStream]:
    class Body(_httpx().ByteStream):  # type: ignore[misc]  # the module is known as any
        """A body in pieces; no generator, which would have to be closed when it is left halfway."""

        def __aiter__(self) -> Self:
            self._starts = iter(range(0, len(self._stream), SENT_PIECE))
            return self

        async def __anext__(self) -> bytes:
            for start in self._starts:
                return bytes(self._stream[start : start + SENT_PIECE])
            raise StopAsyncIteration

    return Body


def _request(
    method: str, url: str, headers: Mapping[str, str], content: bytes, deadlines: Deadlines
) -> httpx.Request:
    library = _httpx()
    limits = {"connect": deadlines.connect, "write": deadlines.write, "read": None, "pool": None}
    try:
        parsed_url = _url(url)
        host = parsed_url.netloc.decode() if parsed_url.host else None
    except (library.InvalidURL, UnicodeError) as error:  # UnicodeError: an invalid host name
        raise HTTPError("config", f"not a valid URL: {error}") from error
    if parsed_url.scheme in _OF_WEB_SOCKETS:
        raise HTTPError(
            "config", f"not a valid URL: expected http or https, got {parsed_url.scheme}"
        )
    request: httpx.Request = library.Request(
        method,
        parsed_url,
        headers=with_framing(headers, method, host, content),
        stream=_body_type()(content),
        extensions={"timeout": limits},
    )
    if request.url.userinfo:
        login = library.BasicAuth(request.url.username, request.url.password)
        next(login.sync_auth_flow(request))
    return request


@functools.lru_cache(maxsize=16)
def _url(text: str) -> httpx.URL:
    """Parse a URL; cached, since parsing takes half of the time of making a request."""
    url: httpx.URL = _httpx().URL(text)
    return url


def _connect_to(request: httpx.Request, address: str) -> None:
    """Make a request connect to an address, in place of resolving its host."""
    name = request.url.raw_host.decode("ascii")
    request.headers["connection"] = "close"  # the pool must not reuse it for the bare address
    request.url = request.url.copy_with(host=address)
    request.extensions["sni_hostname"] = name.strip("[]")


async def _send(
    transport: httpx.AsyncBaseTransport,
    request: httpx.Request,
    deadlines: Deadlines,
    trace_tunnel: Trace | None,
    *,
    resend: bool,
) -> httpx.Response:
    first_byte = deadlines.first_byte
    scope = anyio.CancelScope(deadline=anyio.current_time() + first_byte)
    with nullcontext() if first_byte == math.inf else scope:
        while True:
            is_reused, target, started = False, "", anyio.current_time()

            async def trace(event: str, info: Mapping[str, Any]) -> None:
                nonlocal is_reused, target
                if trace_tunnel is not None:
                    trace_tunnel(event, info)
                if event.endswith(".connect_tcp.started"):  # of `connection` or of `socks`
                    host = info["host"]
                    target = f"[{host}]:{info['port']}" if ":" in host else f"{host}:{info['port']}"
                elif event == "http11.send_request_headers.started":
                    is_reused = not target
                elif event.startswith("http11.send_request_body"):  # each write has its own limit
                    is_sending = event.endswith(".started")
                    scope.deadline = math.inf if is_sending else anyio.current_time() + first_byte

            request.extensions["trace"] = trace
            try:
                response = await transport.handle_async_request(request)
            except Exception as error:
                http_error = to_http_error(_httpx(), error, deadlines, target=target)
                if http_error is None:
                    raise
                is_stale = is_reused and anyio.current_time() - started <= STALE
                if resend and is_stale and http_error.kind == "broken":
                    continue
                if "without sending a response" in str(error) and request.url.scheme == "http":
                    text = f"{http_error} If it expects TLS, use https://."
                    raise HTTPError("broken", text) from error
                raise http_error from error
            del request.extensions["trace"]
            return response
    raise HTTPTimeout("first_byte", first_byte, f"no answer began within {first_byte:g} s")
