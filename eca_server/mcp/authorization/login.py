"""The login at one server: the token that its requests carry, and how the user gets one.

The rules it keeps: no browser is opened here, the user is given a link; the token goes to the
server's origin alone; one login waits at a time, five minutes, and the server is started again
after it; the tokens are stored where the keys of providers are.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import urlencode, urlsplit

import trio

from eca_protocol.errors import ECAError, HTTPError
from eca_protocol.http import HTTPClient
from eca_server.config.files import Stamp, stamp_of
from eca_server.credentials import (
    Client,
    LoggedOut,
    Logins,
    LoginsError,
    OAuthError,
    Tokens,
    TokenSet,
)
from eca_server.credentials.oauth import Challenge, tokens_for_code
from eca_server.credentials.redirect import Redirect, redirect_page
from eca_server.mcp.authorization.discovery import (
    AuthorizationServer,
    Demand,
    canonical,
    demand_in,
    find_authorization_server,
    find_resource,
    register,
)
from eca_server.mcp.faults import MCPFault
from eca_server.secret import Secret

__all__ = ["MOST_STEP_UPS", "Login"]

_log = logging.getLogger("eca_server.mcp")

MOST_STEP_UPS: Final = 2
"""How often a user logs in for the same scopes because a token was not enough."""

_OFFLINE: Final = "offline_access"
_TOO_LITTLE: Final = "insufficient_scope"


class Login:
    """The login at one server; it outlives the sessions with it.

    Args:
        url: the server's.
        http: how authorization servers are asked.
        logins: where tokens are stored.
        nursery: where a login waits for the user.
        client_id: our name with the authorization server; None: we introduce ourselves.
        client_secret: what goes with that name.
        client_name: how we introduce ourselves.
        client_metadata_url: our name with servers that read metadata documents; None: none.
        port: where the browser comes back to; 0: any.
        shared_by: who uses the stored tokens beside us; empty: whoever asks this server.
        hide: told of new secrets before they are used.
        on_login: told that the user has logged in.

    Attributes:
        key: what its tokens are stored under.
    """

    def __init__(
        self,
        url: str,
        *,
        http: HTTPClient,
        logins: Logins,
        nursery: trio.Nursery,
        client_id: str | None = None,
        client_secret: Secret | None = None,
        client_name: str | None = None,
        client_metadata_url: str | None = None,
        port: int = 0,
        shared_by: str = "",
        hide: Callable[[Iterable[Secret]], None] = lambda _: None,
        on_login: Callable[[], object] = lambda: None,
    ) -> None:
        self._url = url
        self.key = f"mcp:{canonical(url)}{f' ({shared_by})' if shared_by else ''}"
        self._http = http
        self._logins = logins
        self._nursery = nursery
        self._client_id = client_id
        self._client_secret = client_secret
        self._client_name = client_name or "ECA for Python"
        self._metadata_url = client_metadata_url
        self._port = port
        self._hide = hide
        self._on_login = on_login
        self._tokens: Tokens | None = None
        self._read_at: Stamp | object = object()
        self._times_forgotten = 0
        self._scopes: tuple[str, ...] = ()
        self._logins_for: Counter[tuple[str, ...]] = Counter()
        self._page = ""
        self._waiting = trio.CancelScope()
        self._asking = trio.Lock()
        self._storing = trio.Lock()

    @property
    def is_known(self) -> bool:
        """Whether the user has logged in, as far as that was looked at."""
        return self._tokens is not None and not self._tokens.have_ended

    async def forget(self) -> bool:
        """Log out, and wait for nobody to log in any more; whether a login was stored.

        Raises:
            LoginsError: it cannot be removed.
        """
        self.give_up()
        self._drop()
        async with self._storing:  # what a login has begun to store is there first
            was_stored = await trio.to_thread.run_sync(self._logins.remove, self.key)
        self._drop()
        return was_stored

    def _drop(self) -> None:
        self._tokens = None
        self._times_forgotten += 1

    def give_up(self) -> None:
        """Wait for nobody to log in any more; the page of ours, and its port, are free again."""
        self._waiting.cancel()

    async def token(self) -> Secret | None:
        """What a request carries; None: nobody has logged in, here or elsewhere."""
        if self._tokens is None:
            await self._read()
        if self._tokens is None:
            return None
        try:
            return await self._tokens.current()
        except LoggedOut:
            return None
        except ECAError as fault:
            raise MCPFault(f"its login could not be renewed: {fault}", kind="closed") from fault

    async def _read(self) -> None:
        """Take a login that is stored, if the file is another one than it was."""
        before = self._times_forgotten
        # The system's keyring may ask the user, and whoever waits for it may be stopped meanwhile.
        read_at, tokens = await trio.to_thread.run_sync(self._stored, abandon_on_cancel=True)
        self._read_at = read_at
        if tokens is not None and self._tokens is None and before == self._times_forgotten:
            self._hide([each for each in (tokens.access, tokens.refresh) if each is not None])
            self._tokens = Tokens(
                self.key, tokens, logins=self._logins, http=self._http, hide=self._hide
            )

    def _stored(self) -> tuple[Stamp, TokenSet | None]:
        stamp = stamp_of(self._logins.path)
        if stamp == self._read_at:
            return stamp, None
        try:
            if self._logins.is_locked:
                self._logins.unlock()
        except LoginsError as fault:
            _log.warning("a stored login cannot be read: %s", fault)
        return stamp, self._logins.read().tokens.get(self.key)

    async def was_refused(self, token: Secret) -> bool:
        """The server did not take this token; whether there is another one now."""
        if self._tokens is None:
            return False
        try:
            return await self._tokens.replace_refused(token)
        except LoggedOut:
            return False
        except ECAError as fault:
            raise MCPFault(f"its login could not be renewed: {fault}", kind="closed") from fault

    def is_wanted(self, status: int, challenge: str) -> bool:
        """Whether a refusal wants the user to log in, perhaps for more than before.

        A server that wants more of a user who has logged in for just that is not believed for
        ever: what it refuses then is refused.
        """
        if status != 403:
            return status == 401
        demand = demand_in(challenge)
        return demand.error == _TOO_LITTLE and self._logins_for[demand.scopes] < MOST_STEP_UPS

    async def fault(self, challenge: str) -> MCPFault:
        """What to tell the user, with the page to log in; it is waited for from now on."""
        async with self._asking:
            demand = demand_in(challenge)
            is_new = not set(demand.scopes) <= set(self._scopes)
            if not self._page or is_new:
                self._waiting.cancel()
                try:
                    self._page = await self._nursery.start(self._run, demand)
                except (OAuthError, HTTPError) as fault:
                    return MCPFault(
                        f"it wants a login, and none is possible: {fault}", kind="start"
                    )
            host = urlsplit(self._page).hostname
            return MCPFault(f"it wants a login at {host}", kind="login", url=self._page)

    async def _run(
        self, demand: Demand, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Find out whom to ask, wait for the user, keep the tokens."""
        has_begun = False

        def begin(page: str) -> None:
            nonlocal has_begun
            has_begun = True
            task_status.started(page)

        with trio.CancelScope() as waiting:
            self._waiting = waiting
            try:
                await self._log_in(demand, begin)
            except (OAuthError, HTTPError, LoginsError) as fault:
                if not has_begun:
                    raise
                _log.warning("the login at %s failed: %s", urlsplit(self._url).hostname, fault)
            except Exception as fault:  # one of ours must not end the connection
                if not has_begun:
                    raise
                _log.error("the login at %s failed", urlsplit(self._url).hostname, exc_info=fault)
            else:
                self._on_login()
        if self._waiting is waiting:
            self._page = ""
        if not has_begun:
            raise OAuthError("it was given up")

    async def _log_in(self, demand: Demand, begin: Callable[[str], None]) -> None:
        try:
            resource = await find_resource(self._http, self._url, demand)
            server = await find_authorization_server(self._http, resource, self._url)
        except ValueError as fault:  # a URL that is none, somewhere in what the server told
            raise OAuthError(f"its metadata cannot be used: {fault}") from fault
        wanted = demand.scopes or resource.scopes
        self._scopes = tuple(dict.fromkeys((*self._scopes, *wanted)))
        scope = " ".join(self._scopes)
        is_offline = _OFFLINE in server.scopes and _OFFLINE not in self._scopes
        if is_offline:
            scope = f"{scope} {_OFFLINE}".strip()
        async with redirect_page(port=self._port) as page:
            client = await self._client(server, page.url, resource.identifier, scope)
            challenge = Challenge()
            query = {
                "response_type": "code",
                "client_id": client.id,
                "redirect_uri": page.url,
                "state": page.state,
                "code_challenge": challenge.text,
                "code_challenge_method": "S256",
                "resource": resource.identifier,
                **({"scope": scope} if scope else {}),
                **({"prompt": "consent"} if is_offline else {}),
            }
            mark = "&" if urlsplit(server.authorize_url).query else "?"
            begin(f"{server.authorize_url}{mark}{urlencode(query)}")
            code = await _code(page, server)
            tokens = await tokens_for_code(
                self._http,
                client,
                code=code,
                redirect=page.url,
                challenge=challenge,
                now=time.time(),
            )
        self._hide([each for each in (tokens.access, tokens.refresh) if each is not None])
        async with self._storing:
            await trio.to_thread.run_sync(self._logins.store, self.key, tokens)
        await trio.lowlevel.checkpoint_if_cancelled()  # the user has logged out meanwhile
        self._tokens = Tokens(
            self.key, tokens, logins=self._logins, http=self._http, hide=self._hide
        )
        self._logins_for[demand.scopes] += 1

    async def _client(
        self, server: AuthorizationServer, redirect: str, resource: str, scope: str
    ) -> Client:
        document = self._metadata_url if server.reads_documents else None
        if self._client_id is None and document is not None:
            parts = urlsplit(document)
            if parts.scheme != "https" or not parts.hostname or parts.path in ("", "/"):
                raise OAuthError("expected an https URL with a path as `clientMetadataUrl`")
            return Client(id=document, token_url=server.token_url, resource=resource)
        if self._client_id is None:
            return await register(
                self._http,
                server,
                name=self._client_name,
                redirect=redirect,
                resource=resource,
                scope=scope,
            )
        return Client(
            id=self._client_id,
            token_url=server.token_url,
            secret=self._client_secret,
            authentication=server.authentication,
            resource=resource,
        )


async def _code(page: Redirect, server: AuthorizationServer) -> Secret:
    """The code that the browser brings, from the authorization server that was asked."""
    try:
        code: Secret | OAuthError = await page.code()
    except OAuthError as fault:
        code = fault
    came_back = page.issuer is not None or server.names_itself
    if came_back and page.issuer != server.issuer and not _nobody_came(code):
        raise OAuthError("another authorization server sent the browser back")
    if isinstance(code, OAuthError):
        raise code
    return code


def _nobody_came(code: Secret | OAuthError) -> bool:
    return isinstance(code, OAuthError) and code.code is None
