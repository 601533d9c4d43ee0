"""From plain data to backends: the providers that are configured, and a registry of their models.

The rule it keeps: a model is named `provider/model`; what is missing for it is said by a
`BackendError` before anything is sent, in words that tell what to set.
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
from eca_server.credentials import Tokens, url_fault
from eca_server.llm import simulator
from eca_server.llm.access import VERSION, Access, KeyAccess, TokenAccess, Way, endpoint
from eca_server.llm.apis import API, APIS
from eca_server.llm.backend import Backend, BackendError, Capabilities
from eca_server.llm.history import Origin
from eca_server.llm.known_providers import (
    KNOWN_PROVIDERS,
    KnownProvider,
    api_of,
    is_at_home,
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
        wire_name: what the endpoint calls it; None: as we do.
        extra_payload: merged into each request; a null removes the key.
        extra_headers: sent with each request.
        variants: more payloads, merged over that one, by the name behind the colon.
    """

    wire_name: str | None = None
    extra_payload: Mapping[str, Any] = attrs.field(factory=dict)
    extra_headers: Mapping[str, str] = attrs.field(factory=dict)
    variants: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class ProviderSettings:
    """One provider; None in a field means what is known of it by its name.

    Attributes:
        api: which wire API it speaks.
        url: the base that the API's path is added to.
        key: the API key.
        path: in place of the API's own path.
        extra_headers: sent with each request.
        lists: whether it is asked which models it has.
        models: by the name the user gives them; empty: whatever is asked for.
        listed: the names of those it lists.
        apis: the API of each model it lists that is asked by another one.
        tokens: those of a login; they count before the key.
        host: the installation that one logs in to, if it is the user's own.
        think_tags: what begins and ends a thought in the text of an answer.
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
        """Those of them that the HTTP client keeps."""
        first_byte = self.first_byte or (600 if is_local(url) else 60)
        return Deadlines(connect=self.connect, first_byte=first_byte, idle=self.idle)


def is_local(url: str) -> bool:
    """Whether a URL leads to this machine or its private network."""
    host = ""
    try:
        host = urlsplit(url).hostname or ""
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local", ".internal"))


class Registry:
    """The models there are, and a backend for each, made when it is first asked for.

    Args:
        http: the client they share.
        providers: what is configured, by name.
        timers: of every request.
        capabilities: what a model can do, by its provider's name and its own.
        accesses: the ways that hold something that was bought, which outlives this registry.
        hide: told of each new secret before it is used.
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
        """Every model there is to offer, as `provider/model`; ours at the end."""
        there = [
            f"{name}/{model}"
            for name, settings in self._providers.items()
            if self._trouble(name, settings) is None
            for model in _offered(name, settings)
        ]
        return (*there, *(f"{simulator.PROVIDER}/{model}" for model in simulator.MODELS))

    def backend(self, name: str) -> Backend:
        """The backend of the model `provider/model`; the same one each time.

        Raises:
            BackendError: `model_not_found`, or `configuration` when something is missing for it.
        """
        if name not in self._backends:
            self._backends[name] = self._made(name)
        return self._backends[name]

    def endpoints(self) -> Mapping[Endpoint, Callable[[], Backend]]:
        """Who can be asked for a list of models, and by what.

        Without a key only who is known to need none, or is on this machine or network.
        """
        found: dict[Endpoint, Callable[[], Backend]] = {}
        for name, settings in self._providers.items():
            known = KNOWN_PROVIDERS.get(server_of(name, settings.url))
            url = settings.url or (known and known.url)
            lists = settings.lists and (known is None or known.lists)
            if not lists or not url or self._trouble(name, settings) is not None:
                continue
            needs_no_key = is_local(url) or (known is not None and known.key_variable is None)
            if settings.key is not None or needs_no_key:
                found[Endpoint(name, url)] = partial(self._over_http, name, "", settings)
        return found

    def _made(self, name: str) -> Backend:
        provider, _, asked = name.partition("/")
        for ours in simulator.MODELS:
            if (provider, asked) == (simulator.PROVIDER, ours):
                return Simulator(ours)
        settings = self._providers.get(provider)
        if settings is None and provider in KNOWN_PROVIDERS:
            settings = ProviderSettings()
        if settings is None or not asked or not _may_have(settings, asked):
            raise BackendError(
                "model_not_found", f"there is no model {name!r}; there are {_few(self.names())}"
            )
        if trouble := self._trouble(provider, settings):
            raise BackendError("configuration", trouble)
        return self._over_http(provider, asked, settings)

    def _over_http(self, provider: str, asked: str, settings: ProviderSettings) -> Backend:
        server = server_of(provider, settings.url)
        known = KNOWN_PROVIDERS.get(server)
        url = settings.url or (known and known.url)
        assert url, "a provider without a base is in trouble"
        model, variant = _parted(asked, settings.models)
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
        """The way to a provider for one of its APIs; one that holds tokens is there once."""
        url = str(settings.url or (known and known.url))
        if not settings.path:
            url = _rooted(url, api, known)
        make = APIS[_api_of(provider, settings)].access
        if make is None and settings.tokens is None:
            header = (known and known.key_header) or api.key_header
            return KeyAccess(url=url, key=settings.key, header=header)
        way = Way(
            http=self._http,
            url=settings.url,
            host=settings.host,
            key=settings.key,
            tokens=settings.tokens,
            hide=self._hide,
        )
        same = (provider, way.url, way.host, None if way.tokens else way.key)
        if same not in self._accesses:
            self._accesses[same] = make(way) if make else TokenAccess(url, way)
        return self._accesses[same]

    def _trouble(self, name: str, settings: ProviderSettings) -> str | None:
        """What is missing for a provider, in words; None when it can be asked."""
        known = KNOWN_PROVIDERS.get(name)
        api = _api_of(name, settings)
        if api not in APIS:
            expected = " or ".join(map(repr, APIS))
            return f"providers.{name}.api: expected {expected}, got {api!r}"
        if settings.url is None and (known is None or known.url is None):
            return f"providers.{name}.url is not set"
        if settings.url is not None and (fault := url_fault(settings.url)):
            return f"the url of {name}: {fault}"
        hosted = known is not None and is_at_home(name, settings.url) and known.key_variable
        if hosted and settings.key is None and not _has_key_header(settings):
            return f"no key for {name}: set {hosted} or providers.{name}.key, or `/login {name}`"
        return None


def _offered(name: str, settings: ProviderSettings) -> Iterable[str]:
    """What a provider offers, each once: its default, what is configured, what it lists."""
    known = KNOWN_PROVIDERS.get(name)
    default = known.default_model if known and not settings.models else None
    is_there = default in settings.listed or not settings.listed
    offered = [default] if default is not None and is_there else []
    for model, chosen in settings.models.items():
        variants = (f"{model}:{variant}" for variant, payload in chosen.variants.items() if payload)
        offered += [model, *variants]
    return dict.fromkeys([*offered, *settings.listed])


def _may_have(settings: ProviderSettings, asked: str) -> bool:
    """Whether a provider may have a model; only one whose models are all told may not."""
    model, _ = _parted(asked, settings.models)
    return not settings.models or model in settings.models or model in settings.listed


def _parted(asked: str, models: Mapping[str, ModelSettings]) -> tuple[str, Mapping[str, Any]]:
    """A model's name, and the payload of its variant; a name of its own may hold a colon, too."""
    model, _, variant = asked.rpartition(":")
    if asked not in models and model in models:
        payload = models[model].variants.get(variant)
        if payload:
            return model, payload
    return asked, {}


def _rooted(url: str, api: API, known: KnownProvider | None) -> str:
    """A base with the root of its API, unless its path says the version or needs none."""
    *before, last = urlsplit(url.strip()).path.rstrip("/").split("/")
    own = None if known is None else known.root
    if not before:
        root = api.root if own is None else own
    else:
        needs_it = api.roots_paths and own is None and not VERSION.fullmatch(last)
        root = api.root if needs_it else ""
    return endpoint(url, root) if root else url


def _api_of(name: str, settings: ProviderSettings) -> str:
    return settings.api or api_of(name, settings.url)


def _has_key_header(settings: ProviderSettings) -> bool:
    """Whether the user sends a key in a header of their own."""
    headers = [settings.extra_headers, *(each.extra_headers for each in settings.models.values())]
    keys = {api.key_header for api in APIS.values()} | {"api-key"}
    return any(name.lower() in keys for each in headers for name in each)


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:8]) + (", ..." if len(listed) > 8 else "")
