"""OAuth 2 as a public client: PKCE, codes for tokens, tokens renewed, logins from another device.

The rules it keeps: a secret goes only over `https`, or to this machine; it never stands in a URL;
what a server says of a fault is shown without what it was sent.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import secrets
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote_plus, urlencode, urlsplit

import attrs
import trio

from eca_protocol import json
from eca_protocol.errors import ECAError, HTTPFault, InvalidJSON
from eca_protocol.http import Deadlines, HTTPClient
from eca_server.secret import Secret, mask, parse_key

__all__ = [
    "Authentication",
    "Challenge",
    "Client",
    "LoggedOut",
    "OAuthFault",
    "TokenSet",
    "ask",
    "is_on_this_machine",
    "post_form",
    "renewed",
    "seconds_in",
    "secret_in",
    "tokens_for_code",
    "tokens_in",
]

_DEADLINES: Final = Deadlines(connect=10, write=10, first_byte=20, idle=10)
_SUCCESS: Final = frozenset({200, 201})
_SECONDS: Final = 30.0
_LONGEST: Final = 100 * 365 * 86_400.0
_EARLY: Final = 60.0
"""Seconds before its end from which on a token is renewed: a request must not meet that end."""


class OAuthFault(ECAError):
    """A server of logins could not be asked, or refused.

    Attributes:
        code: the error's name, as the server gave it.
        status: the status of its answer; None: there was none.
    """

    def __init__(self, message: str, *, code: str | None = None, status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class LoggedOut(OAuthFault):
    """The login is over: it was withdrawn, or used up elsewhere. Only a new one helps."""


Authentication: TypeAlias = Literal["client_secret_basic", "client_secret_post"]


@attrs.frozen(kw_only=True)
class Client:
    """Who asks, and whom.

    Attributes:
        id: the public name of this program with the provider.
        token_url: where codes and old tokens are exchanged for tokens.
        secret: what goes with the name, where the provider gave one.
        authentication: where the secret stands, as RFC 7591 calls it: in a header, or in the form.
        resource: for what the tokens are, where the provider gives them for many.
    """

    id: str
    token_url: str
    secret: Secret | None = None
    authentication: Authentication = "client_secret_post"
    resource: str | None = None

    def fields(self) -> dict[str, str | Secret]:
        """What a form says of who asks, and for what."""
        fields: dict[str, str | Secret] = {}
        if self.secret is None or self.authentication == "client_secret_post":
            fields["client_id"] = self.id
            if self.secret is not None:
                fields["client_secret"] = self.secret
        if self.resource is not None:
            fields["resource"] = self.resource
        return fields

    def headers(self) -> dict[str, str]:
        """What a header says of who asks (RFC 6749, 2.3.1)."""
        if self.secret is None or self.authentication != "client_secret_basic":
            return {}
        both = f"{quote_plus(self.id)}:{quote_plus(self.secret.reveal())}"
        return {"authorization": f"Basic {base64.b64encode(both.encode()).decode()}"}


@attrs.frozen(kw_only=True)
class TokenSet:
    """What a login is worth for a while. Times are those of the clock on the wall.

    Attributes:
        access: what requests carry.
        refresh: what it is renewed with; None: it cannot be.
        expires_at: when it ends; None: never, as far as is known.
        obtained_at: when we got it.
        client: who got it and renews it.
    """

    access: Secret
    refresh: Secret | None = None
    expires_at: float | None = None
    obtained_at: float
    client: Client

    def is_due(self, now: float) -> bool:
        """Whether it should be renewed before it is used.

        A clock that stands before the token was made was set back: how old it is cannot be told.
        """
        if self.refresh is None or self.expires_at is None:
            return False
        return now > self.expires_at - _EARLY or now < self.obtained_at - _EARLY

    def is_over(self, now: float) -> bool:
        """Whether it is worth nothing any more, as far as can be told."""
        return self.expires_at is not None and now >= self.expires_at


class Challenge:
    """PKCE (S256): what proves that whoever exchanges a code is who asked for it."""

    def __init__(self) -> None:
        self.verifier = Secret(secrets.token_urlsafe(48))
        digest = hashlib.sha256(self.verifier.reveal().encode()).digest()
        self.text = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


async def tokens_for_code(
    http: HTTPClient,
    client: Client,
    *,
    code: Secret,
    redirect: str,
    challenge: Challenge,
    now: float,
) -> TokenSet:
    """The tokens that a redirect's code stands for.

    Raises:
        OAuthFault: there are none.
        HTTPFault: the server cannot be reached.
    """
    fields: dict[str, str | Secret] = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect,
        "code_verifier": challenge.verifier,
        **client.fields(),
    }
    answer = await post_form(http, client.token_url, fields, client.headers())
    return tokens_in(answer, client, now=now)


async def renewed(http: HTTPClient, tokens: TokenSet, *, now: float) -> TokenSet:
    """The set that takes the place of `tokens`, which are worth nothing from then on.

    Raises:
        LoggedOut: the login is over.
        OAuthFault: it did not work this time.
        HTTPFault: the server cannot be reached.
    """
    if tokens.refresh is None:
        raise LoggedOut("the login has ended and cannot be renewed")
    fields: dict[str, str | Secret] = {
        "grant_type": "refresh_token",
        "refresh_token": tokens.refresh,
        **tokens.client.fields(),
    }
    try:
        answer = await post_form(http, tokens.client.token_url, fields, tokens.client.headers())
    except OAuthFault as fault:
        if fault.code in ("invalid_grant", "unauthorized_client", "bad_refresh_token"):
            raise LoggedOut(str(fault), code=fault.code, status=fault.status) from None
        raise
    return tokens_in(answer, tokens.client, now=now, before=tokens.refresh)


def tokens_in(
    answer: Mapping[str, Any], client: Client, *, now: float, before: Secret | None = None
) -> TokenSet:
    """The tokens in a server's answer.

    Args:
        answer: the parsed body.
        client: who asked.
        now: the time on the wall.
        before: what goes on to renew them if the answer has nothing new for that.

    Raises:
        OAuthFault: there is none.
    """
    lasts = seconds_in(answer, "expires_in")
    return TokenSet(
        access=secret_in(answer, "access_token"),
        refresh=secret_in(answer, "refresh_token") if answer.get("refresh_token") else before,
        expires_at=None if lasts is None else now + lasts,
        obtained_at=now,
        client=client,
    )


def seconds_in(answer: Mapping[str, Any], name: str) -> float | None:
    """A number of seconds in an answer, from none to a century; None: there is no number."""
    value = answer.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(max(0, min(value, _LONGEST)))


def secret_in(answer: Mapping[str, Any], name: str) -> Secret:
    """What stands in an answer under `name`, if a header can carry it.

    Raises:
        OAuthFault: there is nothing, or nothing that fits.
    """
    text = answer.get(name)
    try:
        found = parse_key(text) if isinstance(text, str) else None
    except ValueError as fault:
        raise OAuthFault(f"{name}: {fault}") from None
    if found is None:
        raise OAuthFault(f"expected {name} in the answer, got {', '.join(answer) or 'nothing'}")
    return found


async def post_form(
    http: HTTPClient,
    url: str,
    fields: Mapping[str, str | Secret],
    headers: Mapping[str, str] | None = None,
) -> Mapping[str, Any]:
    """The JSON object that a server answers to a form.

    Raises:
        OAuthFault: as in `ask`.
        HTTPFault: the server cannot be reached.
    """
    plain = {name: _revealed(value) for name, value in fields.items()}
    return await ask(
        http,
        "POST",
        url,
        headers={"content-type": "application/x-www-form-urlencoded", **(headers or {})},
        content=urlencode(plain).encode(),
        hide=tuple(value for value in fields.values() if isinstance(value, Secret)),
    )


async def ask(
    http: HTTPClient,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    content: bytes = b"",
    hide: tuple[Secret, ...] = (),
) -> Mapping[str, Any]:
    """The JSON object that a server of logins answers; an `error` in it is one at any status.

    Args:
        http: how it is asked.
        method: the HTTP method.
        url: where; `https`, or this machine.
        headers: of the request.
        content: its body.
        hide: what must not stand in a fault's text.

    Raises:
        OAuthFault: the server refused, or its answer cannot be read.
        HTTPFault: it cannot be reached; also for how long it took.
    """
    if not _is_safe(url):
        raise OAuthFault(f"expected an https URL for a login, got {mask(url)}")
    with trio.move_on_after(_SECONDS):
        async with http.stream(
            method,
            url,
            headers={"accept": "application/json", **headers},
            content=content,
            deadlines=_DEADLINES,
            shows_certificate=True,
        ) as response:
            body = await response.read()
        return _answer(response.status, body, hide)
    raise HTTPFault("timeout", f"the login took longer than {_SECONDS:g} s")


def _answer(status: int, body: bytes, hide: tuple[Secret, ...]) -> Mapping[str, Any]:
    try:
        answer = json.loads(body)
    except InvalidJSON:
        answer = None
    if not isinstance(answer, dict):
        raise OAuthFault(
            f"expected a JSON object, got something else (status {status})", status=status
        )
    code = answer.get("error")
    if status in _SUCCESS and not code:
        return answer
    words = next(
        (answer[name] for name in ("error_description", "message", "error") if answer.get(name)), ""
    )
    if isinstance(words, dict):
        words = words.get("message", "")
    told = mask(str(words)[:500], *hide) or f"status {status}"
    raise OAuthFault(told, code=code if isinstance(code, str) else None, status=status)


def _is_safe(url: str) -> bool:
    return url.lower().startswith("https://") or (
        url.lower().startswith("http://") and is_on_this_machine(url)
    )


def is_on_this_machine(url: str) -> bool:
    """Whether a URL names this machine itself, which nobody can listen to on the way."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _revealed(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value
