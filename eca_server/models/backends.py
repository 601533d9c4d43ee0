"""Backends, each made from a provider and the name of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

import attrs

from eca_protocol.http import Deadlines, HTTPClient
from eca_server.config.reading import deep_merge
from eca_server.config.settings import Config
from eca_server.models.access import (
    VERSION,
    Access,
    KeyAccess,
    TokenAccess,
    join_url,
)
from eca_server.models.apis import API, APIS
from eca_server.models.facts import Capabilities
from eca_server.models.history import Origin
from eca_server.models.http_backend import HTTPBackend
from eca_server.models.known_providers import KnownProvider
from eca_server.models.provider import Provider, is_local
from eca_server.models.provider_client import ProviderClient
from eca_server.secret import Secret


def deadlines_of(config: Config, url: str) -> Deadlines:
    """Return the configured deadlines of requests; those of local models are longer by default.

    Such a model may have to be loaded before its answer begins, and its server may send the headers
    first, and then nothing until it has read the prompt.
    """
    first_byte, idle = (600, 600) if is_local(url) else (60, 120)
    return Deadlines(
        connect=config.connect_timeout or 10,
        first_byte=config.first_byte_timeout or first_byte,
        idle=config.stream_idle_timeout or idle,
    )


@attrs.define(kw_only=True, eq=False)
class Backends:
    """The backends of models over HTTP.

    Args:
        accesses: the accesses with fetched tokens, which outlive these backends.
        hide: called with each new secret before it is used.
    """

    _http: HTTPClient
    _config: Config
    _accesses: MutableMapping[object, Access]
    _hide: Callable[[Iterable[Secret]], None]
    _refused: dict[str, set[str]] = attrs.field(factory=dict, init=False)

    def make(self, provider: Provider, requested: str, capabilities: Capabilities) -> HTTPBackend:
        """Return a new backend for a model or one of its variants.

        Args:
            provider: its provider, without a missing setting.
            requested: the user's name of the model; "": only the list of models is needed.
            capabilities: the model's capabilities.
        """
        assert provider.url, "a provider without a base has a missing setting"
        settings = provider.settings
        model, variant = provider.split_variant(requested)
        chosen = provider.model(model)
        name = provider.api_of(model)
        headers = (*settings.extra_headers.items(), *chosen.extra_headers.items())
        client = ProviderClient(
            http=self._http,
            access=self._access(provider, provider.url, APIS[name]),
            model=f"{provider.name}/{model}",
            extra_headers={header.lower(): text for header, text in headers},
            deadlines=deadlines_of(self._config, provider.url),
        )
        return APIS[name].load()(
            client=client,
            origin=Origin(api=name, provider=provider.name, model=model),
            server=provider.server,
            wire_model=chosen.model_name,
            path=settings.completion_url_relative_path,
            extra_payload=deep_merge(chosen.extra_payload, variant),
            no_progress=self._config.no_progress_timeout or 600,
            capabilities=capabilities,
            refused=self._refused.setdefault(provider.name, set()),
            think_tags=provider.think_tags,
        )

    def _access(self, provider: Provider, url: str, api: API) -> Access:
        """Return the access to a provider for one of its APIs; an access with tokens is shared."""
        known = provider.known_server
        if not provider.settings.completion_url_relative_path:
            url = _rooted(url, api, known)
        own = APIS[provider.api]
        if own.access is None and provider.tokens is None:
            header = (known and known.key_header) or api.key_header
            without_key = provider.without_key
            return KeyAccess(url=url, key=provider.key, header=header, without_key=without_key)
        base, host = provider.configured_url, provider.settings.auth.url
        identity = (provider.name, base, host, None if provider.tokens else provider.key)
        if identity not in self._accesses:
            login: dict[str, Any] = {"key": provider.key, "tokens": provider.tokens}
            self._accesses[identity] = (
                own.load_access()(url=base, host=host, http=self._http, hide=self._hide, **login)
                if own.access
                else TokenAccess(url=url, **login)
            )
        return self._accesses[identity]


def _rooted(url: str, api: API, known: KnownProvider | None) -> str:
    """Append the root of an API to a base, unless its path has a version or needs no root."""
    *before, last = urlsplit(url.strip()).path.rstrip("/").split("/")
    own = None if known is None else known.root
    if not before:
        root = api.root if own is None else own
    else:
        needs_it = api.roots_paths and own is None and not VERSION.fullmatch(last)
        root = api.root if needs_it else ""
    return join_url(url, root) if root else url
