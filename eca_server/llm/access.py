"""Where a provider's requests go, and what proves that they may.

The rule it keeps: a key goes into one header and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

import attrs

from eca_protocol.errors import ECAError, HTTPError
from eca_protocol.http import HTTPClient
from eca_server.credentials import LoggedOut, OAuthFault, Tokens, url_fault
from eca_server.llm.backend import BackendError, ErrorKind, Request
from eca_server.llm.errors import error_from_fault
from eca_server.secret import Secret

__all__ = ["VERSION", "Access", "KeyAccess", "Target", "TokenAccess", "Way", "endpoint"]

VERSION = re.compile(r"v\d\w*")
"""A version of an API, as a part of a path."""


def endpoint(base: str, path: str) -> str:
    """`path` added to the path of `base`; the queries of both are kept.

    A version that the one ends with and the other begins with stands there once.

    Raises:
        BackendError: the base is no URL.
    """
    if fault := url_fault(base):
        raise BackendError("configuration", f"the provider's url: {fault}")
    parts = urlsplit(base.strip())
    added, _, query = path.partition("?")
    before, after = parts.path.rstrip("/"), added.lstrip("/")
    version, _, rest = after.partition("/")
    if VERSION.fullmatch(version) and before.endswith(f"/{version}"):
        after = rest
    joined = f"{before}/{after}"
    queries = "&".join(piece for piece in (parts.query, query) if piece)
    return urlunsplit((parts.scheme, parts.netloc, joined, queries, ""))


@attrs.frozen
class Target:
    """Where one request goes, with the headers that only it has; their names in lower case."""

    url: str
    headers: dict[str, str] = attrs.field(repr=False)


class Access(Protocol):
    """A way to a provider, shared by all of its models."""

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """What no text for people may show."""
        ...

    async def target(self, path: str, request: Request | None = None) -> Target:
        """Where a request goes; a login may be renewed first.

        Args:
            path: what is added to the base.
            request: what the model is asked; None where it is something else (a listing).

        Raises:
            BackendError: there is no way, as long as the user does nothing.
        """
        ...

    async def renew(self, target: Target) -> bool:
        """The provider refused `target` (401, 403); whether it is worth another try."""
        ...

    def judge(self, error: BackendError) -> None:
        """Set right what a refusal is, where it means something of its own on this way."""
        ...


@attrs.frozen(kw_only=True)
class KeyAccess:
    """A base URL and a key that stays what it is.

    Attributes:
        url: the base.
        key: None for servers without.
        header: where the key stands; in `authorization` it is a Bearer token.
    """

    url: str
    key: Secret | None = None
    header: str = "authorization"

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """As `Access.secrets`."""
        return () if self.key is None else (self.key,)

    async def target(self, path: str, request: Request | None = None) -> Target:
        """As `Access.target`."""
        headers: dict[str, str] = {}
        if self.key is not None:
            key = self.key.reveal()
            headers[self.header] = f"Bearer {key}" if self.header == "authorization" else key
        return Target(endpoint(self.url, path), headers)

    async def renew(self, target: Target) -> bool:
        """As `Access.renew`: a refused key stays refused."""
        return False

    def judge(self, error: BackendError) -> None:
        """As `Access.judge`: it is what it is."""


@attrs.frozen(kw_only=True)
class Way:
    """What an access that is more than a key is made of.

    Attributes:
        http: how it asks.
        url: the configured base.
        host: the configured installation that one logs in to.
        key: what was pasted or configured.
        tokens: those of a login, which count before the key.
        hide: told of each new secret before it is used.
    """

    http: HTTPClient
    url: str | None = None
    host: str | None = None
    key: Secret | None = None
    tokens: Tokens | None = None
    hide: Callable[[Iterable[Secret]], None] = lambda _: None

    async def login(self) -> Secret:
        """The key, or the login's token.

        Raises:
            BackendError: there is none any more, or it cannot be renewed now.
        """
        if self.tokens is not None:
            try:
                return await self.tokens.current()
            except ECAError as fault:
                raise _login_error(fault) from fault
        if self.key is None:
            raise BackendError("auth", "there is no login: use `/login`")
        return self.key


class TokenAccess:
    """A base URL and a login whose tokens are renewed.

    Args:
        url: the base.
        way: the login.
    """

    def __init__(self, url: str, way: Way) -> None:
        self._url = url
        self._way = way
        self.secrets: tuple[Secret, ...] = ()

    async def target(self, path: str, request: Request | None = None) -> Target:
        """As `Access.target`."""
        self.secrets = (await self._way.login(),)
        headers = {"authorization": f"Bearer {self.secrets[0].reveal()}"}
        return Target(endpoint(self._url, path), headers)

    async def renew(self, target: Target) -> bool:
        """As `Access.renew`."""
        if self._way.tokens is None:
            return False
        refused = Secret(target.headers["authorization"].removeprefix("Bearer "))
        try:
            return await self._way.tokens.refused(refused)
        except ECAError as fault:
            raise _login_error(fault) from fault

    def judge(self, error: BackendError) -> None:
        """As `Access.judge`: it is what it is."""


def _login_error(fault: ECAError) -> BackendError:
    if isinstance(fault, HTTPError):
        return error_from_fault(fault)
    if isinstance(fault, LoggedOut):
        return BackendError("auth", f"the login is over, log in again with `/login`: {fault}")
    failing = isinstance(fault, OAuthFault) and (fault.status or 0) >= 500
    kind: ErrorKind = "overloaded" if failing else "auth"
    return BackendError(kind, f"the login cannot be renewed: {fault}", retryable=failing)
