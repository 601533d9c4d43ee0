"""The HTTP client: streamed responses, with a deadline for every wait.

The first request imports the modules that use httpx and h11, in a worker thread. Rules:

- No request waits for a slot in a connection pool.
- Leaving the block closes the connection at once, if the body is unread.
- Buffered chunks are returned with a checkpoint every half millisecond, so that a stream that
  arrives faster than it is read can still be stopped.
- No redirect is followed, so that a key never reaches a host it was not configured for.
- No cookie is stored.
- A connection with bytes behind the end of a response is closed, not reused; an idle one is closed
  if the machine has slept. A dead peer is noticed by TCP (`http_network.socket_options`).
- Chunks that have arrived together are returned as one, and a short request leaves in one piece
  (`http_connection`).
- Every failure below the status line is an `HTTPError`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Self

import anyio
import anyio.lowlevel
import anyio.to_thread

from eca_protocol.decompression import decompressor_for
from eca_protocol.errors import HTTPError
from eca_protocol.http_errors import file_errors_explained, invalid_url, proxy_errors_explained
from eca_protocol.http_request import ConnectionConfig, Deadlines, HTTPRequest, checked_headers
from eca_protocol.proxies import proxy_for
from eca_protocol.tls import ClientCertificate

if TYPE_CHECKING:
    from eca_protocol.http_connection import HTTPConnection
    from eca_protocol.http_transport import ConnectionPool

__all__ = ["Deadlines", "HTTPClient", "HTTPResponse"]

PACE = 0.0005
"""Seconds between the checkpoints while buffered chunks are read: the delay of a stop."""

CLOSE_DEADLINE = 2.0
"""The limit for closing the connections, in seconds."""

EXCERPT_DEADLINE = 10.0
"""The limit for the body of a refusal, in seconds."""

OTHER_LOOP = (
    "the HTTP client was used in a different event loop: make a client in each, and leave it there"
)
CUT = "the connection was lost: the compressed body ended before its end mark"


class HTTPResponse:
    """A response whose body is streamed.

    Attributes:
        status: the status code.
        headers: by name in lower case; repeated ones are joined by `, `.
        url: the URL of the request.
        idle: the limit for the next chunk of the body, in seconds; may be reduced while reading.
    """

    def __init__(self, exchange: HTTPConnection, *, idle: float) -> None:
        self.status: int = exchange.status
        self.headers: Mapping[str, str] = exchange.headers
        self.url: str = exchange.url
        self.idle = idle
        self._read: Callable[[float], Awaitable[bytes]] = exchange.read

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


class _Chunks:
    def __init__(self, response: HTTPResponse) -> None:
        self._response = response
        self._decompressor = decompressor_for(response.headers.get("content-encoding", "identity"))
        self._looked = time.perf_counter()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        now = time.perf_counter()
        if now - self._looked > PACE:
            await anyio.lowlevel.checkpoint()
            self._looked = time.perf_counter()
        decompressor = self._decompressor
        if decompressor is not None and decompressor.has_more:
            return decompressor.decompress()
        chunk = await self._response._read(self._response.idle)
        if not chunk:
            if decompressor is not None and decompressor.is_cut:
                raise HTTPError("broken", CUT)
            raise StopAsyncIteration
        return chunk if decompressor is None else decompressor.decompress(chunk)


class HTTPClient:
    """An HTTP client that reuses connections; enter it, then call `stream` from any task.

    It belongs to the event loop of its first request.

    Proxies are read from the environment at the first request (`HTTPS_PROXY`, `HTTP_PROXY`,
    `ALL_PROXY`, `NO_PROXY`, in either case), certificates from `SSL_CERT_FILE` or `SSL_CERT_DIR`.
    The constructor is cheap: httpx is imported at the first request, certificates are loaded at
    the first HTTPS request.

    Args:
        headers: sent with every request, unless the request has a header of that name.

    Attributes:
        ca_file: certificates of additional trusted authorities; may be set at any time.
        client_certificate: the certificate for requests with `shows_certificate`; may be set at
            any time.
    """

    def __init__(self, *, headers: Mapping[str, str] | None = None) -> None:
        self._headers = {
            "accept": "*/*",
            "accept-encoding": "identity",
            "connection": "keep-alive",
            "user-agent": "eca-protocol",
        }
        self._headers |= checked_headers(headers or {})
        self.ca_file: str | None = None
        self.client_certificate: ClientCertificate | None = None
        self._environment: Mapping[str, str] | None = None
        self._pools: dict[ConnectionConfig, ConnectionPool] = {}
        self._loop: object = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        if self._pools and anyio.lowlevel.current_token() != self._loop:
            return  # an event loop that has ended closes no connection
        with anyio.move_on_after(CLOSE_DEADLINE, shield=True):
            for pool in self._pools.values():
                await pool.aclose()

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
        once. A request is sent once more on a new connection if a reused one breaks at once, before
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
        pool, proxy = await self._pool_for(url, shows_certificate)
        request = HTTPRequest(
            method=method,
            url=url,
            headers=self._headers | checked_headers(headers or {}),
            content=content,
            deadlines=deadlines,
            address=address if proxy is None else None,
            resend=resend,
        )
        with proxy_errors_explained(proxy):
            exchange = await pool.exchange(request)
        response = HTTPResponse(exchange, idle=deadlines.idle)
        try:
            yield response
        finally:
            response._read = _refuse_to_read  # the connection may serve the next request
            await pool.release(exchange)

    async def _pool_for(
        self, url: str, shows_certificate: bool
    ) -> tuple[ConnectionPool, str | None]:
        """Return the connections for requests to this URL, and its proxy."""
        if self._closed:
            raise HTTPError("config", "the HTTP client is closed")
        loop = anyio.lowlevel.current_token()
        self._loop = self._loop or loop
        if loop != self._loop:
            raise HTTPError("config", OTHER_LOOP)
        if self._environment is None:
            with file_errors_explained():
                self._environment = await anyio.to_thread.run_sync(
                    _proxies_of_environment, abandon_on_cancel=True
                )
        try:
            proxy = proxy_for(url, self._environment)
        except ValueError as error:
            raise invalid_url(error) from None  # its traceback may show a password
        secure = url.lower().startswith("https:") or (proxy or "").lower().startswith("https:")
        config = ConnectionConfig(
            secure=secure,
            proxy=proxy,
            ca_file=self.ca_file if secure else None,
            certificate=self.client_certificate if secure and shows_certificate else None,
        )
        known = self._pools.get(config)
        if known is None:
            with file_errors_explained():
                pool = await anyio.to_thread.run_sync(
                    lambda: make_pool(config), abandon_on_cancel=True
                )  # certificates may be on a disk that does not answer
            known = self._pools.get(config, pool)
            if known is not pool or self._closed:
                await pool.aclose()  # closed, or a concurrent request made one
            else:
                self._pools[config] = pool
        if self._closed:
            raise HTTPError("config", "the HTTP client is closed")
        return known, proxy


async def _refuse_to_read(_: float) -> bytes:
    raise HTTPError("broken", "the response was closed")


def _proxies_of_environment() -> Mapping[str, str]:
    from urllib.request import getproxies  # noqa: PLC0415 - 12 ms, saved without requests

    return getproxies()


def make_pool(config: ConnectionConfig) -> ConnectionPool:
    """Make the pool for requests, from the module that imports httpx and h11."""
    from eca_protocol import http_transport  # noqa: PLC0415 - 45 ms, saved without requests

    return http_transport.make_pool(config)
