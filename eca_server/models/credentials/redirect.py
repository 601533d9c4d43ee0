"""The local page to which a browser is redirected after a login.

It listens on 127.0.0.1 only, for five minutes. A request without the random state of a pending
login is refused. The page contains nothing of the request.
"""

from __future__ import annotations

import errno
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qs

import attrs
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
        """Answer the browser's request that is meant for this login."""
        if self._code is not None:
            await responder.respond(410, _page("This login has already ended."), _HEADERS)
            return
        fields = _fields(request)
        self.issuer = fields.get("iss")
        self._code = _code_in(fields)
        failed = isinstance(self._code, OAuthError)
        result = "The login failed." if failed else "The login was approved."
        try:
            await responder.respond(200, _page(f"{result} You can close this page."), _HEADERS)
        finally:  # the login that listens may end meanwhile
            self._came.set()

    def fail(self, error: OAuthError) -> None:
        """End the login, unless the browser has returned."""
        self._code = self._code or error
        self._came.set()

    def is_meant(self, request: HTTPRequest) -> bool:
        """Return whether a request of the browser has this login's path and state."""
        state = _fields(request).get("state", "")
        brought, expected = (
            (request.path, self.path) if self._state_in_path else (state, self.state)
        )
        is_ours = secrets.compare_digest(brought.encode(), expected.encode())
        return is_ours and request.path == self.path


class PortInUse(OAuthError):
    """The error of a login whose only port is in use."""


@attrs.define(eq=False)
class _Port:
    """A port of this machine, and the logins of this process that wait at it.

    One of them listens for all; the next one listens after it. A request belongs to the login with
    its state.

    Attributes:
        number: 0: any free port, for one login.
        turn: held by the login that listens.
    """

    number: int
    pages: list[Redirect] = attrs.field(factory=list)
    turn: trio.Lock = attrs.field(factory=trio.Lock)

    async def listen(
        self, page: Redirect, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Listen until cancelled, as soon as no earlier login does.

        Raises:
            OAuthError: the port cannot be used. If an earlier login listens, `page` fails instead.
        """
        is_later = self.turn.locked()
        if is_later:
            page.url = f"http://127.0.0.1:{self.number}{page.path}"
            task_status.started()
        async with self.turn:
            try:
                async with serve(self._handle, port=self.number, limits=_LIMITS) as server:
                    if not is_later:
                        page.url = f"{server.url}{page.path}"
                        task_status.started()
                    await trio.sleep_forever()
            except OSError as error:
                if not is_later:
                    raise _port_error(self.number, error) from None
                page.fail(_port_error(self.number, error))

    async def _handle(self, request: HTTPRequest, responder: Responder) -> None:
        is_get = request.method == "GET"
        page = next((each for each in self.pages if is_get and each.is_meant(request)), None)
        if page is None:
            await responder.respond(404, b"Not found.\n", {"connection": "close"})
        else:
            await page.handle(request, responder)


_ports: trio.lowlevel.RunVar[dict[int, _Port]] = trio.lowlevel.RunVar("redirect ports")


@asynccontextmanager
async def redirect_page(
    *, port: int = 0, path: str = "/callback", state_in_path: bool = False
) -> AsyncIterator[Redirect]:
    """Serve a page that waits for one login, until the block is left.

    Args:
        port: the port, if the provider allows only one; several logins may wait at it. 0: any free
            port.
        path: the page's path.
        state_in_path: put the state into the path, for providers that do not return it.

    Raises:
        PortInUse: a different program listens at the port.
        OAuthError: the port cannot be used.
    """
    redirect = Redirect(path, state_in_path=state_in_path)
    shared = _port(port)
    shared.pages.append(redirect)
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(shared.listen, redirect)
            yield redirect
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        _, own = group.split(trio.Cancelled)  # of the listener, if the caller was cancelled, too
        if own is not None and len(own.exceptions) == 1:
            raise own.exceptions[0] from None  # the block's own exception
        raise
    finally:
        shared.pages.remove(redirect)


def _port(number: int) -> _Port:
    """Return the port with its logins; a new one if any free port will do."""
    if number == 0:
        return _Port(0)
    try:
        ports = _ports.get()
    except LookupError:
        _ports.set(ports := {})
    return ports.setdefault(number, _Port(number))


def _port_error(port: int, error: OSError) -> OAuthError:
    setting = "(`oauthPort` of an MCP server, `auth.redirectPort` of a provider)"
    if error.errno != errno.EADDRINUSE:
        reason = error.strerror or type(error).__name__
        return OAuthError(
            f"could not listen on port {port} of this machine: {reason}; configure a different "
            f"one, if the login allows it {setting}"
        )
    return PortInUse(
        f"port {port} of this machine is in use, perhaps by a login in a different editor: finish "
        f"or close that, then log in again; or configure a different port {setting}"
    )


def _fields(request: HTTPRequest) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(request.query).items()}


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
