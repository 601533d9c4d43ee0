"""The login at one server: the token of its requests, and the OAuth flow that obtains one.

Rules: no browser is opened here, the user receives a link; the token is sent to the server's origin
only; one login is pending at a time, for five minutes, and the server is restarted after it; tokens
are stored with the keys of providers.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import urlsplit

import attrs
import trio

from eca_protocol.errors import ECAError, HTTPError
from eca_protocol.http import HTTPClient
from eca_server.agent.mcp.authorization.discovery import (
    AuthorizationServer,
    BearerChallenge,
    canonical_url,
    find_authorization_server,
    find_resource,
    parse_bearer_challenge,
    register,
)
from eca_server.agent.mcp.errors import MCPError
from eca_server.config.files import Stamp, stamp_of
from eca_server.config.mcp_settings import OAuthClient
from eca_server.models.credentials.logins import Logins, LoginsError
from eca_server.models.credentials.oauth import (
    Challenge,
    Client,
    LoggedOut,
    OAuthError,
    TokenSet,
    code_query,
    page_url,
    tokens_for_code,
)
from eca_server.models.credentials.redirect import PortInUse, Redirect, redirect_page
from eca_server.models.credentials.tokens import Tokens
from eca_server.printable import printable_line
from eca_server.secret import Secret, mask

_log = logging.getLogger("eca_server.agent.mcp")

MAX_STEP_UPS: Final = 2
"""Maximum number of logins for the same scopes after the server asked for more scopes."""

_OFFLINE: Final = "offline_access"
_TOO_LITTLE: Final = "insufficient_scope"


@attrs.define(kw_only=True, eq=False)
class Login:
    """The login at one server; it outlives the sessions with it.

    Args:
        http: the HTTP client for authorization servers.
        client: the configuration of our client at the authorization server.
        shared_by: the name of the group that shares the stored tokens; empty: all users of the URL.
        hide: called with new secrets before they are used.
        on_login: called when the user has logged in.
        on_failure: called with the reason if a login fails after its page was shown.
    """

    _url: str
    _http: HTTPClient
    _logins: Logins
    _nursery: trio.Nursery
    _client: OAuthClient = attrs.field(factory=OAuthClient)
    _shared_by: str = ""
    _hide: Callable[[Iterable[Secret]], None] = lambda _: None
    _on_login: Callable[[], object] = lambda: None
    _on_failure: Callable[[str], object] = lambda _: None
    key: str = attrs.field(init=False)
    _tokens: Tokens | None = attrs.field(default=None, init=False)
    _read_at: Stamp | object = attrs.field(factory=object, init=False)
    _times_forgotten: int = attrs.field(default=0, init=False)
    _scopes: tuple[str, ...] = attrs.field(default=(), init=False)
    _logins_for: Counter[tuple[str, ...]] = attrs.field(factory=Counter, init=False)
    _page: str = attrs.field(default="", init=False)
    _secret_to: str = attrs.field(default="", init=False)
    _waiting: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _asking: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _storing: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        group = f" ({self._shared_by})" if self._shared_by else ""
        self.key = f"mcp:{canonical_url(self._url)}{group}"

    @property
    def is_known(self) -> bool:
        """True if a valid login has been read or made."""
        return self._tokens is not None and not self._tokens.have_ended

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The tokens in use."""
        return () if self._tokens is None else tuple(self._tokens.latest.secrets)

    async def forget(self) -> bool:
        """Cancel a pending login and remove the stored one; return False if none was stored.

        Raises:
            LoginsError: the stored login cannot be removed.
        """
        self.give_up()
        self._drop()
        async with self._storing:  # after a login that is being stored
            was_stored = await trio.to_thread.run_sync(self._logins.remove, self.key)
        self._drop()
        return was_stored

    def _drop(self) -> None:
        self._tokens = None
        self._times_forgotten += 1

    async def was_made_elsewhere(self) -> bool:
        """Return whether another server has stored a login that this one lacks."""
        if self._tokens is None:
            return await self.token() is not None
        return await self._tokens.take_stored()

    def give_up(self) -> None:
        """Cancel the pending login and free its port."""
        self._waiting.cancel()

    async def token(self) -> Secret | None:
        """Return the token for requests; None: the user has not logged in."""
        if self._tokens is None:
            await self._read()
        if self._tokens is None:
            return None
        try:
            return await self._tokens.current()
        except LoggedOut:
            return None
        except ECAError as error:
            raise MCPError(f"could not renew the login: {error}", kind="closed") from error

    async def _read(self) -> None:
        before = self._times_forgotten
        # The system's keyring may ask the user, and the caller may be cancelled meanwhile.
        read_at, tokens = await trio.to_thread.run_sync(self._stored, abandon_on_cancel=True)
        self._read_at = read_at
        if tokens is not None and self._tokens is None and before == self._times_forgotten:
            self._hide(tokens.secrets)
            self._tokens = self._renewed(tokens)

    def _renewed(self, tokens: TokenSet) -> Tokens:
        """Return tokens that are renewed when they are due."""
        return Tokens(self.key, tokens, logins=self._logins, http=self._http, hide=self._hide)

    def _stored(self) -> tuple[Stamp, TokenSet | None]:
        stamp = stamp_of(self._logins.path)
        if stamp == self._read_at:
            return stamp, None
        try:
            if self._logins.is_locked:
                self._logins.unlock()
        except LoginsError as error:
            _log.warning("a stored login cannot be read: %s", error)
        return stamp, self._logins.read().tokens.get(self.key)

    async def renew_refused(self, token: Secret) -> bool:
        """Renew a token that the server refused; return whether there is a new one."""
        if self._tokens is None:
            return False
        try:
            return await self._tokens.replace_refused(token)
        except LoggedOut:
            return False
        except ECAError as error:
            raise MCPError(f"could not renew the login: {error}", kind="closed") from error

    def requires_login(self, status: int, challenge: str) -> bool:
        """Return whether a refusal requires a login, perhaps for more scopes.

        After `MAX_STEP_UPS` logins for the same scopes a further refusal is final.
        """
        if status != 403:
            return status == 401
        demand = parse_bearer_challenge(challenge)
        return demand.error == _TOO_LITTLE and self._logins_for[demand.scopes] < MAX_STEP_UPS

    async def login_error(self, challenge: str) -> MCPError:
        """Start a login, and return the error with its page for the user."""
        async with self._asking:
            demand = parse_bearer_challenge(challenge)
            is_new = not set(demand.scopes) <= set(self._scopes)
            if not self._page or is_new:
                self._waiting.cancel()
                try:
                    self._page = await self._nursery.start(self._run, demand)
                except PortInUse as error:  # the login there may be the one that is needed here
                    return MCPError(f"it requires a login, but {error}", kind="login")
                except (OAuthError, HTTPError) as error:
                    return MCPError(
                        f"it requires a login, which is not possible: {error}", kind="start"
                    )
            host, ours = urlsplit(self._page).hostname, self._client
            message = f"it requires a login at {host}"
            if ours.client_id and ours.client_secret and self._secret_to != host:
                message += f", and then sends your `clientSecret` to {self._secret_to}"
            return MCPError(message, kind="login", url=self._page)

    async def _run(
        self,
        demand: BearerChallenge,
        *,
        task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run the login and store its tokens; report the page as started."""
        has_begun = False

        def begin(page: str) -> None:
            nonlocal has_begun
            has_begun = True
            task_status.started(page)

        with trio.CancelScope() as waiting:
            self._waiting = waiting
            try:
                await self._log_in(demand, begin)
            except (OAuthError, HTTPError, LoginsError) as error:
                if not has_begun:
                    raise
                self._on_failure(str(error))
            except Exception as error:  # a bug must not end the connection
                if not has_begun:
                    raise
                _log.error("the login at %s failed", urlsplit(self._url).hostname, exc_info=error)
                self._on_failure("internal error; see the log")
            else:
                self._on_login()
        if self._waiting is waiting:
            self._page = ""
        if not has_begun:
            raise OAuthError("it was cancelled")

    async def _log_in(self, demand: BearerChallenge, begin: Callable[[str], None]) -> None:
        try:
            resource = await find_resource(self._http, self._url, demand)
            server = await find_authorization_server(self._http, resource, self._url)
        except ValueError as error:  # an invalid URL in the metadata
            raise OAuthError(f"its metadata is invalid: {error}") from error
        scopes = demand.scopes or resource.scopes
        self._scopes = tuple(dict.fromkeys((*self._scopes, *scopes)))
        scope = " ".join(self._scopes)
        is_offline = _OFFLINE in server.scopes and _OFFLINE not in self._scopes
        if is_offline:
            scope = f"{scope} {_OFFLINE}".strip()
        async with redirect_page(port=self._client.oauth_port) as page:
            self._hide([Secret(page.state)])  # the message with the link is logged
            client = await self._client_at(
                server, redirect=page.url, resource=resource.identifier, scope=scope
            )
            challenge = Challenge()
            query = code_query(client, challenge, redirect=page.url, state=page.state, scope=scope)
            query["resource"] = resource.identifier
            query["prompt"] = "consent" if is_offline else None
            self._secret_to = printable_line(urlsplit(server.token_url).hostname or "")
            begin(page_url(server.authorize_url, query))
            code = await _code(page, server)
            tokens = await tokens_for_code(
                self._http, client, code=code, redirect=page.url, challenge=challenge
            )
        self._hide(tokens.secrets)
        async with self._storing:
            await trio.to_thread.run_sync(self._logins.store, self.key, tokens)
        await trio.lowlevel.checkpoint_if_cancelled()  # the user has logged out meanwhile
        self._tokens = self._renewed(tokens)
        self._logins_for[demand.scopes] += 1

    async def _client_at(
        self, server: AuthorizationServer, *, redirect: str, resource: str, scope: str
    ) -> Client:
        """Return our client at a server: configured, described by a document, or registered."""
        ours = self._client
        if ours.client_id is not None:
            await self._check_issuer(ours.client_id, server.issuer)
            return Client(
                id=ours.client_id,
                token_url=server.token_url,
                secret=ours.client_secret,
                authentication=server.authentication,
                resource=resource,
                issuer=server.issuer,
            )
        document = ours.client_metadata_url if server.reads_documents else None
        if document is None:
            name = ours.client_name or "ECA for Python"
            return await register(
                self._http, server, name=name, redirect=redirect, resource=resource, scope=scope
            )
        parts = urlsplit(document)
        if parts.scheme != "https" or not parts.hostname or parts.path in ("", "/"):
            raise OAuthError("expected an https URL with a path as `clientMetadataUrl`")
        return Client(id=document, token_url=server.token_url, resource=resource)

    async def _check_issuer(self, client_id: str, issuer: str) -> None:
        """Check that a configured client stays with the server of its last login (MCP 2026-07-28).

        Raises:
            OAuthError: it belongs to a different one.
        """
        logins = await trio.to_thread.run_sync(self._logins.read, abandon_on_cancel=True)
        stored = logins.tokens.get(self.key)
        if stored is None or stored.client.id != client_id or stored.client.issuer is None:
            return
        if stored.client.issuer != issuer:
            raise OAuthError(
                f"`clientId` belongs to {mask(stored.client.issuer)}, and the server now names "
                f"{mask(issuer)}: if that is right, remove the old login with `/logout {self.key}`"
            )


async def _code(page: Redirect, server: AuthorizationServer) -> Secret:
    """Return the code of the redirect, if it comes from the right authorization server."""
    try:
        code: Secret | OAuthError = await page.code()
    except OAuthError as error:
        code = error
    came_back = page.issuer is not None or server.names_itself
    if came_back and page.issuer != server.issuer and not _has_no_answer(code):
        raise OAuthError("the redirect came from a different authorization server")
    if isinstance(code, OAuthError):
        raise code
    return code


def _has_no_answer(code: Secret | OAuthError) -> bool:
    return isinstance(code, OAuthError) and code.code is None
