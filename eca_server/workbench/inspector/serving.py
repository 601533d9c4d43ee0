"""The inspector's HTTP server on this machine.

It listens on 127.0.0.1 only. The page itself contains no data. The data needs the token, our own
host name, and our own page as origin. The token is in the fragment of the address, which browsers
do not send and logs do not contain. A slow reader delays nothing.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable
from typing import Final

import trio

from eca_protocol.http_server import HTTPRequest, Responder, ServerLimits
from eca_server.workbench.pages import render_page

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
    """The parts of an inspection, so far and to come, for any number of readers.

    Attributes:
        drained: set once the feed is closed and its last reader has finished.

    Args:
        max_stored: the limit of the parts stored for later pages, in bytes; the oldest are dropped
            first.
    """

    def __init__(self, *, max_stored: int = 256 * 2**20) -> None:
        self._max_stored = max_stored
        self.readers = 0
        self.drained = trio.Event()
        self._head = b""
        self._parts: deque[bytes] = deque()
        self._dropped = 0
        self._size = 0
        self._is_closed = False
        self._change = trio.Event()

    def add(self, part: bytes) -> None:
        """Add a part for all readers, without waiting."""
        if not self._head:
            self._head = part  # every page needs it
        else:
            self._parts.append(part)
            self._size += len(part)
        while self._size > self._max_stored:
            self._size -= len(self._parts.popleft())
            self._dropped += 1
        self._wake()

    def close(self) -> None:
        """Close the feed: no part follows."""
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        self._change.set()
        self._change = trio.Event()

    async def read(self, responder: Responder) -> None:
        """Send all parts to one reader until the feed is closed."""
        self.readers += 1
        try:
            await self._send_parts(responder)
        finally:
            self.readers -= 1
            if self._is_closed and not self.readers:
                self.drained.set()

    async def _send_parts(self, responder: Responder) -> None:
        if not self._head:
            await self._change.wait()
        if self._head:
            await responder.send(self._head)
        next_ = 0
        while True:
            change = self._change
            next_ = max(next_, self._dropped)
            if next_ - self._dropped < len(self._parts):
                await responder.send(self._parts[next_ - self._dropped])
                next_ += 1
            elif self._is_closed:
                return
            else:
                await change.wait()


class Site:
    """The request handler for the page and its data.

    Attributes:
        token: the token that the page needs; new for each site.
        port: the server's port, once it listens.
    """

    def __init__(self, name: str, feed: Feed) -> None:
        self.token = secrets.token_urlsafe(32)
        self.port = 0
        self._page = render_live_page(name).encode("utf-8", "replace")
        self._feed = feed

    @property
    def address(self) -> str:
        """The page's address, with the token."""
        return f"http://127.0.0.1:{self.port}/#{self.token}"

    async def handle(self, request: HTTPRequest, responder: Responder) -> None:
        """Answer one request."""
        if not self._is_own_host(request.headers.get("host", "")):
            await responder.respond(403, b"Unknown host name: use 127.0.0.1 or localhost.\n", _TEXT)
        elif request.path == "/" and request.method == "GET":
            await responder.respond(200, self._page, _HTML)
        elif request.path != "/parts":
            await responder.respond(404, b"Not found.\n", _TEXT)
        elif request.method != "POST":
            await responder.respond(405, b"Expected POST.\n", {**_TEXT, "allow": "POST"})
        elif not self._is_own_page(request):
            await responder.respond(
                403, b"Expected a request of this server's page with its token.\n", _TEXT
            )
        else:
            await responder.start(200, _PARTS)
            await self._feed.read(responder)

    def _is_own_page(self, request: HTTPRequest) -> bool:
        """Return True for a request with our page as its origin and with the token."""
        origin = request.headers.get("origin", "")
        authorization = request.headers.get("authorization", "").encode()
        return (
            origin.startswith("http://")
            and self._is_own_host(origin.removeprefix("http://"))
            and secrets.compare_digest(authorization, f"Bearer {self.token}".encode())
        )

    def _is_own_host(self, host: str) -> bool:
        full = host if ":" in host or self.port != 80 else f"{host}:80"  # browsers omit port 80
        return full in {f"127.0.0.1:{self.port}", f"localhost:{self.port}"}


def render_file_page(name: str, parts: Iterable[bytes]) -> str:
    """Render a page that contains every part."""
    data = b",".join(part.rstrip() for part in parts).replace(b"<", b"\\u003c").decode()
    return render_page("inspector.html", name=name, data=data)


def render_live_page(name: str) -> str:
    """Render a page that fetches the parts from its server, with the token of its address."""
    return render_page("inspector.html", name=name, data=None)
