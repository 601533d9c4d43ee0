"""The connections of httpx: the parser under a response, dead peers, sleeps of the machine.

A server of models sends each token as a chunk of its own, and h11, httpcore and httpx hand on each
chunk by itself, which takes several times the work of reading the token. `join_chunks` makes one of
the chunks that have arrived together. With a version of the libraries whose parser is not found,
chunks are not joined, and a connection serves one request. Each `response` here is one of httpx.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from eca_protocol import platforms
from eca_protocol.tls import TLSObject

__all__ = [
    "SleepDetector",
    "has_surplus",
    "join_chunks",
    "shut_down",
    "socket_options",
    "with_framing",
]

JOINED = 8 * 1024
"""The limit of joined chunks, in bytes: a stop takes effect between two pieces of a body."""

PROBED_AFTER, PROBED_EVERY, PROBES = 60, 10, 3
"""Seconds of silence before the first probe of a peer, seconds between probes, their number."""

UNACKNOWLEDGED = 85
"""The limit for the acknowledgement of sent bytes, in seconds.

Linux also ends a silent connection after it, however few probes were lost: the last one comes
before it.
"""

ASLEEP = 2.0
"""The shortest sleep of the machine that is detected, in seconds."""

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
"""The methods whose requests name the length of an empty body too."""

_NEXT_CHUNK = re.compile(rb"\r\n([0-9A-Fa-f]{1,8})\r\n")
"""The end of a chunk and the size of the next one."""


class SleepDetector:
    """A detector of sleeps of this machine, during which peers close connections unnoticed."""

    def __init__(self) -> None:
        self._slept = self._seconds_asleep()

    def has_slept(self) -> bool:
        """Return True if the machine has slept since the last call."""
        before, self._slept = self._slept, self._seconds_asleep()
        return self._slept - before > ASLEEP

    def _seconds_asleep(self) -> float:
        return platforms.uptime() - time.monotonic()


def socket_options() -> list[tuple[int, int, int]]:
    """Return the options for connections, by which a dead peer is noticed, and not forgotten.

    A network may vanish without a word: the sent bytes are never acknowledged, or the answer never
    comes. The probes also keep the tables of routers, which forget a silent connection. Options
    that this system does not have are left out.
    """
    numbers = (
        ("SOL_SOCKET", "SO_KEEPALIVE", 1),
        ("IPPROTO_TCP", "TCP_KEEPIDLE", PROBED_AFTER),
        ("IPPROTO_TCP", "TCP_KEEPALIVE", PROBED_AFTER),  # the same on macOS
        ("IPPROTO_TCP", "TCP_KEEPINTVL", PROBED_EVERY),
        ("IPPROTO_TCP", "TCP_KEEPCNT", PROBES),
        ("IPPROTO_TCP", "TCP_USER_TIMEOUT", UNACKNOWLEDGED * 1000),
    )
    options: list[tuple[int, int, int]] = []
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as test_socket:
        for level, name, value in numbers:
            option = getattr(socket, name, None)
            if option is not None:
                with suppress(OSError):
                    test_socket.setsockopt(getattr(socket, level), option, value)
                    options.append((getattr(socket, level), option, value))
    return options


def with_framing(
    headers: Mapping[str, str], method: str, host: str | None, content: bytes
) -> dict[str, str]:
    """Return a request's headers with `Host` and `Content-Length`, if they are missing.

    httpx would add them to a request without a stream, and take most of the request's time for it.
    """
    framed = {} if host is None or "host" in headers else {"Host": host}
    has_length = "content-length" in headers
    if not content and method in _WITH_BODY and not has_length:
        framed["Content-Length"] = "0"
    framed |= headers
    if content and not has_length:
        framed["Content-Length"] = str(len(content))
    return framed


def join_chunks(response: Any) -> None:
    """Let the chunks of a chunked body that have arrived together be returned as one."""
    parser = _parser(response)
    buffer = getattr(parser, "_receive_buffer", None)
    if hasattr(parser, "_reader") and hasattr(buffer, "maybe_extract_at_most"):
        parser._reader = JoinedChunks(parser._reader)


def has_surplus(response: Any) -> bool:
    """Return True if bytes behind the end of a response were received, or may have been.

    They would be read as the response to the next request. Bytes that are still in the socket are
    no concern: httpcore drops an idle connection whose socket is readable.
    """
    connection = response.extensions.get("network_stream")
    if connection is None:
        return False  # the transport of a test
    secured = connection.get_extra_info("ssl_object")
    if secured is not None and (not isinstance(secured, TLSObject) or secured.has_unread_bytes):
        return True
    parser = _parser(response)
    return parser is None or bool(parser.trailing_data[0])


def shut_down(response: Any) -> None:
    """Let the connection be closed with the response, or at least before the next use."""
    if (parser := _parser(response)) is not None:
        parser.send_failed()  # a parser in this state is not reused
    connection = response.extensions["network_stream"].get_extra_info("socket")
    with suppress(OSError):  # the server has closed it
        connection.shutdown(socket.SHUT_RDWR)


def _parser(response: Any) -> Any:
    """Return the parser (an `h11.Connection`); None if it is not accessible."""
    stream = getattr(response.stream, "_httpcore_stream", None)
    connection = getattr(getattr(stream, "_stream", stream), "_connection", None)
    return getattr(connection, "_h11_state", None)


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
