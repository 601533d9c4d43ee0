"""The transports of httpx: how they connect, and which connections they keep.

httpcore's pool only makes the connections here. It would queue each request, and write its head and
its body apart; with a version of the library whose pool is not found, it does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from eca_protocol.errors import HTTPError
from eca_protocol.http_connection import socket_options
from eca_protocol.http_errors import NO_DESCRIPTORS, is_out_of_descriptors
from eca_protocol.proxies import explain_proxy_error
from eca_protocol.tls import ClientCertificate, make_context

if TYPE_CHECKING:
    import ssl

__all__ = ["MAX_IDLE", "ConnectionConfig", "close_idle", "make_transport", "replace_pool"]

MAX_IDLE = 20
"""The number of connections above which idle ones are closed."""


class ConnectionConfig(NamedTuple):
    """The properties on which requests must agree to share connections."""

    secure: bool
    proxy: str | None
    ca_file: str | None
    certificate: ClientCertificate | None


def make_transport(library: ModuleType, config: ConnectionConfig) -> Any:
    """Return a new transport of httpx, which is the `library`.

    Raises:
        HTTPError: the certificates or the proxy of the configuration cannot be used.
    """
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
    limits = library.Limits(max_keepalive_connections=MAX_IDLE, keepalive_expiry=30)
    try:
        proxy = config.proxy and _proxy(library, config.proxy, context)
        transport = library.AsyncHTTPTransport(
            verify=context,
            limits=limits,
            proxy=proxy,
            trust_env=False,
            socket_options=socket_options(),
        )
    except (ImportError, ValueError, library.InvalidURL) as error:
        raise HTTPError("config", explain_proxy_error(error)) from error
    replace_pool(transport)
    return transport


def _proxy(library: ModuleType, address: str, context: ssl.SSLContext | bool) -> Any:
    is_secure = address.lower().startswith("https:")  # the connection to the proxy itself
    return library.Proxy(address, ssl_context=context if is_secure else None)


def replace_pool(transport: Any) -> None:
    """Let a new transport send without a queue, and each short request in one write."""
    pool: Any = getattr(transport, "_pool", None)
    if hasattr(pool, "_network_backend") and hasattr(pool, "create_connection"):
        pool._network_backend = _RequestBackend(pool._network_backend)
        transport._pool = _Connections(pool)


async def close_idle(transport: Any, *, above: int = 0) -> None:
    """Close the oldest idle connections of a transport, until it has no more than `above`."""
    connections = getattr(getattr(transport, "_pool", None), "connections", ())
    open_connections = [each for each in connections if not each.is_closed()]
    idle = [each for each in open_connections if each.is_idle()]
    for connection in idle[: max(0, len(open_connections) - above)]:
        if connection.is_idle():  # no request has taken it meanwhile
            await connection.aclose()


class _Connections:
    """The connections of a transport, in place of httpcore's pool, which makes them.

    The pool queues requests for a limited number of connections, which takes a tenth of a call's
    time. Here the number is unlimited.
    """

    def __init__(self, pool: Any) -> None:
        self.connections: list[Any] = []
        self._taken: set[Any] = set()  # by a request that has no response yet
        self._pool = pool

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request over an idle connection, or over a new one."""
        if request.url.scheme not in {b"http", b"https"}:
            return await self._pool.handle_async_request(request)  # raises, but for ws and wss
        while True:
            await self.close_if(lambda each: each.is_closed() or each.has_expired())
            origin = request.url.origin
            free = (each for each in self.connections if each not in self._taken)
            usable = (each for each in free if each.can_handle_request(origin))
            idle = next((each for each in usable if each.is_available()), None)
            connection = idle or self._pool.create_connection(origin)
            if idle is None:
                self.connections.append(connection)
            self._taken.add(connection)
            try:
                return await connection.handle_async_request(request)
            except BaseException as error:
                if idle is None:  # it may be a tunnel that is not complete
                    await self.close_if([connection].__contains__)
                if type(error).__name__ != "ConnectionNotAvailable":  # it was closed meanwhile
                    raise
            finally:
                self._taken.discard(connection)

    async def close_if(self, condition: Callable[[Any], bool]) -> None:
        """Close the connections that meet a condition."""
        if unwanted := [each for each in self.connections if condition(each)]:
            self.connections = [each for each in self.connections if each not in unwanted]
            with anyio.CancelScope(shield=True):
                for connection in unwanted:
                    await connection.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self.close_if(lambda _: True)


class _RequestStream:
    """A network stream that sends a request's head with the first piece of its body.

    One packet instead of two, which a server also reads at once. Trio's socket takes it without
    waiting, which saves a deadline and a checkpoint; asyncio's transport may have unsent bytes.
    """

    def __init__(self, stream: Any) -> None:
        from trio.socket import SocketType  # noqa: PLC0415 - httpcore has loaded it

        self._stream = stream
        self._head = b""
        is_plain = os.name == "posix" and stream.get_extra_info("ssl_object") is None
        tcp_socket = stream.get_extra_info("socket")
        self._socket = tcp_socket if is_plain and isinstance(tcp_socket, SocketType) else None
        self.aclose, self.get_extra_info = stream.aclose, stream.get_extra_info

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write the buffer; a head waits for the next call, which an empty body has too."""
        if not self._head and buffer.endswith(b"\r\n\r\n"):
            self._head = buffer
        elif buffer or self._head:
            is_start, buffer, self._head = bool(self._head), self._head + buffer, b""
            if is_start and self._socket is not None:
                with suppress(OSError):  # it comes again below, or the socket is full
                    buffer = buffer[os.write(self._socket.fileno(), buffer) :]
            await self._stream.write(buffer, timeout)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the next received bytes."""
        if self._head:
            await self.write(b"", timeout)
        received: bytes = await self._stream.read(max_bytes, timeout)
        return received

    async def start_tls(self, *arguments: Any, **options: Any) -> _RequestStream:
        """Return a stream over TLS on this one."""
        return _RequestStream(await self._stream.start_tls(*arguments, **options))


class _RequestBackend:
    """A network backend of httpcore that makes request streams."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    async def connect_tcp(self, *arguments: Any, **options: Any) -> _RequestStream:
        """Return a new connection."""
        return _RequestStream(await self._backend.connect_tcp(*arguments, **options))
