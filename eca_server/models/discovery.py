"""Models and the catalogue, fetched over the network after the start and cached on disk.

- Requests do not wait for it; each fetch has a deadline.
- The last listing of an endpoint stays valid while the endpoint does not answer.
- Endpoints on this machine or network are not cached: while they are away, their models are, too.

The cache contains no keys, neither in the files nor in their names. A missing, damaged or too large
file counts as absent; a failed write is no error.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import trio

from eca_protocol import json, platforms
from eca_protocol.errors import InvalidJSON
from eca_protocol.http import HTTPClient
from eca_server.config.directories import make_data_directory, replace_file
from eca_server.config.files import Unreadable, read_text
from eca_server.models.backend import BackendError, ErrorKind
from eca_server.models.catalog import Catalog
from eca_server.models.http_backend import HTTPBackend
from eca_server.models.listings import (
    Endpoint,
    Listing,
    chat_models,
    listing_from_json,
    listing_to_json,
)
from eca_server.models.models_dev import FetchError, fetch, read_catalog
from eca_server.models.provider import is_local

_log = logging.getLogger("eca_server.models")

_VERSION = 1  # of cached files
LIST_SECONDS = 10.0
"""The deadline of one endpoint's listing."""
LIST_TTL = 600.0
"""Seconds for which no server of this user asks a remote endpoint again."""
CATALOG_TTL = 86_400.0
MAX_LIST_BYTES = 2**20
"""The largest cached list, in bytes."""

_TEMPORARY: frozenset[ErrorKind] = frozenset(("network", "overloaded", "timeout", "tls"))
"""Classes of errors that a network without access to the internet causes, too."""


class Discovery:
    """Lists of models, and the catalogue.

    Attributes:
        catalog: known facts of models: the packaged ones until newer ones are loaded.
        asked_at: the last request of each endpoint, by `platforms.uptime`; to be cleared when
            settings or keys change.
        unreachable: the endpoints that could not be reached when they were last asked, or that
            were still loading their model.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.unreachable: set[Endpoint] = set()
        self._listings: dict[Endpoint, Listing | None] = {}
        self._catalog_loaded = False
        self.catalog = Catalog()
        self.asked_at: dict[Endpoint, float] = {}

    def listing(self, endpoint: Endpoint) -> Listing | None:
        """Return the last listing of an endpoint; reads a small file, once."""
        if endpoint not in self._listings:
            stored = None
            if not is_local(endpoint.url):
                stored = listing_from_json(load_cached(self._file(endpoint), most=MAX_LIST_BYTES))
            self._listings[endpoint] = stored
        return self._listings[endpoint]

    def is_due(self, endpoint: Endpoint) -> bool:
        """Return whether to ask an endpoint for its models."""
        if is_local(endpoint.url) or endpoint in self.unreachable:
            return True
        if platforms.uptime() - self.asked_at.get(endpoint, -math.inf) <= LIST_TTL:
            return False  # also one that did not answer
        listing = self.listing(endpoint)
        return listing is None or not _is_fresh(listing.at, LIST_TTL)

    async def ask(self, endpoint: Endpoint, backend: HTTPBackend) -> bool:
        """Ask an endpoint for its models; return whether they have changed."""
        self.asked_at[endpoint] = platforms.uptime()
        level = logging.DEBUG if endpoint in self.unreachable else logging.INFO
        self.unreachable.discard(endpoint)
        try:
            with trio.fail_after(LIST_SECONDS):
                if is_local(endpoint.url):
                    await _check_port(endpoint.url)
                models = chat_models(await backend.models())
        except (BackendError, OSError, ValueError) as fault:
            _log.log(level, "%s lists no models: %s", endpoint.provider, fault)
            if _is_temporary(fault):
                self.unreachable.add(endpoint)
            return False
        except trio.TooSlowError:
            _log.log(level, "%s lists no models within %g s", endpoint.provider, LIST_SECONDS)
            self.unreachable.add(endpoint)
            return False
        except Exception:  # noqa: BLE001 - an endpoint's answer must not end the server
            _log.exception("the list of models of %s is unreadable", endpoint.provider)
            return False
        before = self.listing(endpoint)
        listing = Listing(models=models, at=time.time())
        self._listings[endpoint] = listing
        if not is_local(endpoint.url):
            await trio.to_thread.run_sync(
                store_cached, self._file(endpoint), listing_to_json(listing)
            )
        return before is None or before.models != models

    async def load_catalog(self, http: HTTPClient, url: str) -> bool:
        """Load the cached catalogue, or fetch a newer one, once; return whether it has changed."""
        if self._catalog_loaded:
            return False
        self._catalog_loaded = True
        file = self._folder / "catalog.json"
        before = await trio.to_thread.run_sync(load_cached, file, abandon_on_cancel=True) or {}
        if before.get("url") != url:
            before = {}
        has_changed = await self._use(before.get("providers"))
        if _is_fresh(before.get("at"), CATALOG_TTL) and has_changed:
            return True
        etag = before.get("etag") if has_changed else None
        try:
            fetched = await fetch(http, url, etag if isinstance(etag, str) else None)
        except FetchError as fault:
            _log.info("no newer catalogue of models: %s", fault)
            return has_changed
        if fetched is not None:
            before = fetched
            has_changed = await self._use(fetched["providers"])
        await trio.to_thread.run_sync(store_cached, file, {**before, "at": time.time()})
        return has_changed

    async def _use(self, providers: object) -> bool:
        """Use a catalogue unless it is empty; return whether it is used."""
        stored = await trio.to_thread.run_sync(read_catalog, providers, abandon_on_cancel=True)
        if stored:
            self.catalog = Catalog(stored)
        return bool(stored)

    def _file(self, endpoint: Endpoint) -> Path:
        identity = f"{endpoint.provider}\n{endpoint.url}".encode(errors="replace")
        return self._folder / "models" / f"{hashlib.sha256(identity).hexdigest()[:32]}.json"


def _is_temporary(fault: Exception) -> bool:
    """Return whether an endpoint may soon list its models; a network's login page hides it."""
    if not isinstance(fault, BackendError):
        return isinstance(fault, OSError)
    is_page = fault.status is None and fault.raw.lstrip().startswith("<")
    return is_page or fault.kind in _TEMPORARY


def _is_fresh(at: object, seconds: float) -> bool:
    """Return whether a time is that recent; a future time is not."""
    return isinstance(at, int | float) and 0 <= time.time() - at < seconds


async def _check_port(url: str) -> None:
    """Raise OSError if the port is closed: cheaper than an HTTP request that fails."""
    parts = urlsplit(url.strip())
    port = parts.port or (443 if parts.scheme == "https" else 80)
    stream = await trio.open_tcp_stream(parts.hostname or "", port)
    await stream.aclose()


def load_cached(path: Path, *, most: int = 16 * 2**20) -> dict[str, Any] | None:
    """Return the JSON object in a file; None: there is none of at most `most` bytes."""
    try:
        value = json.loads(read_text(path, most=most).encode())
    except (Unreadable, InvalidJSON) as fault:
        _log.debug("%s: %s", path, fault)
        return None
    is_ours = isinstance(value, dict) and value.get("version") == _VERSION
    return dict(value) if is_ours else None


def store_cached(path: Path, value: dict[str, Any]) -> None:
    """Store a JSON object in a file."""
    try:
        make_data_directory(path.parent)
        replace_file(path, json.dumps({"version": _VERSION, **value}))
    except OSError as fault:
        _log.info("%s cannot be stored: %s", path, fault.strerror)
