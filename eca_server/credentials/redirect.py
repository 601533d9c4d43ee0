"""Where a browser comes back to after a login: a page of ours on this machine.

The rules it keeps: it listens on 127.0.0.1 only, for one login and five minutes; what does not
carry the login's own random state is turned away, whatever else it carries; the page holds nothing
of what came.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qs

import trio

from eca_protocol.http_server import HTTPRequest, Responder, serve
from eca_server.credentials.oauth import OAuthFault
from eca_server.secret import Secret, mask, parse_key

__all__ = ["SECONDS", "Redirect", "redirect_page"]

SECONDS: Final = 300.0
"""How long a login may take."""

_HEADERS: Final = {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'",
    "referrer-policy": "no-referrer",
    "connection": "close",
}


class Redirect:
    """The page, as long as it waits.

    Attributes:
        url: where the browser is to be sent back to.
        state: what it must bring.
        issuer: who sent it back, if it says so.
    """

    def __init__(self, path: str, *, state_in_path: bool) -> None:
        self.state = secrets.token_urlsafe(32)
        self.url = ""
        self.issuer: str | None = None
        self.path = f"{path}/{self.state}" if state_in_path else path
        self._state_in_path = state_in_path
        self._came = trio.Event()
        self._code: Secret | OAuthFault | None = None

    async def code(self) -> Secret:
        """What the provider sent the browser back with; waits for it.

        Raises:
            OAuthFault: the provider refused, or nobody came in time.
        """
        with trio.move_on_after(SECONDS):
            await self._came.wait()
        if self._code is None:
            raise OAuthFault(f"nobody came back from the browser within {SECONDS / 60:g} minutes")
        if isinstance(self._code, OAuthFault):
            raise self._code
        return self._code

    async def handle(self, request: HTTPRequest, responder: Responder) -> None:
        """Answer the browser."""
        fields = {name: values[0] for name, values in parse_qs(request.query).items()}
        if request.method != "GET" or not self._is_meant(request.path, fields.get("state", "")):
            await responder.respond(404, b"There is nothing here.\n", {"connection": "close"})
        elif self._code is not None:
            await responder.respond(410, _page("This login is over."), _HEADERS)
        else:
            self.issuer = fields.get("iss")
            self._code = _code_in(fields)
            failed = isinstance(self._code, OAuthFault)
            told = "The login failed." if failed else "You are logged in."
            await responder.respond(200, _page(f"{told} This page can be closed."), _HEADERS)
            self._came.set()

    def _is_meant(self, path: str, state: str) -> bool:
        brought, expected = (path, self.path) if self._state_in_path else (state, self.state)
        is_ours = secrets.compare_digest(brought.encode(), expected.encode())
        return is_ours and path == self.path


@asynccontextmanager
async def redirect_page(
    *, port: int = 0, path: str = "/callback", state_in_path: bool = False
) -> AsyncIterator[Redirect]:
    """A page that waits for one login; gone when the block is left.

    Args:
        port: if the provider allows only one; 0: any.
        path: the page's.
        state_in_path: for providers that give no state back: it stands in the path then.

    Raises:
        OAuthFault: the port is taken.
    """
    redirect = Redirect(path, state_in_path=state_in_path)
    try:
        async with serve(redirect.handle, port=port) as server:
            redirect.url = f"{server.url}{redirect.path}"
            yield redirect
    except OSError as fault:
        words = f"port {port} of this machine cannot be listened on: {fault.strerror}"
        raise OAuthFault(words) from None


def _code_in(fields: dict[str, str]) -> Secret | OAuthFault:
    if "error" in fields:
        told = fields.get("error_description", fields["error"])[:300]
        return OAuthFault(mask(told), code=fields["error"][:100])
    try:
        code = parse_key(fields.get("code", ""))
    except ValueError as fault:
        return OAuthFault(f"code: {fault}")
    return code or OAuthFault("expected a code from the browser, got none")


def _page(text: str) -> bytes:
    return f"<!doctype html><title>Login</title><p>{text}</p>\n".encode()
