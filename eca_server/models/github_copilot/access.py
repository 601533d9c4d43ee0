"""Access to Copilot: a GitHub login is exchanged for short tokens, each with its base URL.

The login goes to GitHub only, a short token to Copilot only, and neither is stored here. A token's
lifetime is measured on our own clock, since the system's may be wrong. The client's name is our
own; for a service that requires a different one, the user sets it (`extraHeaders`).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs
import trio

from eca_protocol import json
from eca_protocol.errors import HTTPError, InvalidJSON
from eca_protocol.http import Deadlines, HTTPClient
from eca_server.json_members import object_in, text_in
from eca_server.models.access import Target, TokenAccess, join_url
from eca_server.models.backend import BackendError, Request
from eca_server.models.credentials.oauth import seconds_in
from eca_server.models.errors import error_from_fault, error_from_page, error_from_response
from eca_server.models.history import ImagePart, Part, ToolResultPart
from eca_server.secret import Secret, parse_key

BASE: Final = "https://api.githubcopilot.com"
"""The base URL until GitHub names one."""

_IDENTITY: Final[Mapping[str, str]] = {
    "editor-version": "eca-python/0.1",
    "editor-plugin-version": "eca-python/0.1",
    "x-github-api-version": "2025-05-01",
}
_DEADLINES: Final = Deadlines(connect=10, write=10, first_byte=20, idle=10)
_BASE_URL: Final = re.compile(r"https://|http://127\.0\.0\.1:\d+(/|\Z)")
_LIFETIME: Final = 1500.0
"""Seconds until a token is renewed, if GitHub does not say."""


@attrs.frozen(kw_only=True)
class _Token:
    """A short token.

    Attributes:
        due: the time of its renewal, on trio's clock.
    """

    secret: Secret
    base: str
    due: float


@attrs.define(kw_only=True, eq=False)
class CopilotAccess(TokenAccess):
    """The access for all APIs of one login.

    Args:
        host: the configured installation that issues logins.
        hide: called with each new secret before it is used.
    """

    _http: HTTPClient
    _host: str | None = None
    _hide: Callable[[Iterable[Secret]], None] = lambda _: None
    _token: _Token | None = attrs.field(default=None, init=False)
    _lock: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The login and the current token."""
        return (*super().secrets, *([] if self._token is None else [self._token.secret]))

    async def target(self, path: str, request: Request | None = None) -> Target:
        """Return the target with the current token and Copilot's headers."""
        token = await self._current()
        headers = {
            **_IDENTITY,
            "authorization": f"Bearer {token.secret.reveal()}",
            "x-request-id": str(uuid.uuid4()),
        }
        if request is not None:
            is_first = request.initiator == "user" and request.paused is None
            headers["openai-intent"] = "conversation-agent"
            headers["x-initiator"] = "user" if is_first else "agent"
            if _has_images(request):
                headers["copilot-vision-request"] = "true"
        return Target(join_url(token.base, path), headers)

    async def renew(self, target: Target) -> bool:
        """Fetch a new token, since one may be refused before its expiry."""
        token = self._token
        if token is not None and target.headers["authorization"].endswith(token.secret.reveal()):
            self._token = None
        await self._current()
        return True

    def adjust_error(self, error: BackendError) -> None:
        """Explain the statuses and codes of Copilot."""
        if error.code == "model_not_supported":
            error.kind = "model_not_found"
            error.message += ". Switch the model on in the Copilot settings of your GitHub account"
        elif error.status == 466 or "editor-version" in error.message.lower():
            error.kind = "permission"
            error.message += (
                ". Copilot requires a known client: set the headers that you may use in "
                "`providers.github-copilot.extraHeaders`"
            )
        elif error.status == 422:
            error.kind = "content_filter"
        elif error.status == 424:
            error.kind, error.retryable = "overloaded", True

    async def _current(self) -> _Token:
        async with self._lock:
            if self._token is None or trio.current_time() >= self._token.due:
                self._token = await self._fetch_token()
            return self._token

    async def _fetch_token(self) -> _Token:
        login = await self._login()
        headers = {
            **_IDENTITY,
            "accept": "application/json",
            "authorization": f"token {login.reveal()}",
        }
        try:
            async with self._http.stream(
                "GET",
                self._token_url(),
                headers=headers,
                deadlines=_DEADLINES,
                shows_certificate=True,
            ) as response:
                is_success = response.status == 200
                body = await (response.read() if is_success else response.read_excerpt())
        except HTTPError as fault:
            raise error_from_fault(fault) from fault
        if not is_success:
            raise _refusal(response.status, response.headers, body)
        return self._read(body)

    def _token_url(self) -> str:
        if not self._host:
            return "https://api.github.com/copilot_internal/v2/token"
        return join_url(self._host, "/api/v3/copilot_internal/v2/token")

    def _read(self, body: bytes) -> _Token:
        if body.lstrip().startswith(b"<"):
            raise error_from_page("", body)
        try:
            answer = json.loads(body)
            secret = parse_key(answer["token"])
        except (InvalidJSON, ValueError, TypeError, KeyError, AttributeError):
            secret = None
        if secret is None:
            raise BackendError("protocol", "expected a Copilot token, got something else")
        self._hide([secret])
        listed = text_in(object_in(answer, "endpoints"), "api")
        return _Token(
            secret=secret,
            base=self._url or (listed if _BASE_URL.match(listed) else BASE),
            due=trio.current_time() + (seconds_in(answer, "refresh_in") or _LIFETIME),
        )


def _refusal(status: int, headers: Mapping[str, str], body: bytes) -> BackendError:
    """Return the error for a refused token: the login has ended, or the user has no Copilot."""
    error = error_from_response(status, headers, body)
    message = error.message
    details = _details(body)
    if details.get("message"):
        message = f"{details['message']} {details.get('url') or ''}".strip()
    if status == 401:
        error.kind, message = (
            "auth",
            f"GitHub refused the login, log in again with `/login`: {message}",
        )
    elif status == 404 or error.kind == "permission":
        error.kind, message = "permission", f"this GitHub login has no Copilot: {message}"
    error.message = message
    return error


def _details(body: bytes) -> Mapping[str, Any]:
    try:
        return object_in(json.loads(body), "error_details")
    except InvalidJSON:
        return {}


def _has_images(request: Request) -> bool:
    return any(_is_image(part) for message in request.messages for part in message.parts)


def _is_image(part: Part) -> bool:
    if isinstance(part, ToolResultPart):
        return any(isinstance(each, ImagePart) for each in part.parts)
    return isinstance(part, ImagePart)
