"""One URL of a server: HTTP requests to it, and its refusals.

Rules: configured headers are sent only to the origin that they were configured for, and never over
a plain connection after a redirect; the user cannot set the protocol's headers; the text of a
refusal is shown without tags and keys, and then cut.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urljoin, urlsplit

import attrs

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_protocol.http import Deadlines, HTTPClient, HTTPResponse
from eca_server.agent.mcp.errors import MCPError
from eca_server.models.retry_after import demanded_wait
from eca_server.origins import is_same_origin
from eca_server.secret import Secret, mask, secrets_in

if TYPE_CHECKING:
    from eca_server.agent.mcp.authorization.login import Login

BodyKind: TypeAlias = Literal["events", "json", "page", "unknown"]

MAX_REDIRECTS: Final = 3

_OURS: Final = frozenset(
    {"host", "content-length", "content-type", "accept", "last-event-id", "transfer-encoding"}
)
_SAME_METHOD: Final = frozenset({307, 308})  # the redirects that preserve method and body
_UNAUTHORIZED: Final = 401
_SHOWN: Final = 200
_TAG: Final = re.compile(r"(?is)<(script|style)\b.*?(?:</\1>|\Z)|<[^<>]*>")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")


@attrs.frozen(kw_only=True)
class Refusal:
    """An HTTP response without success.

    Attributes:
        error: the JSON-RPC error in its body, if there is one.
        answered: the id of the request that the error answers.
        text: its text, for people.
        retry_after: seconds after which the request may be repeated, if the server names them.
        challenge: its `WWW-Authenticate` header.
    """

    status: int
    error: Mapping[str, Any] | None = None
    answered: Any = None
    text: str = ""
    retry_after: float | None = None
    challenge: str = ""

    def __str__(self) -> str:
        return f"status {self.status}{f': {self.text}' if self.text else ''}"


class HTTPEndpoint:
    """A URL to which messages are sent, with the user's headers."""

    def __init__(
        self,
        url: str,
        *,
        http: HTTPClient,
        headers: Mapping[str, str],
        login: Login | None = None,
    ) -> None:
        self.url = url
        self._http = http
        self._headers = {
            name: value
            for name, value in headers.items()
            if name.lower() not in _OURS and not name.lower().startswith("mcp-")
        }
        self._secrets = set(secrets_in(headers))  # and the tokens that were sent
        self._is_authorized = any(name.lower() == "authorization" for name in headers)
        self._login = None if self._is_authorized else login

    def at(self, url: str) -> HTTPEndpoint:
        """Return the endpoint of a different URL of the same server.

        Raises:
            MCPError: the URL has a different origin, where the user's headers must not go.
        """
        target = _joined(self.url, url)
        if not is_same_origin(self.url, target):
            raise MCPError(f"it leads to a different origin: {mask(target, *self._secrets)}")
        return HTTPEndpoint(target, http=self._http, headers=self._headers, login=self._login)

    @contextlib.asynccontextmanager
    async def ask(
        self,
        method: str,
        *,
        headers: Mapping[str, str],
        content: bytes = b"",
        deadlines: Deadlines,
        resend: bool = True,
    ) -> AsyncIterator[HTTPResponse]:
        """Send a request and follow redirects; see `HTTPClient.stream`.

        Raises:
            HTTPError: there is no response.
            MCPError: a redirect is not allowed.
        """
        url, redirects, was_renewed = self.url, 0, False
        while True:
            token = await self._login.token() if self._login else None
            bearer = {"authorization": f"Bearer {token.reveal()}"} if token else {}
            self._secrets |= {token} if token else set()
            async with self._http.stream(
                method,
                url,
                headers={**self._headers, **bearer, **headers},
                content=content,
                deadlines=deadlines,
                shows_certificate=is_same_origin(url, self.url),
                resend=resend,
            ) as response:
                if response.status in _SAME_METHOD:
                    redirects += 1
                    location = response.headers.get("location", "")
                    url = self._next(url, location, has_secret=bool(self._headers or token))
                elif was_renewed or not await self._has_new_token(response.status, token):
                    if is_same_origin(url, self.url):
                        self.url = url
                    yield response
                    return
                else:
                    was_renewed = True
            if redirects > MAX_REDIRECTS:
                raise MCPError(f"it answers with more than {MAX_REDIRECTS} redirects", kind="start")

    async def _has_new_token(self, status: int, token: Secret | None) -> bool:
        """Return whether a refused request may be repeated with a renewed token."""
        if status != _UNAUTHORIZED or self._login is None or token is None:
            return False
        return await self._login.renew_refused(token)

    async def login_fault(self, refusal: Refusal) -> MCPError | None:
        """Return the error for a refusal that requires a login, or None."""
        if self._login is not None and self._login.requires_login(
            refusal.status, refusal.challenge
        ):
            return await self._login.login_error(refusal.challenge)
        if refusal.status != _UNAUTHORIZED:
            return None
        if self._is_authorized:
            return MCPError("it refused the configured `Authorization` header (401)", kind="start")
        return MCPError(f"it requires a login ({refusal})", kind="login")

    def _next(self, url: str, location: str, *, has_secret: bool) -> str:
        target = _joined(url, location)
        shown = mask(target, *self._secrets)
        if urlsplit(target).scheme not in ("http", "https") or not location:
            raise MCPError(f"it redirects to an invalid URL: {shown}", kind="start")
        if is_same_origin(url, target):
            return target
        if url.lower().startswith("https:") and not target.lower().startswith("https:"):
            raise MCPError(f"it redirects to a plain connection: {shown}", kind="start")
        if has_secret:
            raise MCPError(
                f"it redirects to {shown}, where headers and login must not go: "
                "configure this URL if you trust it",
                kind="start",
            )
        return target

    async def refusal(self, response: HTTPResponse) -> Refusal:
        """Return the refusal in a response; read its body, up to a limit."""
        body = await response.read_excerpt()
        retry_after = demanded_wait(response.headers, None, "", status=response.status)
        challenge = response.headers.get("www-authenticate", "")
        try:
            value = json.loads(body)
        except InvalidJSON:
            value = None
        error = value.get("error") if isinstance(value, dict) else None
        if isinstance(error, dict):
            text = self._shown(str(error.get("message", "")))
            return Refusal(
                status=response.status,
                error=error,
                answered=value.get("id"),
                text=text,
                retry_after=retry_after,
                challenge=challenge,
            )
        if 300 <= response.status < 400:
            text = f"it redirects to {response.headers.get('location', 'nowhere')}"
        else:
            text = _TAG.sub(" ", body.decode("utf-8", "replace"))
        return Refusal(
            status=response.status,
            text=self._shown(text),
            retry_after=retry_after,
            challenge=challenge,
        )

    def _shown(self, text: str) -> str:
        visible = _CONTROL.sub(" ", text)
        return mask(" ".join(visible.split()), *self._secrets)[:_SHOWN]


def body_kind(response: HTTPResponse, start: bytes) -> BodyKind:
    """Return the kind of a body by its media type, else by its first bytes."""
    match response.headers.get("content-type", "").partition(";")[0].strip().lower():
        case "text/event-stream":
            return "events"
        case "application/json":
            return "json"
        case "text/html":
            return "page"
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith((b"{", b"[")):
        return "json"
    if text.startswith((b"data:", b"event:", b"id:", b"retry:", b":")):
        return "events"
    return "page" if text.startswith(b"<") else "unknown"


def _joined(url: str, reference: str) -> str:
    try:
        return urljoin(url, reference)
    except ValueError:
        raise MCPError(f"it leads to an invalid URL: {mask(reference)[:200]!r}") from None
