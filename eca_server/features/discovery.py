"""The discovery of models during a connection (W-11).

Invariants: the client and its turns never wait for it. The user's selection stays while it exists.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import trio

from eca_protocol.http import HTTPClient
from eca_server.features.announcer import Announcer
from eca_server.features.current_models import CurrentModels
from eca_server.features.settings import Settings
from eca_server.llm.backend import Backend
from eca_server.llm.listings import Endpoint

__all__ = ["ModelDiscovery"]


class ModelDiscovery:
    """The background requests for models, and the announcement of their results."""

    def __init__(
        self, models: CurrentModels, settings: Settings, announcer: Announcer, http: HTTPClient
    ) -> None:
        self._models = models
        self._settings = settings
        self._announcer = announcer
        self._http = http
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        """Discover models now and after each change of settings or keys, until it is stopped."""
        with self._scope:
            while True:
                self._models.renewed = trio.Event()
                await self._look()
                await self._models.renewed.wait()

    def stop(self) -> None:
        """End the requests."""
        self._scope.cancel()

    async def _look(self) -> None:
        discovery, models = self._models.discovery.get(), self._models.current
        async with trio.open_nursery() as nursery:
            for endpoint, backend in models.endpoints.items():
                if discovery.is_due(endpoint):
                    nursery.start_soon(self._learn, partial(self._list, endpoint, backend))
            catalog = self._settings.config.catalog
            if catalog.refresh and models.has_paid_models:
                load = partial(discovery.load_catalog, self._http, catalog.url)
                nursery.start_soon(self._learn, load)

    async def _learn(self, ask: Callable[[], Awaitable[bool]]) -> None:
        """Request the models; use and announce the result if it changed."""
        if await ask():
            self._models.forget()
            self._announcer.announce_offer(keeps_selection=True)

    async def _list(self, endpoint: Endpoint, backend: Callable[[], Backend]) -> bool:
        return await self._models.discovery.get().ask(endpoint, backend())
