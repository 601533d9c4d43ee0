"""A connection of HTTP/1.1: writes a request, and reads its response with h11.

A request's head is written here, because h11 would validate each header once more, which takes
longer than the rest of a short request. h11 is given what decides how the response is read. Each
request has a new parser: bytes behind a response are never read as the next response, and the
connection that brought them is closed.

A server of models sends each token as a chunk of its own, and h11 returns each chunk by itself,
which takes several times the work of reading the token. `JoinedChunks` makes one of the chunks that
have arrived together. With a version of h11 whose reader is not found, chunks are not joined.
"""

from __future__ import annotations

import functools
import math
import re
import socket
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import h11
from anyio.streams.tls import TLSAttribute, TLSStream

from eca_protocol.errors import HTTPError
from eca_protocol.http_errors import CLOSED_UNANSWERED, explained, timed_out
from eca_protocol.http_network import is_readable, receive_only
from eca_protocol.tls import TLSObject

__all__ = ["HTTPConnection"]

CLOSE_DEADLINE = 2.0
"""The limit for closing a connection, in seconds."""

JOINED = 8 * 1024
"""The limit of joined chunks, in bytes: a stop takes effect between two pieces of a body."""

MAX_HEAD = 100 * 1024
"""The limit of a response's status line and headers, in bytes."""

READ_TURNS = 4
"""The turns of an event loop within which asyncio reads from a socket."""

READ_SIZE = 64 * 1024
"""The limit of one read, in bytes."""

SENT_PIECE = 64 * 1024
"""The size of the pieces of a sent body, in bytes: small enough for the slowest links."""

_NEXT_CHUNK = re.compile(rb"\r\n([0-9A-Fa-f]{1,8})\r\n")
"""The end of a chunk and the size of the next one."""

_BROKEN = (
    anyio.BrokenResourceError,
    anyio.BusyResourceError,  # TLS 1.2 must read to send, and the head is being received
    anyio.ClosedResourceError,
    anyio.EndOfStream,  # TLS cannot send either once it has received what is not valid
    OSError,
)


class HTTPConnection:
    """A connection, which serves one request at a time.

    Attributes:
        server: the server to which it leads: whether TLS is used, host and port.
        idle_until: the time, by `time.monotonic`, at which an unused connection is closed; None
            while it is used.
        is_reused: True if it has served a request before.
        is_answered: True if a byte of the response was received.
        url: the URL of the request.
        status: the status code of the response.
        reason: the text behind the status code.
        headers: the response's headers by name in lower case; repeated ones are joined by `, `.

    Args:
        stream: the TCP or TLS stream.
        server: see the attribute.
    """

    def __init__(self, stream: anyio.abc.ByteStream, server: object) -> None:
        self.server = server
        self.idle_until: float | None = None
        self.is_reused = self.is_answered = False
        self.url, self.status, self.reason = "", 0, ""
        self.headers: dict[str, str] = {}
        self._stream = stream
        self._tls: list[Any] = []
        layer: Any = stream
        self._socket: Any = layer.extra_attributes[anyio.abc.SocketAttribute.raw_socket]()
        while isinstance(layer, TLSStream):  # two within the TLS of a proxy
            self._tls.append(layer.extra_attributes[TLSAttribute.ssl_object]())
            layer = layer.transport_stream
        # On asyncio, anyio may have read more of the socket than was asked for.
        protocol = getattr(layer, "_protocol", None)
        self._received: Collection[bytes] = getattr(protocol, "read_queue", ())
        # Trio's socket takes a short request without waiting, which saves a deadline and a
        # checkpoint; asyncio's transport may have unsent bytes.
        self._is_plain = not self._tls and isinstance(self._socket, socket.socket)
        self._unsent = self._content = b""
        self._is_sent = self._is_complete = False
        self._early_error: HTTPError | None = None

    def start(self, method: str, head: bytes, content: bytes, *, closes: bool) -> bool:
        """Begin a request; return True if it was sent at once."""
        self._parser = h11.Connection(h11.CLIENT, MAX_HEAD)
        self._parser.send(_request(method, closes))  # not its end: no response depends on it
        self._unsent = head + content[:SENT_PIECE]
        if self._is_plain:
            with suppress(OSError):  # it comes again in `send`, or the socket is full
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        self._is_sent = not self._unsent and len(content) <= SENT_PIECE
        self._content = b"" if self._is_sent else content
        self._is_complete = self.is_answered = False
        self.status, self._early_error = 0, None
        return self._is_sent

    async def send(self, seconds: float) -> None:
        """Send the rest of a request, until the server refuses it or closes.

        A server that refuses a large body answers before it has read it, and closes.

        Raises:
            HTTPTimeout: a piece was not sent within the seconds.
        """
        if len(self._content) <= SENT_PIECE:
            is_late = await self._send_pieces(seconds)
        else:
            is_late, sending, receiving = False, anyio.CancelScope(), anyio.CancelScope()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._receive_early, receiving, sending)
                with sending:
                    is_late = await self._send_pieces(seconds)
                receiving.cancel()
        if is_late:
            raise timed_out("write", seconds)

    async def _send_pieces(self, seconds: float) -> bool:
        """Send the rest of a request; return True if a piece takes longer than the seconds."""
        content = self._content
        with suppress(*_BROKEN):
            for start in range(0, len(content) or 1, SENT_PIECE):
                piece = content[start : start + SENT_PIECE] if start else self._unsent
                await self._let_receive()
                with anyio.move_on_after(seconds) as scope:
                    await self._stream.send(piece)
                if scope.cancelled_caught:
                    return True
            self._unsent, self._is_sent = b"", True
        self._content = b""
        return False

    async def _let_receive(self) -> None:
        """Let received bytes be read before more is sent: asyncio drops them if that fails."""
        for _ in range(READ_TURNS):
            if self._socket.fileno() < 0 or not is_readable(self._socket):
                return
            await anyio.lowlevel.checkpoint()

    async def _receive_early(
        self, receiving: anyio.CancelScope, sending: anyio.CancelScope
    ) -> None:
        """Receive the head while the request is sent; end the sending if the request has failed."""
        with receiving:
            try:
                await self.receive_head()
            except HTTPError as error:
                self._early_error = error
            if self.status not in range(200, 300):
                sending.cancel()

    async def receive_head(self) -> None:
        """Receive the status and the headers, for any time.

        Raises:
            HTTPError: there is no response.
        """
        if self._early_error is not None:
            raise self._early_error
        if self.status:  # it was received early
            return
        event: Any = h11.NEED_DATA
        while type(event) is not h11.Response:
            if event is h11.NEED_DATA:
                received = await self._receive(math.inf)
                if not received:
                    raise HTTPError("broken", CLOSED_UNANSWERED)
                self.is_answered = True
                self._parser.receive_data(received)
            event = self._next_event()
        headers: dict[str, str] = {}
        for raw_name, raw in event.headers.raw_items():
            name, value = raw_name.decode("ascii").lower(), _text(raw)
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        self.reason = event.reason.decode("ascii", "ignore")  # it is shown to the user
        self.status, self.headers = event.status_code, headers
        if headers.get("transfer-encoding", "").lower() == "chunked":
            _join_chunks(self._parser)

    async def read(self, idle: float) -> bytes:
        """Return the next piece of the body, or nothing at its end.

        Raises:
            HTTPError: the connection broke; HTTPTimeout: nothing arrived for `idle` seconds.
        """
        while not self._is_complete:
            event = self._next_event()
            if type(event) is h11.Data:
                return bytes(event.data)
            if event is h11.NEED_DATA:
                self._parser.receive_data(await self._receive(idle))
            else:
                self._is_complete = True
        return b""

    def _next_event(self) -> Any:
        try:
            return self._parser.next_event()
        except h11.RemoteProtocolError as error:
            raise explained(error, "protocol") from error

    async def _receive(self, seconds: float) -> bytes:
        try:
            if seconds == math.inf:
                return await self._receive_some()
            with anyio.CancelScope(deadline=anyio.current_time() + seconds):
                return await self._receive_some()
        except anyio.EndOfStream:
            return b""
        except _BROKEN as error:
            raise explained(error, "broken") from error
        raise timed_out("idle", seconds)

    async def _receive_some(self) -> bytes:
        # To wait is cheaper than to read in vain first, as the stream does.
        while self._is_plain and self._socket.fileno() >= 0:
            await anyio.wait_readable(self._socket)
            with suppress(BlockingIOError):
                return bytes(self._socket.recv(READ_SIZE))
        if self._is_sent:
            return await self._stream.receive(READ_SIZE)
        return await receive_only(self._stream, READ_SIZE)

    def is_reusable(self) -> bool:
        """Return True if the next request may be sent: nothing is missing, and nothing surplus.

        Bytes that are still in the socket are no concern: they make an idle connection stale.
        """
        parser = self._parser
        return (
            self._is_sent
            and self._is_complete
            and parser.their_state is h11.DONE
            and not parser.trailing_data[0]
            and not self._received
            and all(isinstance(tls, TLSObject) and not tls.has_unread_bytes for tls in self._tls)
        )

    def is_stale(self, now: float) -> bool:
        """Return True if it has been idle for too long, or the server has closed it."""
        return self.idle_until is not None and (now > self.idle_until or is_readable(self._socket))

    async def aclose(self) -> None:
        """Close the connection, even if cancelled."""
        with anyio.move_on_after(CLOSE_DEADLINE, shield=True):
            await self._stream.aclose()


@functools.lru_cache(maxsize=32)
def _request(method: str, closes: bool) -> h11.Request:
    """Return a request with what the reading of its response depends on."""
    headers = [("host", ""), ("connection", "close" if closes else "keep-alive")]
    try:
        return h11.Request(method=method, target="/", headers=headers)
    except h11.LocalProtocolError as error:
        raise explained(error, "config") from error


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _join_chunks(parser: Any) -> None:
    buffer = getattr(parser, "_receive_buffer", None)
    if hasattr(parser, "_reader") and hasattr(buffer, "maybe_extract_at_most"):
        parser._reader = JoinedChunks(parser._reader)


class JoinedChunks:
    """A reader of chunked bodies in place of h11's, which it calls.

    h11's reader takes the data of a chunk and leaves the line end behind it. This one then takes
    the whole chunks that follow, and leaves the last one's line end. Everything else (a part of a
    chunk, an extension, the end, an error) is therefore up to h11.

    Args:
        reader: h11's reader.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def __call__(self, buffer: Any) -> Any:
        """Return the next event of the received bytes, or None."""
        event = self._reader(buffer)
        if not getattr(event, "chunk_end", False):
            return event
        received, end, pieces = bytes(buffer), 0, [event.data]
        while (head := _NEXT_CHUNK.match(received, end)) is not None:
            start, size = head.end(), int(head[1], 16)
            if not size or start + size > min(len(received), JOINED):
                break
            end = start + size
            pieces.append(received[start:end])
        if not end:
            return event
        buffer.maybe_extract_at_most(end)
        return type(event)(data=b"".join(pieces))

    def read_eof(self) -> Any:
        """Return the event of the end of the bytes, or raise as h11 does."""
        return self._reader.read_eof()
