"""The models a connection can talk to: from the configuration and the keys, by `provider/model`.

Nothing is asked over the network for this. What cannot be used is not offered; asked for all the
same, it ends in a `BackendError` that says what to set.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager

import attrs

from eca_protocol.http import HTTPClient
from eca_server import config as configuration
from eca_server.config import Config, Problem
from eca_server.credentials import Credential, Location, StoredKeys, find_key, find_url
from eca_server.llm import simulator
from eca_server.llm.answer import Answer
from eca_server.llm.apis import DEFAULT_API
from eca_server.llm.backend import Backend, BackendError, Capabilities, Request
from eca_server.llm.catalog import Catalog, ModelFacts, Price
from eca_server.llm.errors import readable
from eca_server.llm.events import Event
from eca_server.llm.history import Origin
from eca_server.llm.known_providers import KNOWN_PROVIDERS, server_of
from eca_server.llm.providers import (
    ModelSettings,
    ProviderSettings,
    Registry,
    Timers,
)
from eca_server.llm.retry import RetryPolicy, Wait, stream_with_retries
from eca_server.secret import Secret

__all__ = ["Model", "Models", "ProviderFacts"]


@attrs.frozen(kw_only=True)
class ProviderFacts:
    """What there is to say of one provider.

    Attributes:
        name: as in `provider/model`.
        api: the wire API it speaks.
        location: its URL; None for a model inside this process.
        credential: its key; None where none is needed.
        models: the names of its models.
    """

    name: str
    api: str
    location: Location | None
    credential: Credential | None
    models: Sequence[str]


class Model:
    """A model that can be asked: its backend, with retries above it.

    Attributes:
        facts: its limits and price, as configured or else known beforehand.
    """

    def __init__(
        self, backend: Backend, policy: RetryPolicy, facts: ModelFacts | None = None
    ) -> None:
        self._backend = backend
        self._policy = policy
        self.facts = facts or ModelFacts()

    @property
    def origin(self) -> Origin:
        """Whose messages it makes."""
        return self._backend.origin

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        told = self._backend.capabilities
        return attrs.evolve(
            told,
            context=told.context or self.facts.context,
            output=told.output or self.facts.output,
        )

    @asynccontextmanager
    async def stream(
        self, request: Request, *, on_wait: Callable[[Wait], None] = lambda _wait: None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """The answer to `request`; `on_wait` is told of each wait before another try.

        Raises:
            BackendError: there is no (whole) answer.
        """
        async with stream_with_retries(
            self._backend, request, policy=self._policy, on_wait=on_wait
        ) as events:
            yield events

    async def text(self, request: Request) -> str:
        """The whole visible text of the answer.

        Raises:
            BackendError: there is no (whole) answer.
        """
        answer = Answer()
        async with self.stream(request) as events:
            async for event in events:
                answer.feed(event)
        return answer.text

    def explain(self, error: BackendError) -> str:
        """What the user is told of an error: who failed, how, and what to do."""
        return readable(error, provider=self.origin.provider, model=self.origin.model)


class Models:
    """Every model of a connection.

    Attributes:
        names: those that are offered, as `provider/model`; the embedded ones are always there.
        selected: the one for a prompt that names none, if its behaviour has none of its own.
        providers: what is known of each provider, for `doctor`.
        problems: what is wrong with keys and with the configured defaults.
    """

    def __init__(
        self,
        config: Config,
        *,
        environ: Mapping[str, str],
        http: HTTPClient,
        stored: StoredKeys | None = None,
    ) -> None:
        stored = stored or StoredKeys()
        self._policy = _policy(config)
        self._catalog = Catalog()
        self._configured = {name: each.models for name, each in config.providers.items()}
        self.providers = tuple(_facts(config, environ, stored.keys))
        self._registry = Registry(
            http=http,
            providers={
                facts.name: _settings(facts, config.providers.get(facts.name))
                for facts in self.providers
                if facts.location is not None
            },
            timers=_timers(config),
        )
        self.names = self._registry.names()
        self.problems = tuple(
            facts.credential.problem
            for facts in self.providers
            if facts.credential is not None and facts.credential.problem is not None
        )
        if stored.problem is not None:
            self.problems = (*self.problems, stored.problem)
        first = self.names[0]
        self.selected = self._usable(config.default_model, "defaultModel") or first
        self._own = {
            behavior: self._usable(own.default_model, f"behavior.{behavior}.defaultModel")
            for behavior, own in config.behaviors.items()
        }

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Every key in use, to be hidden from the log."""
        found = (facts.credential for facts in self.providers)
        return tuple(each.key for each in found if each is not None and each.key is not None)

    def selected_in(self, behavior: str) -> str:
        """The model for a prompt of that behaviour that names none."""
        return self._own.get(behavior) or self.selected

    def _usable(self, name: str | None, key: str) -> str | None:
        """A configured default if it can be asked: then it is offered; else that is a problem."""
        if name is None:
            return None
        try:
            self.find(name)
        except BackendError as error:
            problem = Problem(source="configuration", key=key, message=error.message)
            self.problems = (*self.problems, problem)
            return None
        if name not in self.names:
            self.names = (name, *self.names)
        return name

    def find(self, name: str) -> Model:
        """The model of that name.

        Raises:
            BackendError: there is none, or something is missing for it.
        """
        backend = self._registry.backend(name)
        provider, model = backend.origin.provider, backend.origin.model
        configured = self._configured.get(provider, {}).get(model, configuration.Model())
        known = self._catalog.facts(provider, configured.model_name or model)
        return Model(backend, self._policy, _with_configured(known, configured))


def _facts(
    config: Config, environ: Mapping[str, str], stored: Mapping[str, Secret]
) -> Iterator[ProviderFacts]:
    """The configured providers, then the known ones that have a key, then the embedded one."""
    for name in dict.fromkeys((*config.providers, *KNOWN_PROVIDERS)):
        provider = config.providers.get(name, configuration.Provider())
        known = KNOWN_PROVIDERS.get(name)
        if known is not None and provider.key_env is None and known.key_variable is not None:
            provider = attrs.evolve(provider, key_env=known.key_variable)
        credential = find_key(name, provider, environ, stored=stored.get(name))
        if name not in config.providers and credential.source is None:
            continue
        location = find_url(name, provider, environ)
        if location.url is None and known is not None:
            location = Location(provider=name, url=known.url)
        ways = KNOWN_PROVIDERS.get(server_of(name, location.url))
        yield ProviderFacts(
            name=name,
            api=provider.api or (ways.api if ways else DEFAULT_API),
            location=location,
            credential=credential,
            models=tuple(provider.models),
        )
    yield ProviderFacts(
        name=simulator.PROVIDER,
        api="embedded",
        location=None,
        credential=None,
        models=simulator.MODELS,
    )


def _settings(facts: ProviderFacts, provider: configuration.Provider | None) -> ProviderSettings:
    provider = provider or configuration.Provider()
    location, credential = facts.location, facts.credential
    return ProviderSettings(
        api=facts.api,
        url=None if location is None or location.source is None else location.url,
        key=None if credential is None else credential.key,
        path=provider.completion_url_relative_path,
        extra_headers=provider.extra_headers,
        models={
            name: ModelSettings(
                wire_name=model.model_name,
                extra_payload=model.extra_payload,
                extra_headers=model.extra_headers,
                capabilities=Capabilities(context=model.limit.context, output=model.limit.output),
            )
            for name, model in provider.models.items()
        },
    )


def _with_configured(known: ModelFacts, model: configuration.Model) -> ModelFacts:
    limit, cost = model.limit, model.cost
    price = known.price
    if cost.input is not None and cost.output is not None:
        price = Price(
            input=cost.input,
            output=cost.output,
            cache_read=cost.cache_read,
            cache_write=cost.cache_write,
        )
    return ModelFacts(
        context=known.context if limit.context is None else limit.context,
        output=known.output if limit.output is None else limit.output,
        price=price,
    )


def _timers(config: Config) -> Timers:
    given = {
        "connect": config.connect_timeout,
        "first_byte": config.first_byte_timeout,
        "idle": config.stream_idle_timeout,
        "no_progress": config.no_progress_timeout,
    }
    return attrs.evolve(Timers(), **{k: v for k, v in given.items() if v is not None})


def _policy(config: Config) -> RetryPolicy:
    retry, policy = config.retry, RetryPolicy()
    given = {
        "base": _seconds(retry.base_delay_ms),
        "factor": retry.backoff_multiplier,
        "longest": _seconds(retry.max_delay_ms),
        "longest_demanded": config.rate_limit_max_wait,
    }
    return RetryPolicy(
        attempts=policy.attempts if retry.max_retries is None else retry.max_retries + 1,
        **{name: value for name, value in given.items() if value is not None},
    )


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
