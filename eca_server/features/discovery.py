"""The discovery of models during a connection, and their announcement (W-11).

Invariants: the client and its turns never wait for it. The user's selection stays while it exists.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import trio

from eca_server.features.configuration import tell_offer
from eca_server.features.connection import Connection
from eca_server.llm.backend import Backend
from eca_server.llm.listings import Endpoint

__all__ = ["discover"]


async def discover(connection: Connection) -> None:
    """Discover models now and after each change of settings or keys, until the connection ends."""
    with connection.discovering:
        while True:
            connection.models_are_others = trio.Event()
            await _look(connection)
            await connection.models_are_others.wait()


async def _look(connection: Connection) -> None:
    discovery, models = connection.discovery, connection.models
    async with trio.open_nursery() as nursery:

        def learn(ask: Callable[[], Awaitable[bool]]) -> None:
            nursery.start_soon(_learn, connection, ask)

        for endpoint, backend in models.endpoints.items():
            if discovery.is_due(endpoint):
                learn(partial(_list, connection, endpoint, backend))
        catalog = connection.config.catalog
        if catalog.refresh and models.has_paid_models:
            learn(partial(discovery.load_catalog, connection.http, catalog.url))


async def _learn(connection: Connection, ask: Callable[[], Awaitable[bool]]) -> None:
    """Request the models; use and announce the result if it changed."""
    if await ask():
        connection.forget_models()
        tell_offer(connection, keeps_selection=True)


async def _list(connection: Connection, endpoint: Endpoint, backend: Callable[[], Backend]) -> bool:
    return await connection.discovery.ask(endpoint, backend())
