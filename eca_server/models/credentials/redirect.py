"""The local page to which a browser is redirected after a login.

It listens on 127.0.0.1 only, for one login and five minutes. A request without the login's random
state is refused. The page contains nothing of the request.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qs

import trio

from eca_protocol.http_server import HTTPRequest, Responder, ServerLimits, serve
from eca_server.models.credentials.oauth import OAuthError
from eca_server.secret import Secret, mask, parse_key

SECONDS: Final = 300.0
"""The time limit of a login."""

_LIMITS: Final = ServerLimits(max_body=1024)  # any page of the browser can send one

_HEADERS: Final = {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'",
    "referrer-policy": "no-referrer",
    "connection": "close",
}


class Redirect:
    """The page while it waits.

    Attributes:
        issuer: the issuer named by the redirect, if any.
    """

    def __init__(self, path: str, *, state_in_path: bool) -> None:
        self.state = secrets.token_urlsafe(32)
        self.url = ""
        self.issuer: str | None = None
        self.path = f"{path}/{self.state}" if state_in_path else path
        self._state_in_path = state_in_path
        self._came = trio.Event()
        self._code: Secret | OAuthError | None = None

    async def code(self) -> Secret:
        """Wait for the redirect and return its code.

        Raises:
            OAuthError: the provider refused, or the time limit passed.
        """
        with trio.move_on_after(SECONDS):
            await self._came.wait()
        if self._code is None:
            raise OAuthError(f"the browser did not return in {SECONDS / 60:g} minutes: try again")
        if isinstance(self._code, OAuthError):
            raise self._code
        return self._code

    async def handle(self, request: HTTPRequest, responder: Responder) -> None:
        """Answer a request of the browser."""
        fields = {name: values[0] for name, values in parse_qs(request.query).items()}
        if request.method != "GET" or not self._is_meant(request.path, fields.get("state", "")):
            await responder.respond(404, b"Not found.\n", {"connection": "close"})
        elif self._code is not None:
            await responder.respond(410, _page("This login has already ended."), _HEADERS)
        else:
            self.issuer = fields.get("iss")
            self._code = _code_in(fields)
            failed = isinstance(self._code, OAuthError)
            result = "The login failed." if failed else "The login was approved."
            await responder.respond(200, _page(f"{result} You can close this page."), _HEADERS)
            self._came.set()

    def _is_meant(self, path: str, state: str) -> bool:
        brought, expected = (path, self.path) if self._state_in_path else (state, self.state)
        is_ours = secrets.compare_digest(brought.encode(), expected.encode())
        return is_ours and path == self.path


@asynccontextmanager
async def redirect_page(
    *, port: int = 0, path: str = "/callback", state_in_path: bool = False
) -> AsyncIterator[Redirect]:
    """Serve a page that waits for one login, until the block is left.

    Args:
        port: the port, if the provider allows only one; 0: any free port.
        path: the page's path.
        state_in_path: put the state into the path, for providers that do not return it.

    Raises:
        OAuthError: the port is in use.
    """
    redirect = Redirect(path, state_in_path=state_in_path)
    try:
        async with serve(redirect.handle, port=port, limits=_LIMITS) as server:
            redirect.url = f"{server.url}{redirect.path}"
            yield redirect
    except OSError as error:
        message = f"could not listen on port {port} of this machine: {error.strerror}"
        raise OAuthError(message) from None


def _code_in(fields: dict[str, str]) -> Secret | OAuthError:
    if "error" in fields:
        message = fields.get("error_description", fields["error"])
        return OAuthError(mask(message)[:300], code=fields["error"][:100])
    try:
        code = parse_key(fields.get("code", ""))
    except ValueError as error:
        return OAuthError(f"code: {error}")
    return code or OAuthError("expected a code from the browser, got none")


def _page(text: str) -> bytes:
    return f"<!doctype html><title>Login</title><p>{text}</p>\n".encode()
