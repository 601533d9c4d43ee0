"""Access to a provider: the URL of a request, and its credentials.

A key goes into one header and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

import attrs

from eca_protocol.errors import ECAError, HTTPError
from eca_protocol.http import HTTPClient
from eca_server.config.own_secrets import secrets_in_address
from eca_server.models.backend import BackendError, ErrorKind, Request
from eca_server.models.credentials.lookup import url_problem
from eca_server.models.credentials.oauth import LoggedOut, OAuthError
from eca_server.models.credentials.tokens import Tokens
from eca_server.models.errors import error_from_fault
from eca_server.secret import Secret

VERSION = re.compile(r"v\d\w*")
"""The version of an API as a part of a path."""


def join_url(base: str, path: str) -> str:
    """Add `path` to the path of `base`, and merge the queries of both.

    A version at the end of `base` and the start of `path` appears once. So does a `path` that ends
    `base`: some users copy the full URL of requests.

    Raises:
        BackendError: the base is not a URL.
    """
    if fault := url_problem(base):
        raise BackendError("configuration", f"the provider's url: {fault}")
    parts = urlsplit(base.strip())
    added, _, query = path.partition("?")
    before, after = parts.path.rstrip("/"), added.lstrip("/")
    version, _, rest = after.partition("/")
    if VERSION.fullmatch(version) and before.endswith(f"/{version}"):
        after = rest
    joined = before if before.endswith(f"/{after}") else f"{before}/{after}"
    queries = "&".join(piece for piece in (parts.query, query) if piece)
    return urlunsplit((parts.scheme, parts.netloc, joined, queries, ""))


@attrs.frozen
class Target:
    """The URL of one request, and the headers that only it has; names in lower case."""

    url: str
    headers: dict[str, str] = attrs.field(repr=False)


class Access(Protocol):
    """Access to a provider, shared by all of its models."""

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The secrets that no message may show."""
        ...

    async def target(self, path: str, request: Request | None = None) -> Target:
        """Return the target of a request; renew a login first if needed.

        Args:
            path: the path to add to the base.
            request: the model request; None for other requests (a listing).

        Raises:
            BackendError: the provider cannot be reached until the user acts.
        """
        ...

    async def renew(self, target: Target) -> bool:
        """Renew the credentials that the provider refused (401, 403); return whether to retry."""
        ...

    def adjust_error(self, error: BackendError) -> None:
        """Adjust an error whose status or code has a special meaning for this provider."""
        ...


@attrs.frozen(kw_only=True)
class KeyAccess:
    """Access by a base URL and a fixed key.

    Attributes:
        key: the key; None: the server needs none.
        header: the header of the key; `authorization` carries it as a Bearer token.
        without_key: the message for a user whose request without a key was refused; empty: a key
            is sent.
    """

    url: str
    key: Secret | None = None
    header: str = "authorization"
    without_key: str = ""

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The key, if there is one, and those in the base."""
        own = () if self.key is None else (self.key,)
        return (*own, *secrets_in_address(self.url))

    async def target(self, path: str, request: Request | None = None) -> Target:
        """Return the target with the key in its header."""
        headers: dict[str, str] = {}
        if self.key is not None:
            key = self.key.reveal()
            headers[self.header] = f"Bearer {key}" if self.header == "authorization" else key
        return Target(join_url(self.url, path), headers)

    async def renew(self, target: Target) -> bool:
        """Return False: a refused key stays refused."""
        return False

    def adjust_error(self, error: BackendError) -> None:
        """Report a missing key as such: it was not refused."""
        if error.status == 401 and self.without_key:
            error.kind, error.message = "configuration", f"{self.without_key}: {error.message}"


@attrs.frozen(kw_only=True)
class LoginAccessConfig:
    """The configuration of an access that uses a login.

    Attributes:
        host: the configured installation that issues logins.
        key: the pasted or configured key.
        tokens: the tokens of a login; they take precedence over the key.
        hide: called with each new secret before it is used.
    """

    http: HTTPClient
    url: str | None = None
    host: str | None = None
    key: Secret | None = None
    tokens: Tokens | None = None
    hide: Callable[[Iterable[Secret]], None] = lambda _: None

    async def login(self) -> Secret:
        """Return the login's token, or the key.

        Raises:
            BackendError: there is no login, or its renewal failed.
        """
        if self.tokens is not None:
            try:
                return await self.tokens.current()
            except ECAError as fault:
                raise _login_error(fault) from fault
        if self.key is None:
            raise BackendError("auth", "there is no login: log in with `/login`")
        return self.key


class TokenAccess:
    """Access by a base URL and a login whose tokens are renewed."""

    def __init__(self, url: str, config: LoginAccessConfig) -> None:
        self._url = url
        self._config = config
        self.secrets: tuple[Secret, ...] = ()

    async def target(self, path: str, request: Request | None = None) -> Target:
        """Return the target with the login's token in its header."""
        self.secrets = (await self._config.login(),)
        headers = {"authorization": f"Bearer {self.secrets[0].reveal()}"}
        return Target(join_url(self._url, path), headers)

    async def renew(self, target: Target) -> bool:
        """Renew a refused token; return whether there is a new one."""
        if self._config.tokens is None:
            return False
        token = Secret(target.headers["authorization"].removeprefix("Bearer "))
        try:
            return await self._config.tokens.replace_refused(token)
        except ECAError as fault:
            raise _login_error(fault) from fault

    def adjust_error(self, error: BackendError) -> None:
        """Leave the error as it is."""


def _login_error(fault: ECAError) -> BackendError:
    if isinstance(fault, HTTPError):
        return error_from_fault(fault)
    if isinstance(fault, LoggedOut):
        return BackendError("auth", f"the login has ended, log in again with `/login`: {fault}")
    kind: ErrorKind = "auth"
    if isinstance(fault, OAuthError) and fault.is_foreign:
        kind = "network"
    elif isinstance(fault, OAuthError) and fault.is_temporary:
        kind = "overloaded"
    return BackendError(
        kind, f"the login cannot be renewed: {fault}", retryable=kind == "overloaded"
    )
