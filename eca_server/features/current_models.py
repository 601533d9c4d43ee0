"""The models of a connection, made anew when settings, keys or the facts about models change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import trio

from eca_server.config import cache_directory
from eca_server.features.host import Host
from eca_server.features.lazy import Lazy
from eca_server.features.settings import Settings

if TYPE_CHECKING:
    from eca_server.credentials import Logins
    from eca_server.llm.access import Access
    from eca_server.llm.discovery import Discovery
    from eca_server.llm.models import Models

__all__ = ["CurrentModels"]


class CurrentModels:
    """The models available with the present configuration and keys.

    Attributes:
        discovery: the discovery of models over the network.
        hide: called with every secret in use.
        renewed: set when settings or keys changed.
        on_renew: called when settings or keys changed.
    """

    def __init__(self, settings: Settings, logins: Lazy[Logins], host: Host) -> None:
        self.hide = host.options.hide
        self.renewed = trio.Event()
        self.on_renew: Callable[[], None] = lambda: None
        self.discovery = Lazy(self._make_discovery)
        self._settings = settings
        self._logins = logins
        self._http = host.http
        self._options = host.options
        self._accesses: dict[object, Access] = {}
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

    def renew(self) -> None:
        """Recreate the models at their next use, because settings or keys changed."""
        self.forget()
        self._accesses = {}
        self._child_variables.reset()
        self.on_renew()
        self.renewed.set()

    def forget(self) -> None:
        """Recreate the models at their next use, because more is known about them."""
        self._models.reset()

    def _make_models(self) -> Models:
        from eca_server.llm.models import Models  # noqa: PLC0415 - not needed at the start

        config, environ, logins = self._settings.config, self._options.environ, self._logins.get()
        self._http.ca_file = config.network.ca_cert_file
        self._http.client_certificate = config.network.client_certificate(environ)
        discovered: dict[str, Any] = {}
        if self._options.discovers:
            discovery = self.discovery.get()
            discovered = {"listing": discovery.listing, "catalog": discovery.catalog}
        models = Models(
            config,
            environ=environ,
            http=self._http,
            stored=logins.read(),
            logins=logins,
            accesses=self._accesses,
            hide=self.hide,
            **discovered,
        )
        self.hide((*models.secrets, *self._settings.loaded.secrets))
        return models

    def _make_discovery(self) -> Discovery:
        from eca_server.llm.discovery import Discovery  # noqa: PLC0415 - not needed at the start

        return Discovery(cache_directory(self._options.environ))

    def _make_child_variables(self) -> Mapping[str, str]:
        from eca_server.credentials import child_environment  # noqa: PLC0415 - as above

        known = (facts.credential for facts in self.current.providers)
        credentials = [each for each in known if each is not None]
        return child_environment(self._options.environ, credentials, self.current.secrets)
