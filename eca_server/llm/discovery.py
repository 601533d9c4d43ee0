"""What is learned of models over the network after the start, and kept for the next one.

The rules it keeps: nothing waits for it, and each question has a deadline; an endpoint that does
not answer is shown as it answered last, however long ago; what is on this machine or network is
asked each time, since while it is away it can be asked nothing else either.

Keys are neither in what is kept nor in the names of the files.
"""

from __future__ import annotations

import hashlib
import logging
import time
from pathlib import Path
from urllib.parse import urlsplit

import trio

from eca_protocol.http import HTTPClient
from eca_server.llm.backend import Backend, BackendError
from eca_server.llm.catalog import Catalog
from eca_server.llm.kept import keep, kept
from eca_server.llm.listings import Endpoint, Listing, listing_from, listing_to, offered
from eca_server.llm.models_dev import NotFetched, fetch, read_catalog
from eca_server.llm.providers import is_local

__all__ = ["Discovery"]

_log = logging.getLogger("eca_server.llm")

LIST_SECONDS = 10.0
"""For one endpoint to list its models."""
LIST_IS_FRESH = 600.0
"""Seconds for which an endpoint elsewhere is not asked again, by any server of this user."""
CATALOG_IS_FRESH = 86_400.0
MOST_OF_A_LIST = 2**20
"""Bytes of a list that was kept."""


class Discovery:
    """Lists of models, and the catalogue.

    Args:
        folder: where they are kept.

    Attributes:
        catalog: what is known beforehand of models, as packaged until there is something newer.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._listings: dict[Endpoint, Listing | None] = {}
        self._catalog_looked_at = False
        self.catalog = Catalog()

    def listing(self, endpoint: Endpoint) -> Listing | None:
        """What an endpoint listed last; a small file is read for it, once."""
        if endpoint not in self._listings:
            found = None
            if not is_local(endpoint.url):
                found = listing_from(kept(self._file(endpoint), most=MOST_OF_A_LIST))
            self._listings[endpoint] = found
        return self._listings[endpoint]

    def is_due(self, endpoint: Endpoint) -> bool:
        """Whether an endpoint is to be asked."""
        listing = self.listing(endpoint)
        return listing is None or is_local(endpoint.url) or not _is_fresh(listing.at, LIST_IS_FRESH)

    async def ask(self, endpoint: Endpoint, backend: Backend) -> bool:
        """Ask an endpoint for its models; whether its answer is news."""
        try:
            with trio.fail_after(LIST_SECONDS):
                if is_local(endpoint.url):
                    await _knock(endpoint.url)
                models = offered(await backend.models())
        except (BackendError, OSError, ValueError) as fault:
            _log.info("%s lists no models: %s", endpoint.provider, fault)
            return False
        except trio.TooSlowError:
            _log.info("%s lists no models within %g s", endpoint.provider, LIST_SECONDS)
            return False
        except Exception:  # noqa: BLE001 - what a stranger answers must not end the server
            _log.exception("%s lists its models in a way that is not understood", endpoint.provider)
            return False
        before = self.listing(endpoint)
        listing = Listing(models=models, at=time.time())
        self._listings[endpoint] = listing
        if not is_local(endpoint.url):
            await trio.to_thread.run_sync(keep, self._file(endpoint), listing_to(listing))
        return before is None or before.models != models

    async def look_at_catalog(self, http: HTTPClient, url: str) -> bool:
        """Read the catalogue that was kept, or a newer one; whether it is news. Once only."""
        if self._catalog_looked_at:
            return False
        self._catalog_looked_at = True
        file = self._folder / "catalog.json"
        before = await trio.to_thread.run_sync(kept, file, abandon_on_cancel=True) or {}
        if before.get("url") != url:
            before = {}
        is_news = await self._take(before.get("providers"))
        if _is_fresh(before.get("at"), CATALOG_IS_FRESH) and is_news:
            return True
        etag = before.get("etag") if is_news else None
        try:
            fetched = await fetch(http, url, etag if isinstance(etag, str) else None)
        except NotFetched as fault:
            _log.info("no newer catalogue of models: %s", fault)
            return is_news
        if fetched is not None:
            before = {"url": url, "etag": fetched.etag, "providers": fetched.providers}
            is_news = await self._take(fetched.providers)
        await trio.to_thread.run_sync(keep, file, {**before, "at": time.time()})
        return is_news

    async def _take(self, providers: object) -> bool:
        """Have a catalogue count, if there is anything in it."""
        found = await trio.to_thread.run_sync(read_catalog, providers, abandon_on_cancel=True)
        if found:
            self.catalog = Catalog(found)
        return bool(found)

    def _file(self, endpoint: Endpoint) -> Path:
        named = f"{endpoint.provider}\n{endpoint.url}".encode(errors="replace")
        return self._folder / "models" / f"{hashlib.sha256(named).hexdigest()[:32]}.json"


def _is_fresh(at: object, seconds: float) -> bool:
    """Whether a time is so short ago; one to come is none."""
    return isinstance(at, int | float) and 0 <= time.time() - at < seconds


async def _knock(url: str) -> None:
    """Raise an OSError if nothing listens there: cheaper than an HTTP request that fails."""
    parts = urlsplit(url.strip())
    port = parts.port or (443 if parts.scheme == "https" else 80)
    stream = await trio.open_tcp_stream(parts.hostname or "", port)
    await stream.aclose()
