"""A small HTTP/1.1 server for loopback: agents, login redirects, inspectors, scripted models.

A handler is cancelled when its client closes the connection, and the response is complete when the
handler returns. h11 implements the protocol's grammar; this module handles the socket, the limits
and the deadlines.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from socket import SO_LINGER, SOL_SOCKET
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.abc
import attrs
import h11

from eca_protocol.errors import LocalProtocolError

__all__ = [
    "LOOPBACK_NAMES",
    "HTTPRequest",
    "HTTPServer",
    "Handler",
    "Responder",
    "ServerLimits",
    "serve",
]

logger: logging.Logger = logging.getLogger(__name__)

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})

Headers = Mapping[str, str] | Iterable[tuple[str, str]]


@attrs.frozen(kw_only=True)
class ServerLimits:
    """The limits of a server: sizes in bytes, times in seconds."""

    max_header: int = 64 * 1024
    max_body: int = 64 * 2**20
    max_connections: int = 1024
    request_deadline: float = 30
    """The limit from a request's first byte to its last."""
    idle_deadline: float = 60
    """The limit of the wait between two requests of a connection."""
    write_deadline: float = 60
    """The limit of a write to a client that does not read."""


@attrs.frozen(kw_only=True)
class HTTPRequest:
    """A whole request; header names are in lower case, repeated ones are joined by `, `."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        """The target without its query and host."""
        return self._split()[0]

    @property
    def query(self) -> str:
        """The part of the target behind `?`; may be empty."""
        return self._split()[1]

    def _split(self) -> tuple[str, str]:
        target = self.target
        if not target.startswith("/") and "://" in target:  # the form for proxies
            target = "/" + target.partition("://")[2].partition("/")[2]
        path, _, query = target.partition("?")
        return path, query


@attrs.define(eq=False)
class Responder:
    """The writer of one response: by `respond`, or by `start`, `send` and `end`.

    The response to a HEAD request is written without its body. Every method raises
    `anyio.BrokenResourceError` if the client has closed the connection.
    """

    _connection: h11.Connection
    _stream: anyio.abc.SocketStream
    _write_deadline: float
    _is_head: bool = attrs.field(kw_only=True)
    started: bool = False
    ended: bool = False

    async def respond(self, status: int, body: bytes = b"", headers: Headers = ()) -> None:
        """Write a whole response, with its `Content-Length`."""
        pairs = [*_pairs(headers), ("content-length", str(len(body)))]
        await self.start(status, pairs)
        if body:
            await self.send(body)
        await self.end()

    async def start(self, status: int, headers: Headers = ()) -> None:
        """Write the status line and the headers; without a length the body is chunked.

        Raises:
            LocalProtocolError: the response was already started, or a header is invalid.
        """
        head = [(name.encode("ascii"), value.encode("latin-1")) for name, value in _pairs(headers)]
        reason = HTTPStatus(status).phrase if status in _STATUSES else ""
        response = h11.Response(status_code=status, headers=head, reason=reason.encode())
        self.started = True
        await self._write(self._bytes(response))

    async def send(self, *pieces: bytes) -> None:
        """Write pieces of the body, each as a chunk, all in one write."""
        if not self._is_head:
            await self._write(b"".join(self._bytes(h11.Data(data=piece)) for piece in pieces))

    async def end(self) -> None:
        """Complete the response; the connection may serve the next request."""
        self.ended = True
        await self._write(self._bytes(h11.EndOfMessage()))

    async def send_raw(self, data: bytes) -> None:
        """Write raw bytes, for intentional errors; call `close` or `reset` afterwards."""
        self.started = True
        await self._write(data)

    async def close(self) -> None:
        """Close the connection within the response, by an ordinary end of stream."""
        self.started = self.ended = True
        await self._stream.aclose()

    async def reset(self) -> None:
        """Abort the connection: the client gets a reset."""
        raw = self._stream.extra_attributes[anyio.abc.SocketAttribute.raw_socket]()
        raw.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        await self.close()

    def _bytes(self, event: Any) -> bytes:
        try:
            return self._connection.send(event) or b""
        except h11.LocalProtocolError as error:
            raise LocalProtocolError(f"HTTP response: {error}") from None

    async def _write(self, data: bytes) -> None:
        with anyio.move_on_after(self._write_deadline):
            await self._stream.send(data)
            return
        await self.reset()
        raise anyio.BrokenResourceError


Handler = Callable[[HTTPRequest, Responder], Awaitable[None]]


@attrs.define(eq=False)
class HTTPServer:
    """A running server, made by `serve`."""

    _handler: Handler
    host: str
    _limits: ServerLimits
    _allowed_hosts: Collection[str] | None
    _on_change: Callable[[], None]
    port: int = 0
    connections: int = 0

    @property
    def url(self) -> str:
        """The server's URL, `http://127.0.0.1:PORT`, without a slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def _accept(self, stream: anyio.abc.SocketStream) -> None:
        self.connections += 1
        self._on_change()
        try:
            async with stream:
                if self.connections > self._limits.max_connections:
                    await stream.send(b"HTTP/1.1 503 Too Many Connections\r\n\r\n")
                else:
                    await _Connection(self, stream).run()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            logger.debug("an HTTP client left in the middle of an exchange")
        except Exception:
            logger.exception("an HTTP exchange failed; its connection is closed")
        finally:
            self.connections -= 1
            self._on_change()


class _Connection:
    """One socket: consecutive requests until a side closes it."""

    def __init__(self, server: HTTPServer, stream: anyio.abc.SocketStream) -> None:
        self._server = server
        self._limits = server._limits
        self._stream = stream
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.max_header)
        self._is_head = False  # the current request

    async def run(self) -> None:
        while True:
            try:
                request = await self._read_request()
            except h11.RemoteProtocolError as error:
                await self._refuse(error.error_status_hint, str(error))
                return
            if request is None:
                return
            responder = self._responder()
            if not self._host_allowed(request):
                await responder.respond(403, b"this Host is not allowed\n")
                return
            await self._handle(request, responder)
            if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
                return
            self._h11.start_next_cycle()

    def _responder(self) -> Responder:
        deadline = self._limits.write_deadline
        return Responder(self._h11, self._stream, deadline, is_head=self._is_head)

    def _host_allowed(self, request: HTTPRequest) -> bool:
        allowed = self._server._allowed_hosts
        if allowed is None:
            return True
        try:
            name = urlsplit("//" + request.headers.get("host", "")).hostname
        except ValueError:  # half of an IPv6 address
            return False
        return name in allowed

    async def _read_request(self) -> HTTPRequest | None:
        """Read a request; return None if the client has closed or was too slow."""
        self._is_head = False
        head: h11.Request | None = None
        body = bytearray()
        deadline = anyio.current_time() + self._limits.idle_deadline
        while True:
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                if self._h11.they_are_waiting_for_100_continue:
                    proceed = h11.InformationalResponse(status_code=100, headers=[])
                    await self._stream.send(self._h11.send(proceed) or b"")
                with anyio.CancelScope(deadline=deadline) as scope:
                    self._h11.receive_data(await self._receive())
                if scope.cancelled_caught:
                    return None
            elif isinstance(event, h11.Request):
                head = event
                self._is_head = event.method == b"HEAD"
                deadline = anyio.current_time() + self._limits.request_deadline
                self._check_size(int(dict(event.headers).get(b"content-length", b"0")))
            elif isinstance(event, h11.Data):
                body += event.data
                self._check_size(len(body))
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return _request(head, bytes(body))
            else:
                return None

    def _check_size(self, size: int) -> None:
        if size > self._limits.max_body:
            raise h11.RemoteProtocolError("the body is too large", error_status_hint=413)

    async def _receive(self) -> bytes:
        try:
            return await self._stream.receive()
        except anyio.EndOfStream:
            return b""

    async def _refuse(self, status: int, reason: str) -> None:
        if self._h11.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            await self._responder().respond(status, f"{reason}\n".encode(), {"connection": "close"})

    async def _handle(self, request: HTTPRequest, responder: Responder) -> None:
        """Run the handler, and cancel it if the client closes the connection."""
        early = b""

        async def watch() -> None:
            nonlocal early
            try:
                early = await self._stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await self._call(request, responder)
            tasks.cancel_scope.cancel()
        if early:
            self._h11.receive_data(early)

    async def _call(self, request: HTTPRequest, responder: Responder) -> None:
        try:
            try:
                await self._server._handler(request, responder)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                raise
            except Exception:
                logger.exception("the handler of %s %s failed", request.method, request.target)
                if self._h11.our_state is not h11.SEND_RESPONSE:
                    await responder.reset()
            if not responder.started:
                await responder.respond(500, b"the handler wrote no response\n")
            elif not responder.ended:
                await responder.end()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            logger.debug("the HTTP client left before its response was complete")


@asynccontextmanager
async def serve(
    handler: Handler,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    limits: ServerLimits | None = None,
    allowed_hosts: Collection[str] | None = LOOPBACK_NAMES,
    on_change: Callable[[], None] = lambda: None,
) -> AsyncIterator[HTTPServer]:
    """Serve `handler` while the block runs; leaving it closes every connection at once.

    Args:
        handler: called with each request; cancelled when its client closes the connection.
        host: the address to listen on.
        port: the port to listen on; 0: a free one.
        limits: sizes, times and the number of connections.
        allowed_hosts: the names accepted in the `Host` header, so that a web page cannot reach a
            loopback server under its own name; None accepts every name.
        on_change: called when a connection is opened or closed.

    Raises:
        OSError: the server cannot listen on the address.
    """
    server = HTTPServer(handler, host, limits or ServerLimits(), allowed_hosts, on_change)
    listener = await anyio.create_tcp_listener(local_host=host, local_port=port, backlog=1024)
    server.port = listener.extra_attributes[anyio.abc.SocketAttribute.local_port]()
    accepting = anyio.CancelScope()  # not that of the group, see `Peer.__aexit__`

    async def accept() -> None:
        with accepting:
            await listener.serve(server._accept)

    try:
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(accept)
            yield server
            accepting.cancel()
    except ExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None  # the block's own exception
        raise


_STATUSES = frozenset(int(status) for status in HTTPStatus)


def _pairs(headers: Headers) -> list[tuple[str, str]]:
    return list(headers.items() if isinstance(headers, Mapping) else headers)


def _request(head: h11.Request, body: bytes) -> HTTPRequest:
    headers: dict[str, str] = {}
    for raw_name, raw_value in head.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return HTTPRequest(
        method=head.method.decode("ascii"),
        target=head.target.decode("ascii"),
        headers=headers,
        body=body,
    )
