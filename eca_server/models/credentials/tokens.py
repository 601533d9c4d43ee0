"""A provider's tokens, renewed before they expire.

- One task renews them, across all servers: the holder of the lock first checks whether another
  server has renewed them.
- New tokens are stored before use, since the old ones are invalid from then on.
- A renewal runs to its end even if its caller is cancelled: tokens that the server issued and we
  dropped would be a lost login.
- A login that has ended stays so until a new one is stored, by this server or another.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial

import attrs
import trio

from eca_protocol.errors import ECAError
from eca_protocol.http import HTTPClient
from eca_server.config.files import Stamp, stamp_of
from eca_server.config.lock import Locked, lock
from eca_server.models.credentials.logins import Logins, LoginsError, StoredKeys
from eca_server.models.credentials.oauth import LoggedOut, OAuthError, TokenSet, renewed
from eca_server.secret import Secret

_log = logging.getLogger("eca_server.models.credentials")


@attrs.define(eq=False)
class Tokens:
    """The tokens of one provider.

    Args:
        provider: the provider's name.
        tokens: the tokens as they were read.
        logins: the store.
        http: the client for renewals.
        hide: called with new secrets before they are used.
        clock: returns the seconds since the epoch.
        lock_seconds: the wait for the lock: more than another server needs for a renewal.
    """

    _provider: str
    _tokens: TokenSet
    _logins: Logins = attrs.field(kw_only=True)
    _http: HTTPClient = attrs.field(kw_only=True)
    _hide: Callable[[Iterable[Secret]], None] = attrs.field(default=lambda _: None, kw_only=True)
    _clock: Callable[[], float] = attrs.field(default=time.time, kw_only=True)
    _lock_seconds: float = attrs.field(default=60.0, kw_only=True)
    _renewal: _Renewal | None = attrs.field(default=None, init=False)
    _is_over: LoggedOut | None = attrs.field(default=None, init=False)
    # of the file when it was last checked
    _seen_stamp: Stamp | object = attrs.field(factory=object, init=False)
    # still in the file, which could not be written
    _spent_token: Secret | None = attrs.field(default=None, init=False)

    @property
    def latest(self) -> TokenSet:
        """The tokens in use."""
        return self._tokens

    @property
    def have_ended(self) -> bool:
        """True if the login has ended, as far as is known."""
        return self._is_over is not None

    async def current(self) -> Secret:
        """Return the access token; renew it first if it expires soon.

        Raises:
            LoggedOut: the login has ended, and no new one was stored since.
            ECAError: the token has expired and could not be renewed.
        """
        if self._is_over is not None:
            await self._load_stored_login()
        if (over := self._is_over) is not None:
            raise over
        tokens = self._tokens
        if tokens.is_due(self._clock()):
            try:
                await self._renew(tokens.access)
            except LoggedOut:
                raise
            except ECAError:
                if tokens.is_over(self._clock()):
                    raise
        return self._tokens.access

    async def replace_refused(self, access: Secret) -> bool:
        """Replace a token that the provider refused; return whether there is a new one.

        Raises:
            LoggedOut: the login has ended.
            ECAError: the token could not be renewed.
        """
        if self._tokens.access == access:
            if self._tokens.refresh is None:
                await self._load_stored_login()
            else:
                await self._renew(access)
        return self._tokens.access != access

    async def take_stored(self) -> bool:
        """Take over tokens that another server has stored; return whether they may be accepted.

        A mere renewal is not followed: two servers would do that in turn for ever if the provider
        refused every token.
        """
        login, had_ended = self._tokens.logged_in_at, self.have_ended
        await self._load_stored_login()
        return self._tokens.logged_in_at != login or self.have_ended != had_ended

    async def _load_stored_login(self) -> None:
        """Take over a login that another server has stored; read the file only if it has changed.

        Another task may have done so meanwhile, so this call returns no result: check the tokens.
        """
        self._seen_stamp, stored = await trio.to_thread.run_sync(self._read_if_changed)
        if stored is None or stored.access in (self._tokens.access, self._spent_token):
            return
        self._hide(stored.secrets)
        self._tokens, self._is_over = stored, None

    def _read_if_changed(self) -> tuple[Stamp, TokenSet | None]:
        stamp = stamp_of(self._logins.path)
        if stamp == self._seen_stamp:
            return stamp, None
        with contextlib.suppress(LoginsError):
            return stamp, self._read().tokens.get(self._provider)
        return stamp, None

    async def _renew(self, old: Secret) -> None:
        """Start the task that renews the tokens, if none runs, and wait for its end."""
        if self._renewal is None:
            self._renewal = _Renewal()
            trio.lowlevel.spawn_system_task(self._run, self._renewal, old)
        renewal = self._renewal
        await renewal.done.wait()
        if renewal.error is not None:
            raise renewal.error

    async def _run(self, renewal: _Renewal, old: Secret) -> None:
        try:
            async with lock(self._logins.renewal_lock(self._provider), seconds=self._lock_seconds):
                await self._exchange(old)
        except Locked:
            renewal.error = OAuthError("another server is still renewing the login: try again")
        except LoggedOut as error:
            renewal.error = self._is_over = error
        except ECAError as error:
            renewal.error = error
        except OSError as error:
            renewal.error = OAuthError(f"the login cannot be renewed: {error.strerror}")
        except Exception as error:  # noqa: BLE001 - a bug here must not end the whole server
            _log.error("a login could not be renewed", exc_info=error)
            renewal.error = OAuthError(f"the login cannot be renewed: {type(error).__name__}")
        finally:
            self._renewal = None
            renewal.done.set()

    async def _exchange(self, old: Secret) -> None:
        content = await trio.to_thread.run_sync(self._read)
        if content.problem is not None:
            raise OAuthError(str(content.problem))
        stored = content.tokens.get(self._provider)
        if stored is None:
            raise LoggedOut("the stored login was removed")
        if stored.access == self._spent_token:
            stored = self._tokens
        if stored.access == old or stored.is_due(self._clock()):
            with trio.CancelScope(shield=True):
                stored = await self._renew_and_store(stored)
        self._hide(stored.secrets)
        self._tokens, self._is_over = stored, None

    def _read(self) -> StoredKeys:
        self._logins.unlock()  # another server may have renewed the tokens
        return self._logins.read()

    async def _renew_and_store(self, old: TokenSet) -> TokenSet:
        new = await renewed(self._http, old, now=self._clock())
        self._hide(new.secrets)
        try:
            store = partial(self._logins.store, self._provider, new, is_renewal=True)
            await trio.to_thread.run_sync(store)
        except LoginsError as error:
            self._spent_token = old.access
            _log.warning("the renewed login of %s cannot be stored: %s", self._provider, error)
        return new


@attrs.define(eq=False)
class _Renewal:
    """A running renewal: its end, and its error."""

    done: trio.Event = attrs.field(factory=trio.Event)
    error: ECAError | None = None
