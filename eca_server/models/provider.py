"""The providers of models: the user's settings, a known provider's defaults, keys and lists.

Nothing here uses the network.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import attrs

from eca_server.config import settings as configuration
from eca_server.config.own_secrets import secrets_in_address
from eca_server.config.problems import Problem
from eca_server.config.settings import Config
from eca_server.models import simulator
from eca_server.models.acp import ACP, acp_agents
from eca_server.models.apis import APIS
from eca_server.models.backend import ModelInfo
from eca_server.models.credentials.logins import StoredKeys
from eca_server.models.credentials.lookup import (
    LOGIN,
    Credential,
    Location,
    find_key,
    find_url,
    url_problem,
)
from eca_server.models.credentials.netrc import netrc_file
from eca_server.models.credentials.tokens import Tokens
from eca_server.models.known_providers import (
    KNOWN_PROVIDERS,
    KnownProvider,
    api_of,
    is_own_endpoint,
    server_of,
)
from eca_server.models.listings import Endpoint, Listing
from eca_server.models.think_tags import THINK_TAGS
from eca_server.secret import Secret, secrets_in
from eca_server.system.command_line import nearest

_SPELLINGS: Final = {"openai": "openai-responses"}
"""Upstream's older names of APIs."""
_UNKNOWN: Final = KnownProvider(url=None, key_variable=None)
_LOCAL_DOMAINS = (".localhost", ".local", ".internal", ".lan", ".home.arpa")


def is_local(url: str) -> bool:
    """Return whether a URL leads to this machine or its private network."""
    host = ""
    try:
        host = urlsplit(url).hostname or ""
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return bool(host) and ("." not in host or host.endswith(_LOCAL_DOMAINS))


@attrs.frozen(kw_only=True)
class Provider:
    """A provider of models.

    Attributes:
        name: as in `provider/model`.
        api: its wire API; a listed model may have a different one.
        location: its URL; None for models inside this process.
        credential: its key; None for models inside this process.
        tokens: the tokens of its login, if that is the source of the key.
        listed: the models that its endpoint lists, by their names there.
        is_there: it is configured, has a key or has listed models; otherwise it is only probed.
        server: the known provider at its URL; its own name if there is none.
    """

    name: str
    api: str
    settings: configuration.Provider = attrs.field(factory=configuration.Provider)
    location: Location | None = None
    credential: Credential | None = None
    tokens: Tokens | None = None
    listed: Mapping[str, ModelInfo] = attrs.field(factory=dict)
    is_there: bool = True
    server: str = attrs.field(init=False)

    @server.default
    def _server(self) -> str:
        return server_of(self.name, self.url)

    @property
    def url(self) -> str | None:
        """The base, to which the API's path is added."""
        return None if self.location is None else self.location.url

    @property
    def configured_url(self) -> str | None:
        """The base, unless it is a known provider's default."""
        return None if self.location is None or self.location.source is None else self.url

    @property
    def key(self) -> Secret | None:
        """The key, or the token of the login."""
        return None if self.credential is None else self.credential.key

    @property
    def known(self) -> KnownProvider | None:
        """The known provider of this name."""
        return KNOWN_PROVIDERS.get(self.name)

    @property
    def known_server(self) -> KnownProvider | None:
        """The known provider at its URL."""
        return KNOWN_PROVIDERS.get(self.server)

    @property
    def models(self) -> Mapping[str, configuration.Model]:
        """The configured models by the user's names; empty: any model."""
        return self.settings.models

    @property
    def think_tags(self) -> tuple[str, str] | None:
        """The tags around reasoning in the text of an answer; None: the usual ones."""
        start, end = self.settings.think_tag_start, self.settings.think_tag_end
        return (start or THINK_TAGS[0], end or THINK_TAGS[1]) if start or end else None

    @property
    def problems(self) -> Iterator[Problem]:
        """The problems of its key and URL, an unknown API, and an ACP agent without a command."""
        if self.location is not None and self.api not in APIS:
            key, message = "command", "expected the command of an ACP agent, got none"
            if self.api != ACP:
                near = nearest(self.api, APIS) or f"; expected one of {', '.join(APIS)}"
                key, message = "api", f"there is no API {self.api!r}{near}"
            key = f"providers.{self.name}.{key}"
            yield Problem(source="configuration", key=key, message=message)
        for source in (self.credential, self.location):
            if source is not None and source.problem is not None:
                yield source.problem

    @property
    def own_secrets(self) -> Iterator[Secret]:
        """The secrets in configured headers, and in the base."""
        yield from secrets_in_address(self.url or "")
        for headers in self._headers:
            yield from secrets_in(headers)

    @property
    def _headers(self) -> Sequence[Mapping[str, str]]:
        return [self.settings.extra_headers, *(each.extra_headers for each in self.models.values())]

    @property
    def endpoint(self) -> Endpoint | None:
        """The endpoint that can list its models, if it is there or probed.

        A provider without a key has one if it needs none, or is on this machine or network.
        """
        at_url = self.known_server
        is_wanted = self.is_there or (self.known is not None and self.known.probed)
        lists = self.settings.fetch_models and (at_url is None or at_url.lists)
        if not (is_wanted and lists and self.url) or self.missing_setting is not None:
            return None
        needs_no_key = is_local(self.url) or (at_url is not None and at_url.key_variable is None)
        return Endpoint(self.name, self.url) if self.key is not None or needs_no_key else None

    @property
    def missing_setting(self) -> str | None:
        """A message for the user about a missing setting; None: the provider is usable."""
        name, url = self.name, self.configured_url
        if self.location is None:
            return None
        if self.api not in APIS:
            expected = " or ".join(map(repr, (*APIS, ACP)))
            unknown = f"api: expected {expected}, got {self.api!r}"
            return f"providers.{name}.{'command is not set' if self.api == ACP else unknown}"
        if self.url is None:
            return f"providers.{name}.url is not set"
        if url is not None and (fault := url_problem(url)):
            return f"the url of {name}: {fault}"
        variable = self.known and is_own_endpoint(name, url) and self.known.key_variable
        if variable and self.key is None and not self._has_key_header():
            return f"no key for {name}: set {variable} or providers.{name}.key, or `/login {name}`"
        return None

    def _has_key_header(self) -> bool:
        """Return whether the user sends a key in a configured header."""
        keys = {api.key_header for api in APIS.values()} | {"api-key"}
        return any(name.lower() in keys for headers in self._headers for name in headers)

    @property
    def without_key(self) -> str:
        """The message for a user whose request without a key was refused; empty: a key is sent."""
        if self.key is not None or any(self._headers):
            return ""
        return f"no key was sent (set providers.{self.name}.key, or send `/login {self.name}`)"

    def model(self, name: str) -> configuration.Model:
        """Return the settings of a model; the default ones if it is not configured."""
        return self.models.get(name) or configuration.Model()

    def wire_name(self, name: str) -> str:
        """Return the endpoint's name of a model."""
        return self.model(name).model_name or name

    def api_of(self, model: str) -> str:
        """Return the API of a model."""
        listed = self.listed.get(self.wire_name(model))
        own = None if listed is None or self.settings.api is not None else listed.api
        return own if own is not None and own in APIS else self.api

    def offered(self) -> Iterable[str]:
        """Return the models to offer: the default one, then configured and listed ones."""
        default = self.known.default_model if self.known and not self.models else None
        is_there = default in self.listed or not self.listed
        offered = [default] if default is not None and is_there else []
        for model, chosen in self.models.items():
            variants = (f"{model}:{name}" for name, payload in chosen.variants.items() if payload)
            offered += [model, *variants]
        return dict.fromkeys([*offered, *self.listed])

    def may_have(self, requested: str) -> bool:
        """Return whether there may be such a model; False only if all models are known."""
        model, _ = self.split_variant(requested)
        return not self.models or model in self.models or model in self.listed

    def split_variant(self, requested: str) -> tuple[str, Mapping[str, Any]]:
        """Split a model's name from its variant, and return the variant's payload.

        A model's own name may contain a colon, too.
        """
        model, _, variant = requested.rpartition(":")
        if requested not in self.models and model in self.models:
            payload = self.models[model].variants.get(variant)
            if payload:
                return model, payload
        return requested, {}


def resolve_providers(
    config: Config,
    environ: Mapping[str, str],
    stored: StoredKeys,
    tokens: Mapping[str, Tokens],
    listing: Callable[[Endpoint], Listing | None],
) -> Iterator[Provider]:
    """Yield the configured and the known providers, the ACP agents as one, and the simulator."""
    netrc = Path(config.netrc_file) if config.netrc_file else netrc_file(environ)
    for name in dict.fromkeys((*config.providers, *KNOWN_PROVIDERS)):
        settings = config.providers.get(name, configuration.Provider())
        if settings.api == ACP and settings.command:
            continue
        known = KNOWN_PROVIDERS.get(name, _UNKNOWN)
        with_variable = attrs.evolve(settings, key_env=settings.key_env or known.key_variable)
        credential = find_key(
            name, with_variable, environ, stored=stored.keys.get(name), netrc=netrc
        )
        location = find_url(name, settings, environ)
        if location.url is None and name in KNOWN_PROVIDERS:
            location = _known_location(known, environ)
        is_there = name in config.providers or credential.source is not None
        is_listed = settings.fetch_models and (is_there or known.probed)
        listed = listing(Endpoint(name, location.url or "")) if is_listed else None
        yield Provider(
            name=name,
            api=_SPELLINGS.get(settings.api or "", settings.api) or api_of(name, location.url),
            settings=settings,
            location=location,
            credential=credential,
            tokens=tokens.get(name) if credential.source == LOGIN else None,
            listed={} if listed is None else {each.name: each for each in listed.models},
            is_there=is_there or listed is not None,
        )
    if agents := acp_agents(config, environ):
        yield Provider(name=ACP, api=ACP, settings=configuration.Provider(models=agents))
    models = dict.fromkeys(simulator.MODELS, configuration.Model())
    yield Provider(
        name=simulator.PROVIDER, api="built-in", settings=configuration.Provider(models=models)
    )


def _known_location(known: KnownProvider, environ: Mapping[str, str]) -> Location:
    host = environ.get(known.host_variable or "", "")
    if host.strip():
        from eca_server.models.ollama.address import address_of  # noqa: PLC0415 - seldom needed

        if url := address_of(host):
            return Location(url=url, source=known.host_variable)
    return Location(url=known.url)
