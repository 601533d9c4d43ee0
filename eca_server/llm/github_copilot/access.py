"""The way to Copilot: a GitHub login buys short tokens, and each says where requests go.

The rules it keeps: the login goes to GitHub alone, the short token to Copilot alone, and neither is
stored here; how long a token lives is measured on our own clock, for the user's may be wrong. We
say who we are and claim to be nobody else: a service that wants another name is given it by the
user (`extraHeaders`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

import attrs
import trio

from eca_protocol import json
from eca_protocol.errors import HTTPFault, InvalidJSON
from eca_protocol.http import Deadlines
from eca_server.llm.access import Target, Way, endpoint
from eca_server.llm.backend import BackendError, Request
from eca_server.llm.errors import error_from_fault, error_from_response
from eca_server.llm.history import ImagePart, Part, ToolResultPart
from eca_server.secret import Secret, parse_key

__all__ = ["BASE", "CopilotAccess"]

BASE: Final = "https://api.githubcopilot.com"
"""Where requests go as long as GitHub says nothing else."""

_IDENTITY: Final[Mapping[str, str]] = {
    "editor-version": "eca-python/0.1",
    "editor-plugin-version": "eca-python/0.1",
    "x-github-api-version": "2025-05-01",
}
_DEADLINES: Final = Deadlines(connect=10, write=10, first_byte=20, idle=10)
_LIVES: Final = 1500.0
"""Seconds after which a token is renewed if GitHub does not say."""


@attrs.frozen(kw_only=True)
class _Token:
    """A short token.

    Attributes:
        secret: what requests carry.
        base: where they go.
        due: when another one is fetched, on trio's clock.
    """

    secret: Secret
    base: str
    due: float


class CopilotAccess:
    """As `Access`, for everything of one login.

    Args:
        way: the GitHub login, and what is configured.
    """

    def __init__(self, way: Way) -> None:
        self._way = way
        self._token_url = (
            endpoint(way.host, "/api/v3/copilot_internal/v2/token")
            if way.host
            else "https://api.github.com/copilot_internal/v2/token"
        )
        self._login: Secret | None = None
        self._token: _Token | None = None
        self._one_at_a_time = trio.Lock()

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """As `Access.secrets`."""
        known = (self._login, None if self._token is None else self._token.secret)
        return tuple(each for each in known if each is not None)

    async def target(self, path: str, request: Request | None = None) -> Target:
        """As `Access.target`."""
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
            if _has_pictures(request):
                headers["copilot-vision-request"] = "true"
        return Target(endpoint(token.base, path), headers)

    async def renew(self, target: Target) -> bool:
        """As `Access.renew`: a token may be refused before its time."""
        token = self._token
        if token is not None and target.headers["authorization"].endswith(token.secret.reveal()):
            self._token = None
        await self._current()
        return True

    def judge(self, error: BackendError) -> None:
        """As `Access.judge`."""
        if error.code == "model_not_supported":
            error.kind = "model_not_found"
            error.message += ". Switch the model on in the Copilot settings of your GitHub account"
        elif error.status == 466 or "editor-version" in error.message.lower():
            error.kind = "permission"
            error.message += (
                ". Copilot wants a name that it knows: set the headers that you may use in "
                "`providers.github-copilot.extraHeaders`"
            )
        elif error.status == 422:
            error.kind = "content_filter"
        elif error.status == 424:
            error.kind, error.retryable = "overloaded", True

    async def _current(self) -> _Token:
        async with self._one_at_a_time:
            if self._token is None or trio.current_time() >= self._token.due:
                self._token = await self._fetched()
            return self._token

    async def _fetched(self) -> _Token:
        login = self._login = await self._way.login()
        headers = {
            **_IDENTITY,
            "accept": "application/json",
            "authorization": f"token {login.reveal()}",
        }
        try:
            async with self._way.http.stream(
                "GET",
                self._token_url,
                headers=headers,
                deadlines=_DEADLINES,
                shows_certificate=True,
            ) as response:
                body = await response.read()
        except HTTPFault as fault:
            raise error_from_fault(fault) from fault
        if response.status != 200:
            raise _refusal(response.status, response.headers, body)
        return self._read(body)

    def _read(self, body: bytes) -> _Token:
        try:
            answer = json.loads(body)
            secret = parse_key(answer["token"])
        except (InvalidJSON, ValueError, TypeError, KeyError, AttributeError):
            secret = None
        if secret is None:
            raise BackendError("protocol", "expected a token of Copilot, got something else")
        self._way.hide([secret])
        lives, endpoints = answer.get("refresh_in"), answer.get("endpoints")
        told = str(endpoints.get("api")) if isinstance(endpoints, dict) else ""
        is_base = told.startswith(("https://", "http://127.0.0.1:"))
        seconds = lives if isinstance(lives, int | float) and lives > 0 else _LIVES
        return _Token(
            secret=secret,
            base=self._way.url or (told if is_base else BASE),
            due=trio.current_time() + seconds,
        )


def _refusal(status: int, headers: Mapping[str, str], body: bytes) -> BackendError:
    """What GitHub's refusal of a token is: the login is over, or the user has no Copilot."""
    error = error_from_response(status, headers, body)
    words = error.message
    details = _details(body)
    if details.get("message"):
        words = f"{details['message']} {details.get('url') or ''}".strip()
    if status == 401:
        error.kind, words = "auth", f"GitHub does not accept the login: {words}"
    elif status in (403, 404):
        error.kind, words = "permission", f"GitHub gives this login no Copilot: {words}"
    error.message = words
    return error


def _details(body: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(body)
    except InvalidJSON:
        return {}
    details = answer.get("error_details") if isinstance(answer, dict) else None
    return details if isinstance(details, dict) else {}


def _has_pictures(request: Request) -> bool:
    return any(_is_picture(part) for message in request.messages for part in message.parts)


def _is_picture(part: Part) -> bool:
    if isinstance(part, ToolResultPart):
        return any(isinstance(each, ImagePart) for each in part.parts)
    return isinstance(part, ImagePart)
