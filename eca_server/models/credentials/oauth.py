"""OAuth 2 as a public client: PKCE, code exchange, token renewal.

A secret goes only over `https` or to this machine, and never into a URL. The user's certificate is
shown to hosts that the user has configured, and not to those that a server names. Error messages of
a server are shown without the secrets that it was sent.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote_plus, urlencode, urlsplit

import attrs
import trio

from eca_protocol import json
from eca_protocol.errors import ECAError, HTTPError, InvalidJSON
from eca_protocol.http import Deadlines, HTTPClient
from eca_server.origins import is_same_origin
from eca_server.secret import Secret, mask, parse_key

_DEADLINES: Final = Deadlines(connect=10, write=10, first_byte=20, idle=10)
_SUCCESS: Final = frozenset({200, 201})
_BUSY: Final = frozenset({408, 429})
_SECONDS: Final = 30.0
_LONGEST: Final = 100 * 365 * 86_400.0
_EARLY: Final = 60.0
"""Seconds before its expiry when a token is renewed, so that no request meets the expiry.

A token with a life of a minute or two is used for half of it.
"""
_PAGE: Final = re.compile(r"(?ai)https?://[\w.:%\[\]-]+(?:[/?#][!-\[\]-~]*)?")


class OAuthError(ECAError):
    """A login server could not be reached, or refused.

    Attributes:
        status: the HTTP status; None: there was no answer.
        is_foreign: true if the answer came from a proxy, or from a network's login page.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        is_foreign: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.is_foreign = is_foreign

    @property
    def is_temporary(self) -> bool:
        """True if the server is failing or busy: the same request may succeed later."""
        return self.status is not None and (self.status >= 500 or self.status in _BUSY)


class LoggedOut(OAuthError):
    """The login has ended: it was revoked, or used up elsewhere. Only a new login helps."""


_ENDED: Final = frozenset(
    {"invalid_grant", "invalid_client", "unauthorized_client", "bad_refresh_token"}
)
"""Errors of a renewal after which only a new login helps: it ended, or the client is unknown."""

Authentication: TypeAlias = Literal["client_secret_basic", "client_secret_post"]


@attrs.frozen(kw_only=True)
class Client:
    """An OAuth client and its token endpoint.

    Attributes:
        token_url: the endpoint that issues and renews tokens.
        authentication: where the secret is sent (RFC 7591): in a header, or in the form.
        resource: the resource that the tokens are for, if the server needs it.
        issuer: the authorization server of the client, if it is known by name.
    """

    id: str
    token_url: str
    secret: Secret | None = None
    authentication: Authentication = "client_secret_post"
    resource: str | None = None
    issuer: str | None = None

    @property
    def shows_certificate(self) -> bool:
        """True if the token endpoint is configured, or at the origin of the resource."""
        return self.resource is None or is_same_origin(self.token_url, self.resource)

    def fields(self) -> dict[str, str | Secret]:
        """Return the form fields that identify the client and the resource."""
        # Servers of the Python SDK of MCP require the id here, too, besides the header.
        fields: dict[str, str | Secret] = {"client_id": self.id}
        if self.secret is not None and self.authentication == "client_secret_post":
            fields["client_secret"] = self.secret
        if self.resource is not None:
            fields["resource"] = self.resource
        return fields

    def headers(self) -> dict[str, str]:
        """Return the headers that identify the client (RFC 6749, 2.3.1)."""
        if self.secret is None or self.authentication != "client_secret_basic":
            return {}
        both = f"{quote_plus(self.id)}:{quote_plus(self.secret.reveal())}"
        return {"authorization": f"Basic {base64.b64encode(both.encode()).decode()}"}


@attrs.frozen(kw_only=True)
class TokenSet:
    """The tokens of a login. Times are in seconds since the epoch.

    Attributes:
        access: the token that requests carry.
        refresh: the token that renews it; None: it cannot be renewed.
        expires_at: the expiry; None: never, or unknown.
        obtained_at: the time of issue.
        logged_in_at: the time of the user's login, which renewals preserve.
        client: the client that obtained the tokens and renews them.
    """

    access: Secret
    refresh: Secret | None = None
    expires_at: float | None = None
    obtained_at: float
    logged_in_at: float = attrs.field(
        default=attrs.Factory(lambda tokens: tokens.obtained_at, takes_self=True)
    )
    client: Client

    @property
    def secrets(self) -> list[Secret]:
        """The access token and, if there is one, the refresh token."""
        return [each for each in (self.access, self.refresh) if each is not None]

    def is_due(self, now: float) -> bool:
        """Return whether to renew the token before use.

        A clock before the time of issue was set back: the token's age is unknown, so renew.
        """
        if self.refresh is None or self.expires_at is None:
            return False
        early = min(_EARLY, (self.expires_at - self.obtained_at) / 2)
        return now > self.expires_at - early or now < self.obtained_at - _EARLY

    def is_over(self, now: float) -> bool:
        """Return whether the token has expired, as far as is known."""
        return self.expires_at is not None and now >= self.expires_at


class Challenge:
    """A PKCE challenge (S256): it binds the exchange of a code to its request."""

    def __init__(self) -> None:
        self.verifier = Secret(secrets.token_urlsafe(48))
        digest = hashlib.sha256(self.verifier.reveal().encode()).digest()
        self.text = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def page_url(authorize_url: str, query: Mapping[str, str | None]) -> str:
    """Return the URL of a page to log in at; empty values of the query are left out."""
    mark = "&" if urlsplit(authorize_url).query else "?"
    return f"{authorize_url}{mark}{urlencode({k: v for k, v in query.items() if v})}"


def code_query(
    client: Client, challenge: Challenge, *, redirect: str, state: str, scope: str | None
) -> dict[str, str | None]:
    """Return the query that asks an authorization server for a code."""
    return {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": redirect,
        "state": state,
        "code_challenge": challenge.text,
        "code_challenge_method": "S256",
        "scope": scope,
    }


async def tokens_for_code(
    http: HTTPClient,
    client: Client,
    *,
    code: Secret,
    redirect: str,
    challenge: Challenge,
) -> TokenSet:
    """Exchange a redirect's code for tokens.

    Raises:
        OAuthError: the server issued none.
        HTTPError: the server cannot be reached.
    """
    fields: dict[str, str | Secret] = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect,
        "code_verifier": challenge.verifier,
        **client.fields(),
    }
    answer = await post_form(http, client, fields)
    return tokens_in(answer, client, now=time.time())


async def renewed(http: HTTPClient, tokens: TokenSet, *, now: float) -> TokenSet:
    """Return new tokens in place of `tokens`, which are invalid from then on.

    Raises:
        LoggedOut: the login has ended.
        OAuthError: the renewal failed this time.
        HTTPError: the server cannot be reached.
    """
    if tokens.refresh is None:
        raise LoggedOut("the login has ended and cannot be renewed")
    fields: dict[str, str | Secret] = {
        "grant_type": "refresh_token",
        "refresh_token": tokens.refresh,
        **tokens.client.fields(),
    }
    try:
        answer = await post_form(http, tokens.client, fields)
    except OAuthError as error:
        if error.code in _ENDED:
            raise LoggedOut(str(error), code=error.code, status=error.status) from None
        raise
    new = tokens_in(answer, tokens.client, now=now)
    return attrs.evolve(
        new, refresh=new.refresh or tokens.refresh, logged_in_at=tokens.logged_in_at
    )


def tokens_in(answer: Mapping[str, Any], client: Client, *, now: float) -> TokenSet:
    """Read the tokens in a server's answer.

    Args:
        answer: the parsed body.
        client: the client that sent the request.
        now: the current time, in seconds since the epoch.

    Raises:
        OAuthError: the answer has no token.
    """
    lifetime = seconds_in(answer, "expires_in")
    return TokenSet(
        access=secret_in(answer, "access_token"),
        refresh=secret_in(answer, "refresh_token") if answer.get("refresh_token") else None,
        expires_at=None if lifetime is None else now + lifetime,
        obtained_at=now,
        client=client,
    )


def seconds_in(answer: Mapping[str, Any], name: str) -> float | None:
    """Return a number of seconds in an answer, from 0 to a century; None: it is no number.

    Some servers send its digits as a string.
    """
    value = answer.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(max(0, min(value, _LONGEST)))


def secret_in(answer: Mapping[str, Any], name: str) -> Secret:
    """Return the field `name` of an answer, if a header can carry it.

    Raises:
        OAuthError: the field is missing or unusable.
    """
    text = answer.get(name)
    try:
        secret = parse_key(text) if isinstance(text, str) else None
    except ValueError as error:
        raise OAuthError(f"{name}: {error}") from None
    if secret is None:
        got = ", ".join(answer)[:200] or "nothing"
        raise OAuthError(f"expected {name} in the answer, got {got}")
    return secret


async def post_form(
    http: HTTPClient,
    client: Client,
    fields: Mapping[str, str | Secret],
    *,
    url: str | None = None,
) -> Mapping[str, Any]:
    """Post a form of a client and return the server's JSON object.

    `url`: the address; None: the client's token endpoint.

    Raises:
        OAuthError: as in `ask`.
        HTTPError: the server cannot be reached.
    """
    plain = {name: _revealed(value) for name, value in fields.items()}
    sent = (*fields.values(), client.secret)
    return await ask(
        http,
        "POST",
        url or client.token_url,
        headers={"content-type": "application/x-www-form-urlencoded", **client.headers()},
        content=urlencode(plain).encode(),
        hide=tuple(value for value in sent if isinstance(value, Secret)),
        shows_certificate=client.shows_certificate,
    )


async def ask(
    http: HTTPClient,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    content: bytes = b"",
    hide: tuple[Secret, ...] = (),
    shows_certificate: bool,
) -> Mapping[str, Any]:
    """Return the JSON object that a login server answers; an `error` in it counts at any status.

    Args:
        http: the client.
        method: the HTTP method.
        url: the address; `https`, or this machine.
        headers: the request's headers.
        content: its body.
        hide: secrets to mask in error messages.
        shows_certificate: the user's certificate may be shown to the host of the address.

    Raises:
        OAuthError: the server refused, or its answer cannot be read.
        HTTPError: the server cannot be reached, or took too long.
    """
    if not _is_safe(url):
        raise OAuthError(f"expected an https URL for a login, got {mask(url)}")
    with trio.move_on_after(_SECONDS):
        async with http.stream(
            method,
            url,
            headers={"accept": "application/json", **headers},
            content=content,
            deadlines=_DEADLINES,
            shows_certificate=shows_certificate,
        ) as response:
            is_success = response.status in _SUCCESS
            body = await (response.read() if is_success else response.read_excerpt())
        return _answer(response.status, body, hide)
    raise HTTPError("timeout", f"the login took longer than {_SECONDS:g} s")


def _answer(status: int, body: bytes, hide: tuple[Secret, ...]) -> Mapping[str, Any]:
    try:
        answer = json.loads(body)
    except InvalidJSON:
        answer = None
    if not isinstance(answer, dict):
        is_foreign = status < 400 or status in (403, 511)
        hint = ": a network may require a login in the browser" if is_foreign else ""
        raise OAuthError(
            f"expected a JSON object, got something else (status {status}){hint}",
            status=status,
            is_foreign=is_foreign,
        )
    code = answer.get("error")
    if status in _SUCCESS and not code:
        return answer
    description = next(
        (answer[name] for name in ("error_description", "message", "error") if answer.get(name)), ""
    )
    if isinstance(description, dict):
        description = description.get("message", "")
    message = mask(str(description), *hide)[:500] or f"status {status}"
    raise OAuthError(message, code=code if isinstance(code, str) else None, status=status)


def checked_page(url: str) -> str:
    """Return the URL of a login page if people and every browser see the same host in it.

    Raises:
        OAuthError: it is not a plain URL, or has a user before its host.
    """
    if not _PAGE.fullmatch(url):
        raise OAuthError(f"expected the URL of a login page, got {mask(url)[:200]!r}")
    return url


def _is_safe(url: str) -> bool:
    return url.lower().startswith("https://") or (
        url.lower().startswith("http://") and is_on_this_machine(url)
    )


def is_on_this_machine(url: str) -> bool:
    """Return whether a URL names this machine itself, so that no network is involved."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _revealed(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value
