"""Access to a provider: the URL of a request, and its credentials.

A key goes into one header and nowhere else.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import attrs

from eca_protocol.errors import ECAError, HTTPError
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


class Access(ABC):
    """Access to a provider, shared by all of its models."""

    @property
    @abstractmethod
    def secrets(self) -> tuple[Secret, ...]:
        """The secrets that no message may show."""

    @abstractmethod
    async def target(self, path: str, request: Request | None = None) -> Target:
        """Return the target of a request; renew a login first if needed.

        Args:
            path: the path to add to the base.
            request: the model request; None for other requests (a listing).

        Raises:
            BackendError: the provider cannot be reached until the user acts.
        """

    async def renew(self, target: Target) -> bool:
        """Renew the credentials that the provider refused (401, 403); return whether to retry.

        By default they cannot be renewed.
        """
        return False

    def adjust_error(self, error: BackendError) -> None:  # noqa: B027 - most have none
        """Adjust an error whose status or code has a special meaning for this provider."""


@attrs.frozen(kw_only=True)
class KeyAccess(Access):
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

    def adjust_error(self, error: BackendError) -> None:
        """Report a missing key as such: it was not refused."""
        if error.status == 401 and self.without_key:
            error.kind, error.message = "configuration", f"{self.without_key}: {error.message}"


@attrs.define(kw_only=True, eq=False)
class TokenAccess(Access):
    """Access by a base URL and a login, whose tokens are renewed.

    Args:
        key: the pasted or configured key.
        tokens: the tokens of a login; they take precedence over the key.
    """

    _url: str | None
    _key: Secret | None = None
    _tokens: Tokens | None = None
    _used: Secret | None = attrs.field(default=None, init=False)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The token or key that was used last."""
        return () if self._used is None else (self._used,)

    async def target(self, path: str, request: Request | None = None) -> Target:
        """Return the target with the login's token in its header."""
        token = await self._login()
        return Target(
            join_url(self._url or "", path), {"authorization": f"Bearer {token.reveal()}"}
        )

    async def renew(self, target: Target) -> bool:
        """Renew a refused token; return whether there is a new one."""
        if self._tokens is None:
            return False
        token = Secret(target.headers["authorization"].removeprefix("Bearer "))
        with _login_errors():
            return await self._tokens.replace_refused(token)

    async def _login(self) -> Secret:
        """Return the login's token, or the key.

        Raises:
            BackendError: there is no login, or its renewal failed.
        """
        if self._tokens is None:
            self._used = self._key
        else:
            with _login_errors():
                self._used = await self._tokens.current()
        if self._used is None:
            raise BackendError("auth", "there is no login: log in with `/login`")
        return self._used


@contextmanager
def _login_errors() -> Iterator[None]:
    """Raise the errors of a login as those of a backend."""
    try:
        yield
    except ECAError as fault:
        raise _login_error(fault) from fault


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
