"""A provider's tokens, kept fresh.

The rules it keeps: one task renews them, of however many servers: whoever has the lock looks first
whether another one has done it. New tokens are stored before they are used, for the old ones are
worth nothing then. What was begun is ended, whoever stops meanwhile: a set that a server gave out
and we dropped would be a login lost. A login that is over is so until another one is stored,
whoever does that.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable

import attrs
import trio

from eca_protocol.errors import ECAError
from eca_protocol.http import HTTPClient
from eca_server.config.files import Stamp, stamp_of
from eca_server.config.lock import Locked, lock
from eca_server.credentials.logins import Logins, LoginsFault, StoredKeys
from eca_server.credentials.oauth import LoggedOut, OAuthFault, TokenSet, renewed
from eca_server.secret import Secret

__all__ = ["Tokens"]

_log = logging.getLogger("eca_server.credentials")

_LOCK_SECONDS = 60.0
"""How long another server may take: as long as it may wait for an answer, and more."""


class Tokens:
    """The tokens of one provider.

    Args:
        provider: whose they are.
        tokens: as they were read.
        logins: where they are stored.
        http: how they are renewed.
        hide: told of new secrets before they are used.
        clock: the time on the wall, in seconds.
    """

    def __init__(
        self,
        provider: str,
        tokens: TokenSet,
        *,
        logins: Logins,
        http: HTTPClient,
        hide: Callable[[Iterable[Secret]], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._provider = provider
        self._tokens = tokens
        self._logins = logins
        self._http = http
        self._hide = hide
        self._clock = clock
        self._renewal: _Renewal | None = None
        self._is_over: LoggedOut | None = None
        self._looked_at: Stamp | object = object()  # the file, when another login was looked for
        self._used_up: Secret | None = None  # it is in the file still, which could not be written

    @property
    def are_over(self) -> bool:
        """Whether the login is over, as far as that is known."""
        return self._is_over is not None

    async def current(self) -> Secret:
        """What a request carries now; renewed first if its end is near.

        Raises:
            LoggedOut: the login is over, and nobody has stored another one since.
            ECAError: it could not be renewed, and is of no use any more.
        """
        if self._is_over is not None:
            await self._look_for_another()
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

    async def refused(self, access: Secret) -> bool:
        """A provider did not take this token; whether there is another one now.

        Raises:
            LoggedOut: the login is over.
            ECAError: it could not be renewed.
        """
        if self._tokens.access == access:
            if self._tokens.refresh is None:
                await self._look_for_another()
            else:
                await self._renew(access)
        return self._tokens.access != access

    async def _look_for_another(self) -> None:
        """Take the login that another server has stored; asks the file only if it has changed.

        Another task may have taken it meanwhile: what there is then says so, and not this call.
        """
        self._looked_at, found = await trio.to_thread.run_sync(self._look)
        if found is None or found.access in (self._tokens.access, self._used_up):
            return
        self._hide(_secrets_of(found))
        self._tokens, self._is_over = found, None

    def _look(self) -> tuple[Stamp, TokenSet | None]:
        stamp = stamp_of(self._logins.path)
        if stamp == self._looked_at:
            return stamp, None
        with contextlib.suppress(LoginsFault):
            return stamp, self._read().tokens.get(self._provider)
        return stamp, None

    async def _renew(self, old: Secret) -> None:
        """Have the tokens renewed by the one task that does it, and wait for that."""
        if self._renewal is None:
            self._renewal = _Renewal()
            trio.lowlevel.spawn_system_task(self._run, self._renewal, old)
        renewal = self._renewal
        await renewal.done.wait()
        if renewal.fault is not None:
            raise renewal.fault

    async def _run(self, renewal: _Renewal, old: Secret) -> None:
        try:
            async with lock(self._logins.renewal_lock, seconds=_LOCK_SECONDS):
                await self._exchange(old)
        except Locked:
            renewal.fault = OAuthFault("another server has been renewing the login for too long")
        except LoggedOut as fault:
            renewal.fault = self._is_over = fault
        except ECAError as fault:
            renewal.fault = fault
        except OSError as fault:
            renewal.fault = OAuthFault(f"the login cannot be renewed: {fault.strerror}")
        except Exception as fault:  # noqa: BLE001 - a fault of ours must not end the whole server
            _log.error("a login could not be renewed", exc_info=fault)
            renewal.fault = OAuthFault(f"the login cannot be renewed: {type(fault).__name__}")
        finally:
            self._renewal = None
            renewal.done.set()

    async def _exchange(self, old: Secret) -> None:
        found = await trio.to_thread.run_sync(self._read)
        if found.problem is not None:
            raise OAuthFault(str(found.problem))
        stored = found.tokens.get(self._provider)
        if stored is None:
            raise LoggedOut("the stored login is gone")
        if stored.access == self._used_up:
            stored = self._tokens
        if stored.access == old or stored.is_due(self._clock()):
            with trio.CancelScope(shield=True):
                stored = await self._exchange_for_good(stored)
        self._hide(_secrets_of(stored))
        self._tokens, self._is_over = stored, None

    def _read(self) -> StoredKeys:
        self._logins.unlock()  # another server may have renewed what is there
        return self._logins.read()

    async def _exchange_for_good(self, old: TokenSet) -> TokenSet:
        new = await renewed(self._http, old, now=self._clock())
        self._hide(_secrets_of(new))
        try:
            await trio.to_thread.run_sync(self._logins.store, self._provider, new)
        except LoginsFault as fault:
            self._used_up = old.access
            _log.warning("the renewed login of %s cannot be stored: %s", self._provider, fault)
        return new


@attrs.define(eq=False)
class _Renewal:
    """One that runs: when it is done, and what went wrong."""

    done: trio.Event = attrs.field(factory=trio.Event)
    fault: ECAError | None = None


def _secrets_of(tokens: TokenSet) -> list[Secret]:
    return [tokens.access, *([tokens.refresh] if tokens.refresh is not None else [])]
