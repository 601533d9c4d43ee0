"""The registry of models: configured providers as plain data, and backends made from it.

A model is named `provider/model`. If a setting is missing, a `BackendError` says which one before
anything is sent.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import attrs

from eca_protocol.http import Deadlines, HTTPClient
from eca_server.config.reading import deep_merge
from eca_server.credentials import Tokens, url_problem
from eca_server.llm import simulator
from eca_server.llm.access import (
    VERSION,
    Access,
    KeyAccess,
    LoginAccessConfig,
    TokenAccess,
    join_url,
)
from eca_server.llm.apis import API, APIS
from eca_server.llm.backend import Backend, BackendError, Capabilities
from eca_server.llm.history import Origin
from eca_server.llm.known_providers import (
    KNOWN_PROVIDERS,
    KnownProvider,
    api_of,
    is_own_endpoint,
    server_of,
)
from eca_server.llm.listings import Endpoint
from eca_server.llm.simulator import Simulator
from eca_server.secret import Secret

__all__ = [
    "ModelSettings",
    "ProviderSettings",
    "Registry",
    "Timers",
    "is_local",
]


@attrs.frozen(kw_only=True)
class ModelSettings:
    """One model of a provider.

    Attributes:
        wire_name: the endpoint's name; None: the same as ours.
        extra_payload: merged into each request; a null removes the key.
        extra_headers: sent with each request.
        variants: payloads merged over `extra_payload`, by the suffix after the colon.
    """

    wire_name: str | None = None
    extra_payload: Mapping[str, Any] = attrs.field(factory=dict)
    extra_headers: Mapping[str, str] = attrs.field(factory=dict)
    variants: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class ProviderSettings:
    """One provider; None in a field means the known provider's default.

    Attributes:
        api: its wire API.
        url: the base, to which the API's path is added.
        key: the API key.
        path: replaces the API's own path.
        extra_headers: sent with each request.
        lists: whether it is asked for its models.
        models: models by the user's names; empty: any model.
        listed: the names of the models that it lists.
        apis: the API of each listed model that has a different one.
        tokens: the tokens of a login; they take precedence over the key.
        host: the installation that issues logins, if it is the user's own.
        think_tags: the tags around reasoning in the text of an answer.
    """

    api: str | None = None
    url: str | None = None
    key: Secret | None = None
    path: str | None = None
    extra_headers: Mapping[str, str] = attrs.field(factory=dict)
    lists: bool = True
    models: Mapping[str, ModelSettings] = attrs.field(factory=dict)
    listed: Sequence[str] = ()
    apis: Mapping[str, str] = attrs.field(factory=dict)
    tokens: Tokens | None = None
    host: str | None = None
    think_tags: tuple[str, str] | None = None


@attrs.frozen(kw_only=True)
class Timers:
    """The four timers of a request, in seconds.

    Attributes:
        connect: for the connection.
        first_byte: until the answer begins; None: 60, or 600 for a model on this machine or
            network, which may have to be loaded first.
        idle: between two bytes.
        no_progress: between two events, whatever bytes come.
    """

    connect: float = 10
    first_byte: float | None = None
    idle: float = 120
    no_progress: float = 600

    def deadlines(self, url: str) -> Deadlines:
        """Return the deadlines that the HTTP client enforces."""
        first_byte = self.first_byte or (600 if is_local(url) else 60)
        return Deadlines(connect=self.connect, first_byte=first_byte, idle=self.idle)


def is_local(url: str) -> bool:
    """Return whether a URL leads to this machine or its private network."""
    host = ""
    try:
        host = urlsplit(url).hostname or ""
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local", ".internal"))


class Registry:
    """The available models, with a backend for each, made at its first use.

    Args:
        http: the client that they share.
        providers: the configured providers, by name.
        timers: the timers of every request.
        capabilities: returns a model's capabilities, by its provider and its name.
        accesses: the accesses with fetched tokens, which outlive this registry.
        hide: called with each new secret before it is used.
    """

    def __init__(
        self,
        *,
        http: HTTPClient,
        providers: Mapping[str, ProviderSettings],
        timers: Timers | None = None,
        capabilities: Callable[[str, str], Capabilities] = lambda _provider, _model: Capabilities(),
        accesses: MutableMapping[object, Access] | None = None,
        hide: Callable[[Iterable[Secret]], None] = lambda _: None,
    ) -> None:
        self._http = http
        self._providers = dict(providers)
        self._timers = timers or Timers()
        self._capabilities = capabilities
        self._backends: dict[str, Backend] = {}
        self._refused: dict[str, set[str]] = {}
        self._accesses = {} if accesses is None else accesses
        self._hide = hide

    def names(self) -> tuple[str, ...]:
        """Return every model to offer, as `provider/model`; the embedded ones come last."""
        available = [
            f"{name}/{model}"
            for name, settings in self._providers.items()
            if self._problem(name, settings) is None
            for model in _offered(name, settings)
        ]
        return (*available, *(f"{simulator.PROVIDER}/{model}" for model in simulator.MODELS))

    def backend(self, name: str) -> Backend:
        """Return the backend of the model `provider/model`, always the same one.

        Raises:
            BackendError: `model_not_found`, or `configuration` if a setting is missing.
        """
        if name not in self._backends:
            self._backends[name] = self._make(name)
        return self._backends[name]

    def endpoints(self) -> Mapping[Endpoint, Callable[[], Backend]]:
        """Return the endpoints that can list models, each with a maker of its backend.

        Providers without a key are included if they need none, or are on this machine or network.
        """
        endpoints: dict[Endpoint, Callable[[], Backend]] = {}
        for name, settings in self._providers.items():
            known = KNOWN_PROVIDERS.get(server_of(name, settings.url))
            url = settings.url or (known and known.url)
            lists = settings.lists and (known is None or known.lists)
            if not lists or not url or self._problem(name, settings) is not None:
                continue
            needs_no_key = is_local(url) or (known is not None and known.key_variable is None)
            if settings.key is not None or needs_no_key:
                endpoints[Endpoint(name, url)] = partial(self._over_http, name, "", settings)
        return endpoints

    def _make(self, name: str) -> Backend:
        provider, _, requested = name.partition("/")
        for ours in simulator.MODELS:
            if (provider, requested) == (simulator.PROVIDER, ours):
                return Simulator(ours)
        settings = self._providers.get(provider)
        if settings is None and provider in KNOWN_PROVIDERS:
            settings = ProviderSettings()
        if settings is None or not requested or not _may_have(settings, requested):
            raise BackendError(
                "model_not_found",
                f"there is no model of this name; available models: {_few(self.names())}",
            )
        if problem := self._problem(provider, settings):
            raise BackendError("configuration", problem)
        return self._over_http(provider, requested, settings)

    def _over_http(self, provider: str, requested: str, settings: ProviderSettings) -> Backend:
        server = server_of(provider, settings.url)
        known = KNOWN_PROVIDERS.get(server)
        url = settings.url or (known and known.url)
        assert url, "a provider without a base has a problem"
        model, variant = _split_variant(requested, settings.models)
        chosen = settings.models.get(model, ModelSettings())
        name = settings.apis.get(chosen.wire_name or model, _api_of(provider, settings))
        api = APIS[name]
        return api.load()(
            http=self._http,
            origin=Origin(api=name, provider=provider, model=model),
            server=server,
            access=self._access(provider, settings, api, known),
            wire_model=chosen.wire_name,
            path=settings.path,
            extra_payload=deep_merge(chosen.extra_payload, variant),
            extra_headers={**settings.extra_headers, **chosen.extra_headers},
            deadlines=self._timers.deadlines(url),
            no_progress=self._timers.no_progress,
            capabilities=self._capabilities(provider, model),
            refused=self._refused.setdefault(provider, set()),
            think_tags=settings.think_tags,
        )

    def _access(
        self, provider: str, settings: ProviderSettings, api: API, known: KnownProvider | None
    ) -> Access:
        """Return the access to a provider for one of its APIs; an access with tokens is shared."""
        url = str(settings.url or (known and known.url))
        if not settings.path:
            url = _rooted(url, api, known)
        make = APIS[_api_of(provider, settings)].access
        if make is None and settings.tokens is None:
            header = (known and known.key_header) or api.key_header
            return KeyAccess(url=url, key=settings.key, header=header)
        config = LoginAccessConfig(
            http=self._http,
            url=settings.url,
            host=settings.host,
            key=settings.key,
            tokens=settings.tokens,
            hide=self._hide,
        )
        identity = (provider, config.url, config.host, None if config.tokens else config.key)
        if identity not in self._accesses:
            self._accesses[identity] = make(config) if make else TokenAccess(url, config)
        return self._accesses[identity]

    def _problem(self, name: str, settings: ProviderSettings) -> str | None:
        """Return the user's text for a missing setting of a provider; None: it is usable."""
        known = KNOWN_PROVIDERS.get(name)
        api = _api_of(name, settings)
        if api not in APIS:
            expected = " or ".join(map(repr, APIS))
            return f"providers.{name}.api: expected {expected}, got {api!r}"
        if settings.url is None and (known is None or known.url is None):
            return f"providers.{name}.url is not set"
        if settings.url is not None and (fault := url_problem(settings.url)):
            return f"the url of {name}: {fault}"
        hosted = known is not None and is_own_endpoint(name, settings.url) and known.key_variable
        if hosted and settings.key is None and not _has_key_header(settings):
            return f"no key for {name}: set {hosted} or providers.{name}.key, or `/login {name}`"
        return None


def _offered(name: str, settings: ProviderSettings) -> Iterable[str]:
    """Return the models that a provider offers: its default, then configured and listed ones."""
    known = KNOWN_PROVIDERS.get(name)
    default = known.default_model if known and not settings.models else None
    is_there = default in settings.listed or not settings.listed
    offered = [default] if default is not None and is_there else []
    for model, chosen in settings.models.items():
        variants = (f"{model}:{variant}" for variant, payload in chosen.variants.items() if payload)
        offered += [model, *variants]
    return dict.fromkeys([*offered, *settings.listed])


def _may_have(settings: ProviderSettings, requested: str) -> bool:
    """Return whether a provider may have a model; False only if all its models are known."""
    model, _ = _split_variant(requested, settings.models)
    return not settings.models or model in settings.models or model in settings.listed


def _split_variant(
    requested: str, models: Mapping[str, ModelSettings]
) -> tuple[str, Mapping[str, Any]]:
    """Split a model's name from its variant, and return the variant's payload.

    A model's own name may contain a colon, too.
    """
    model, _, variant = requested.rpartition(":")
    if requested not in models and model in models:
        payload = models[model].variants.get(variant)
        if payload:
            return model, payload
    return requested, {}


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


def _api_of(name: str, settings: ProviderSettings) -> str:
    return settings.api or api_of(name, settings.url)


def _has_key_header(settings: ProviderSettings) -> bool:
    """Return whether the user sends a key in a configured header."""
    headers = [settings.extra_headers, *(each.extra_headers for each in settings.models.values())]
    keys = {api.key_header for api in APIS.values()} | {"api-key"}
    return any(name.lower() in keys for each in headers for name in each)


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:8]) + (", ..." if len(listed) > 8 else "")
