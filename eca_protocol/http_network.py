"""Connections of TCP and TLS for HTTP: dead peers, sleeps of the machine, errors of connecting."""

from __future__ import annotations

import select
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio
import anyio.abc
from anyio.streams.tls import TLSAttribute, TLSStream

from eca_protocol import platforms
from eca_protocol.errors import HTTPError
from eca_protocol.http_errors import explained, timed_out
from eca_protocol.tls import TLSObject

__all__ = [
    "SleepDetector",
    "add_tls",
    "connect",
    "is_readable",
    "receive_only",
    "socket_options",
]

PROBED_AFTER, PROBED_EVERY, PROBES = 60, 10, 3
"""Seconds of silence before the first probe of a peer, seconds between probes, their number."""

UNACKNOWLEDGED = 85
"""The limit for the acknowledgement of sent bytes, in seconds.

Linux also ends a silent connection after it, however few probes were lost: the last one comes
before it.
"""

ASLEEP = 2.0
"""The shortest sleep of the machine that is detected, in seconds."""


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


async def connect(
    host: str, port: int, options: list[tuple[int, int, int]], seconds: float, target: str
) -> anyio.abc.ByteStream:
    """Connect to a host by TCP; `target` names it in errors.

    Raises:
        HTTPError: there is no connection; HTTPTimeout: not in time.
    """
    with _errors_explained(seconds, target):
        with anyio.fail_after(seconds):
            stream = await anyio.connect_tcp(host, port)
        raw_socket = stream.extra_attributes[anyio.abc.SocketAttribute.raw_socket]()
        with suppress(OSError):  # the server has closed it
            for option in options:
                raw_socket.setsockopt(*option)
        return stream


async def add_tls(
    stream: anyio.abc.ByteStream,
    context: ssl.SSLContext | None,
    host: str,
    seconds: float,
    target: str,
) -> anyio.abc.ByteStream:
    """Return a TLS connection to a host over a stream.

    Raises:
        HTTPError: as `connect`.
    """
    with _errors_explained(seconds, target), anyio.fail_after(seconds):
        return await TLSStream.wrap(
            stream,
            hostname=host,
            ssl_context=context,
            server_side=False,
            standard_compatible=False,
        )


async def receive_only(stream: anyio.abc.ByteReceiveStream, size: int) -> bytes:
    """Receive up to `size` bytes, although a TLS stream is sending or has failed to send.

    `TLSStream.receive` also sends, and refuses to receive after a failed or cancelled `send`.
    """
    if not isinstance(stream, TLSStream):
        return await stream.receive(size)
    transport: Any = stream.transport_stream
    tls_object: Any = stream.extra_attributes[TLSAttribute.ssl_object]()
    if not isinstance(tls_object, TLSObject):
        return await stream.receive(size)
    while True:
        with suppress(ssl.SSLWantReadError):
            return tls_object.read(size)
        tls_object.add(await receive_only(transport, size))


@contextmanager
def _errors_explained(seconds: float, target: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise timed_out("connect", seconds) from None
    except (OSError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
        raise explained(error, "connect", target) from error
    except ValueError as error:  # UnicodeError; of TLS: a host that begins with a dot
        raise HTTPError("config", f"not a valid host name: {error}") from error


def is_readable(raw_socket: Any) -> bool:
    """Return True if a socket has bytes to read, or its peer has closed it."""
    if sys.platform == "win32":
        return bool(select.select([raw_socket], [], [], 0)[0])
    poll = select.poll()
    poll.register(raw_socket, select.POLLIN)
    return bool(poll.poll(0))
