"""The inspector's small server on this machine, and who it answers.

The rules it keeps: it listens on 127.0.0.1 only. The page is the same for everybody and holds
nothing; what it shows is given only to who knows the token, under our own name, and never to a
page of somebody else's. The token stands behind the `#` of the address, which no browser sends
and no log keeps. Nobody who reads slowly, or not at all, holds anything up.
"""

from __future__ import annotations

import secrets
from collections import deque
from typing import Final

import trio

from eca_protocol.http_server import HTTPRequest, Responder, ServerLimits
from eca_server.inspector.page import live_page

__all__ = ["LIMITS", "Feed", "Site"]

MAX_KEPT: Final = 256 * 2**20
"""Bytes of parts that are kept for pages that are yet to come; the oldest are given up first."""

LIMITS: Final = ServerLimits(max_connections=32, max_body=1024)

_HEADERS: Final = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_TEXT: Final = {**_HEADERS, "content-type": "text/plain; charset=utf-8"}
_HTML: Final = {
    **_HEADERS,
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": "frame-ancestors 'none'",
}
_PARTS: Final = {**_HEADERS, "content-type": "application/x-ndjson"}


class Feed:
    """The parts of an inspection so far, for any number of readers, and those to come.

    Attributes:
        readers: how many there are now.
        was_read: it is closed, and nobody who began to read it still reads.
    """

    def __init__(self) -> None:
        self.readers = 0
        self.was_read = trio.Event()
        self._head = b""
        self._parts: deque[bytes] = deque()
        self._given_up = 0
        self._size = 0
        self._is_closed = False
        self._change = trio.Event()

    def add(self, part: bytes) -> None:
        """Have something new told; never waits."""
        if not self._head:
            self._head = part  # without it no page could read the others
        else:
            self._parts.append(part)
            self._size += len(part)
        while self._size > MAX_KEPT:
            self._size -= len(self._parts.popleft())
            self._given_up += 1
        self._wake()

    def close(self) -> None:
        """Nothing more will come."""
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        self._change.set()
        self._change = trio.Event()

    async def read(self, responder: Responder) -> None:
        """Tell one reader all of it until it is closed."""
        self.readers += 1
        try:
            await self._tell(responder)
        finally:
            self.readers -= 1
            if self._is_closed and not self.readers:
                self.was_read.set()

    async def _tell(self, responder: Responder) -> None:
        if not self._head:
            await self._change.wait()
        if self._head:
            await responder.send(self._head)
        next_ = 0
        while True:
            change = self._change
            next_ = max(next_, self._given_up)
            if next_ - self._given_up < len(self._parts):
                await responder.send(self._parts[next_ - self._given_up])
                next_ += 1
            elif self._is_closed:
                return
            else:
                await change.wait()


class Site:
    """Answers requests for the page, and for what it shows.

    Attributes:
        token: what a page must know; made anew for each site.
        port: where the server listens, once it does.

    Args:
        name: of the transcript.
        feed: what the page is told.
    """

    def __init__(self, name: str, feed: Feed) -> None:
        self.token = secrets.token_urlsafe(32)
        self.port = 0
        self._page = live_page(name).encode("utf-8", "replace")
        self._feed = feed

    @property
    def address(self) -> str:
        """Where a browser finds the page, with the token."""
        return f"http://127.0.0.1:{self.port}/#{self.token}"

    async def handle(self, request: HTTPRequest, responder: Responder) -> None:
        """Answer one request."""
        if not self._is_our_name(request.headers.get("host", "")):
            await responder.respond(403, b"There is no such name here.\n", _TEXT)
        elif request.path == "/" and request.method == "GET":
            await responder.respond(200, self._page, _HTML)
        elif request.path != "/parts":
            await responder.respond(404, b"There is nothing here.\n", _TEXT)
        elif request.method != "POST":
            await responder.respond(405, b"Expected POST.\n", {**_TEXT, "allow": "POST"})
        elif not self._is_our_page(request):
            await responder.respond(403, b"Expected this server's page, and its token.\n", _TEXT)
        else:
            await responder.start(200, _PARTS)
            await self._feed.read(responder)

    def _is_our_page(self, request: HTTPRequest) -> bool:
        """Whether our own page asks: a browser names the origin of each such request."""
        origin = request.headers.get("origin", "")
        brought = request.headers.get("authorization", "").encode()
        return (
            origin.startswith("http://")
            and self._is_our_name(origin.removeprefix("http://"))
            and secrets.compare_digest(brought, f"Bearer {self.token}".encode())
        )

    def _is_our_name(self, host: str) -> bool:
        named = host if ":" in host or self.port != 80 else f"{host}:80"  # browsers leave it out
        return named in {f"127.0.0.1:{self.port}", f"localhost:{self.port}"}
