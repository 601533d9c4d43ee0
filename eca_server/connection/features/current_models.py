"""The models of a connection, made anew when settings, keys or the facts about models change.

Invariant of the discovery: the client and its turns never wait for it (W-11), except a first prompt
that chose no model, as long as no model is known.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import trio

from eca_protocol import platforms
from eca_server.config.directories import cache_directory
from eca_server.config.own_secrets import own_secrets, secrets_in_command
from eca_server.connection.features.host import Host
from eca_server.connection.features.lazy import Lazy
from eca_server.connection.features.settings import Settings
from eca_server.models.access import Access
from eca_server.models.credentials.logins import Logins
from eca_server.models.credentials.lookup import child_environment
from eca_server.models.discovery import LIST_SECONDS, Discovery
from eca_server.models.http_backend import HTTPBackend
from eca_server.models.listings import Endpoint
from eca_server.models.models import Models

LOOK_SECONDS: Final = 60.0
"""The time until unreachable endpoints, and at a prompt all others, are asked for models again."""

_log = logging.getLogger("eca_server.models")


class CurrentModels:
    """The models available with the present configuration and keys.

    Attributes:
        hide: called with every secret in use.
        on_renew: called when settings or keys changed.
        on_discovery: called when the discovery has found more models or facts.
    """

    def __init__(self, settings: Settings, logins: Lazy[Logins], host: Host) -> None:
        self.hide = host.options.hide
        self.on_renew: Callable[[], None] = lambda: None
        self.on_discovery: Callable[[], None] = lambda: None
        self._discovery = Discovery(cache_directory(host.options.environ))
        self._discovering = trio.CancelScope()
        self._first_look = trio.Event()
        self._first_look.set()  # unless a discovery begins
        self._renewed = trio.Event()
        self._looked_at = platforms.uptime()
        self._settings = settings
        self._logins = logins
        self._http = host.http
        self._options = host.options
        self._accesses: dict[object, Access] = {}
        self._modes: dict[str, tuple[str, ...]] = {}
        self._stored: object = None
        self._models = Lazy(self._make_models)
        self._child_variables = Lazy(self._make_child_variables)

    @property
    def current(self) -> Models:
        """The models that can be used now."""
        return self._models.get()

    @property
    def child_variables(self) -> Mapping[str, str]:
        """The environment of child processes: the server's without its secrets."""
        return self._child_variables.get()

    @property
    def logins_changed(self) -> bool:
        """True if a login was stored or removed since the models were made, by any server.

        Renewed tokens do not count: `Tokens` follows those. Reads the disk.
        """
        return self._models.made is not None and self._logins.get().read().fixed != self._stored

    def renew(self) -> None:
        """Recreate the models at their next use, because settings or keys changed."""
        self._models.reset()
        self._discovery.asked_at.clear()
        self._accesses = {}
        self._child_variables.reset()
        self.on_renew()
        self._renewed.set()

    def learn_modes(self, agent: str, modes: tuple[str, ...]) -> bool:
        """Take the modes of an ACP agent; return whether they changed."""
        has_changed = self._modes.get(agent, ()) != modes
        self._modes[agent] = modes
        return has_changed

    def begin_discovery(self, nursery: trio.Nursery) -> None:
        """Discover models in the background."""
        self._first_look = trio.Event()
        nursery.start_soon(self._discover)

    async def wait_for_first_look(self) -> None:
        """Wait until each endpoint has been asked once, as long as one listing may take."""
        with trio.move_on_after(LIST_SECONDS):
            await self._first_look.wait()

    async def _discover(self) -> None:
        """Discover models now and after each change of settings or keys, or `look_again`.

        Unreachable endpoints are asked again each minute: the network may come back, or the user
        may start a model of this machine.
        """
        with self._discovering:
            while True:
                self._renewed = trio.Event()
                self._looked_at = platforms.uptime()
                await self._look(self._discovery.is_due)
                while unreachable := self._discovery.unreachable & self.current.endpoints.keys():
                    with trio.move_on_after(LOOK_SECONDS):
                        await self._renewed.wait()
                        break
                    await self._look(unreachable.__contains__)
                await self._renewed.wait()

    def look_again(self) -> None:
        """Discover models again, such as those of a server that was started meanwhile.

        Nothing happens within a minute; remote endpoints are asked less often.
        """
        if platforms.uptime() - self._looked_at > LOOK_SECONDS:
            self._renewed.set()

    def stop_discovery(self) -> None:
        """End the requests for models."""
        self._discovering.cancel()

    async def _look(self, is_due: Callable[[Endpoint], bool]) -> None:
        models, catalog = self.current, self._settings.config.catalog
        async with trio.open_nursery() as nursery:
            if catalog.refresh and models.has_paid_models:
                load = partial(self._discovery.load_catalog, self._http, catalog.url)
                nursery.start_soon(self._learn, load)
            async with trio.open_nursery() as listings:
                for endpoint, backend in models.endpoints.items():
                    if is_due(endpoint):
                        listings.start_soon(self._learn, partial(self._list, endpoint, backend))
            self._first_look.set()

    async def _learn(self, ask: Callable[[], Awaitable[bool]]) -> None:
        """Request models; use the result if it changed."""
        try:
            has_changed = await ask()
        except (ImportError, OSError) as error:  # a backend's modules cannot be opened, or are gone
            _log.warning("models cannot be listed: %s", error)
            return
        if has_changed:
            self._models.reset()
            self.on_discovery()

    async def _list(self, endpoint: Endpoint, backend: Callable[[], HTTPBackend]) -> bool:
        return await self._discovery.ask(endpoint, backend())

    def _make_models(self) -> Models:
        config, environ, logins = self._settings.config, self._options.environ, self._logins.get()
        self._http.ca_file = config.network.ca_cert_file
        self._http.client_certificate = config.network.client_certificate(environ)
        stored = logins.read()
        self._stored = stored.fixed
        discovered: dict[str, Any] = {}
        if self._options.discovers:
            discovered = {"listing": self._discovery.listing, "catalog": self._discovery.catalog}
        models = Models(
            config,
            environ=environ,
            http=self._http,
            stored=stored,
            logins=logins,
            accesses=self._accesses,
            hide=self.hide,
            modes=self._modes,
            **discovered,
        )
        commands = (each.command for each in config.providers.values())
        self.hide(secret for command in commands for secret in secrets_in_command(command))
        self.hide((*models.secrets, *own_secrets(config), *self._settings.loaded.secrets))
        return models

    def _make_child_variables(self) -> Mapping[str, str]:
        known = (facts.credential for facts in self.current.providers)
        credentials = [each for each in known if each is not None]
        secrets = (*self.current.secrets, *own_secrets(self._settings.config))
        return child_environment(self._options.environ, credentials, secrets)
