"""The introduction: announcements to the client after `initialized` (ruling W-11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import trio

from eca_protocol.errors import ECAError
from eca_protocol.messages import InitializedParams
from eca_protocol.peer import Handler
from eca_server.credentials import Logins
from eca_server.features.announcer import Announcer
from eca_server.features.current_models import CurrentModels
from eca_server.features.discovery import ModelDiscovery
from eca_server.features.folders import Folders
from eca_server.features.hooks import SessionHooks
from eca_server.features.host import Host
from eca_server.features.lazy import Lazy
from eca_server.features.settings import Settings
from eca_server.session import Session

__all__ = ["Introduction"]

KEYRING_SECONDS = 2.0
"""Longest wait of servers and problem reports for the keyring, which may ask the user."""


@attrs.frozen(eq=False)
class Introduction:
    """The start of everything that runs unasked.

    Attributes:
        follow_servers: starts the configured MCP servers.
    """

    session: Session
    settings: Settings
    host: Host
    models: CurrentModels
    folders: Folders
    announcer: Announcer
    hooks: SessionHooks
    discovery: ModelDiscovery
    logins: Lazy[Logins]
    follow_servers: Callable[[], None]

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handler of `initialized`."""
        return {"initialized": self._introduce}

    def _introduce(self, _: InitializedParams) -> None:
        self.announcer.introduce()
        self.hooks.begin_session()
        self.host.nursery.start_soon(self.folders.remove_leftovers)
        if self.settings.config.keyring:
            self.host.nursery.start_soon(self._begin_with_keyring)
        else:
            self._begin()
        if self.host.options.discovers:
            self.host.nursery.start_soon(self.discovery.run)
        if self.host.options.watch_seconds is not None:
            self.host.nursery.start_soon(self.settings.watch, self.host.options.watch_seconds)

    def _begin(self) -> None:
        self.announcer.announce_problems()
        self.follow_servers()

    async def _begin_with_keyring(self) -> None:
        """Begin after a short wait for the system's keyring, to which settings may refer."""
        is_open = trio.Event()

        async def unlock() -> None:
            await self._unlock_logins()
            is_open.set()

        self.host.nursery.start_soon(unlock)
        with trio.move_on_after(KEYRING_SECONDS):
            await is_open.wait()
        self._begin()

    async def _unlock_logins(self) -> None:
        """Unlock the logins in the system's keyring, which may ask the user."""
        logins = self.logins.get()
        if not await trio.to_thread.run_sync(lambda: logins.is_locked):
            return
        try:
            await trio.to_thread.run_sync(logins.unlock, abandon_on_cancel=True)
        except ECAError as error:
            self.session.show("warning", f"Logins cannot be read: {error}")
            return
        self.models.renew()
        await self.settings.reload()  # references may become readable
