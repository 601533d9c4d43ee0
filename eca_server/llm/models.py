"""The models of a connection, by `provider/model`: from configuration, keys and lists.

Nothing here uses the network: lists of endpoints are passed in. A model that cannot be used is not
offered; a request for it raises a `BackendError` that says which setting is missing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from functools import partial

import attrs

from eca_protocol.http import HTTPClient
from eca_server import config as configuration
from eca_server.config import Config, Problem
from eca_server.config.workspace_layer import provider_name
from eca_server.credentials import Logins, StoredKeys, Tokens, TokenSet
from eca_server.llm.access import Access
from eca_server.llm.answer import Answer
from eca_server.llm.apis import APIS
from eca_server.llm.backend import Backend, BackendError, Capabilities, Request
from eca_server.llm.catalog import Catalog
from eca_server.llm.configured import (
    configured_facts,
    policy_of,
    provider_facts,
    settings_of,
    timers_of,
)
from eca_server.llm.efforts import efforts_of
from eca_server.llm.errors import user_message
from eca_server.llm.events import Event
from eca_server.llm.facts import ModelFacts
from eca_server.llm.history import Origin
from eca_server.llm.known_providers import server_of
from eca_server.llm.listings import Endpoint, Listing
from eca_server.llm.providers import Registry, is_local
from eca_server.llm.reasoning import ReasoningHistory, select_reasoning
from eca_server.llm.retry import RetryPolicy, Wait, stream_with_retries
from eca_server.llm.tracing import traced
from eca_server.secret import Secret, secrets_in

__all__ = ["Model", "Models"]

_EFFORTS = ("low", "medium", "high")
"""The efforts of a model that reasons, if nothing else is known: every API accepts these."""


class Model:
    """A usable model: its backend, with retries.

    Attributes:
        facts: the known facts.
        effort: the reasoning effort of answers to the user; None: unspecified.
    """

    def __init__(
        self,
        backend: Backend,
        policy: RetryPolicy,
        facts: ModelFacts | None = None,
        thoughts: ReasoningHistory = "all",
        effort: str | None = None,
    ) -> None:
        self._backend = backend
        self._policy = policy
        self._thoughts = thoughts
        self.facts = facts or ModelFacts()
        self.effort = effort

    @property
    def backend(self) -> Backend:
        """The backend, without retries."""
        return self._backend

    @property
    def origin(self) -> Origin:
        """The model, as its messages name it."""
        return self._backend.origin

    @property
    def capabilities(self) -> Capabilities:
        """The model's capabilities."""
        return self._backend.capabilities

    @asynccontextmanager
    async def stream(
        self, request: Request, *, on_wait: Callable[[Wait], None] = lambda _wait: None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Stream the answer to `request`; `on_wait` is called before and during each wait to retry.

        Raises:
            BackendError: the answer failed or is incomplete.
        """
        request = attrs.evolve(
            request,
            messages=select_reasoning(request.messages, self._thoughts),
            tools=request.tools if self.capabilities.tools else (),
        )
        stream = stream_with_retries(self._backend, request, policy=self._policy, on_wait=on_wait)
        async with traced(self.origin, request, stream) as events:
            yield events

    async def text(self, request: Request) -> str:
        """Return the whole visible text of the answer.

        Raises:
            BackendError: the answer failed or is incomplete.
        """
        answer = Answer()
        async with self.stream(request) as events:
            async for event in events:
                answer.feed(event)
        return answer.text

    def explain(self, error: BackendError) -> str:
        """Return the user's text for an error: the model, the error, and the next step."""
        return user_message(error, provider=self.origin.provider, model=self.origin.model)


class Models:
    """Every model of a connection.

    Attributes:
        names: the offered models, as `provider/model`; the embedded ones are always included.
        selected: the model for a prompt that names none, if its behaviour has no default.
        providers: the known facts of each provider, for `doctor`.
        problems: the problems of keys, URLs and configured defaults.
    """

    def __init__(
        self,
        config: Config,
        *,
        environ: Mapping[str, str],
        http: HTTPClient,
        stored: StoredKeys | None = None,
        catalog: Catalog | None = None,
        listing: Callable[[Endpoint], Listing | None] = lambda _: None,
        logins: Logins | None = None,
        accesses: MutableMapping[object, Access] | None = None,
        hide: Callable[[Iterable[Secret]], None] = lambda _: None,
    ) -> None:
        stored = stored or StoredKeys()
        self._stored = stored
        self._in_headers = tuple(
            secret
            for provider in config.providers.values()
            for headers in (
                provider.extra_headers,
                *(model.extra_headers for model in provider.models.values()),
            )
            for secret in secrets_in(headers)
        )
        self._passphrase = config.network.passphrase(environ)
        self._policy = partial(policy_of, config)
        self._catalog = catalog or Catalog()
        self._configured = {name: each.models for name, each in config.providers.items()}
        facts_of_all = tuple(provider_facts(config, environ, stored.keys, listing))
        self.providers = tuple(facts for facts in facts_of_all if facts.is_there)
        self._servers = {
            facts.name: server_of(facts.name, facts.location.url)
            for facts in self.providers
            if facts.location is not None
        }
        self._listed = {
            (facts.name, model.name): model.capabilities
            for facts in self.providers
            for model in facts.listed
        }
        self._apis = {facts.name: facts.api for facts in self.providers}
        self._listed_apis = {
            (facts.name, model.name): model.api
            for facts in self.providers
            for model in facts.listed
            if model.api is not None
        }
        tokens = {
            name: Tokens(name, each, logins=logins, http=http, hide=hide)
            for name, each in stored.tokens.items()
            if logins is not None
        }
        self._registry = Registry(
            http=http,
            providers={
                facts.name: settings_of(
                    facts, config.providers.get(facts.name), tokens.get(facts.name)
                )
                for facts in facts_of_all
                if facts.location is not None
            },
            timers=timers_of(config),
            capabilities=self._capabilities,
            accesses=accesses,
            hide=hide,
        )
        self.names = self._registry.names()
        self.problems = tuple(
            each_source.problem
            for facts in self.providers
            for each_source in (facts.credential, facts.location)
            if each_source is not None and each_source.problem is not None
        )
        if stored.problem is not None:
            self.problems = (*self.problems, stored.problem)
        first = self.names[0]
        self.selected = self._offer_default(config.default_model, "defaultModel") or first
        self._behavior_defaults = {
            behavior: self._offer_default(own.default_model, f"behavior.{behavior}.defaultModel")
            for behavior, own in config.behaviors.items()
        }

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Every secret to hide from the log: keys, and the client certificate's passphrase."""
        credentials = (facts.credential for facts in self.providers)
        keys = (each.key for each in credentials if each is not None)
        refreshing = (each.refresh for each in self._stored.tokens.values())
        every = (*keys, *refreshing, self._passphrase)
        known = tuple(key for key in every if key is not None)
        return (*known, *self._in_headers)

    def tokens_of(self, provider: str) -> TokenSet | None:
        """Return the tokens of a provider's stored login, if it has tokens."""
        return self._stored.tokens.get(provider)

    def canonical_name(self, name: str) -> str:
        """Return `name` with its provider spelled as it is configured."""
        provider, slash, model = name.partition("/")
        known = [facts.name for facts in self.providers]
        if provider in known:
            return name
        spelled = (each for each in known if provider_name(each) == provider_name(provider))
        return f"{next(spelled, provider)}{slash}{model}"

    def facts_and_capabilities(self, name: str) -> tuple[ModelFacts, Capabilities]:
        """Return the facts and capabilities of `provider/model`, even if it cannot be used."""
        provider, _, model = self.canonical_name(name).partition("/")
        return self._facts(provider, model), self._capabilities(provider, model)

    def default_for(self, behavior: str) -> str:
        """Return the model for a prompt of a behaviour that names no model."""
        return self._behavior_defaults.get(behavior) or self.selected

    def _offer_default(self, name: str | None, key: str) -> str | None:
        """Offer a configured default model and return it; note a problem if it is unusable."""
        if name is None:
            return None
        name = self.canonical_name(name)
        try:
            self.find(name)
        except BackendError as error:
            problem = Problem(source="configuration", key=key, message=error.message)
            self.problems = (*self.problems, problem)
            return None
        if name not in self.names:
            self.names = (name, *self.names)
        return name

    def variants(self, name: str) -> tuple[str, ...]:
        """Return the variants of a model: its reasoning efforts, and those that are configured.

        A variant that is configured as empty is removed.
        """
        provider, _, model = self.canonical_name(name).partition("/")
        configured = self._configured_model(provider, model).variants
        known = self._capabilities(provider, model)
        efforts = _EFFORTS if known.efforts is None else known.efforts
        names = dict.fromkeys((*(efforts if known.reasoning else ()), *configured))
        return tuple(each for each in names if each not in configured or configured[each])

    def find(self, name: str, variant: str | None = None) -> Model:
        """Return the model of that name; an unknown variant is ignored.

        Raises:
            BackendError: there is no such model, or a setting is missing.
        """
        name, effort = self.canonical_name(name), None
        if variant in self.variants(name):
            provider, _, model = name.partition("/")
            if variant in self._configured_model(provider, model).variants:
                name = f"{name}:{variant}"
            else:
                effort = variant
        backend = self._registry.backend(name)
        origin = backend.origin
        configured = self._configured_model(origin.provider, origin.model)
        api = APIS.get(origin.api)
        return Model(
            backend,
            self._policy(origin.provider),
            self._facts(origin.provider, origin.model),
            configured.reasoning_history if api and api.reasoning_optional else "all",
            effort,
        )

    @property
    def endpoints(self) -> Mapping[Endpoint, Callable[[], Backend]]:
        """The endpoints that can list models, each with a maker of its backend."""
        return self._registry.endpoints()

    @property
    def has_paid_models(self) -> bool:
        """True if a provider with a key is not on this machine or its network."""
        return any(
            facts.credential is not None
            and facts.credential.key is not None
            and facts.location is not None
            and facts.location.url is not None
            and not is_local(facts.location.url)
            for facts in self.providers
        )

    def _configured_model(self, provider: str, model: str) -> configuration.Model:
        return self._configured.get(provider, {}).get(model, configuration.Model())

    def _facts(self, provider: str, model: str) -> ModelFacts:
        """Return the facts of a model: the user's, then the provider's, then the catalogue's."""
        configured = self._configured_model(provider, model)
        wire_name = configured.model_name or model
        known = self._catalog.facts(self._servers.get(provider, provider), wire_name)
        listed = ModelFacts.from_listing(self._listed_capabilities(provider, wire_name))
        return configured_facts(configured).with_defaults(listed).with_defaults(known)

    def _capabilities(self, provider: str, model: str) -> Capabilities:
        wire_name = self._configured_model(provider, model).model_name or model
        facts = self._facts(provider, model)
        known = facts.capabilities(self._listed_capabilities(provider, wire_name))
        if known.efforts is None and facts.reasoning is not False:
            api = self._listed_apis.get((provider, wire_name)) or self._apis.get(provider, "")
            router = self._servers.get(provider) == "openrouter"
            efforts = efforts_of(wire_name, api, is_openrouter=router)
            if efforts is not None:
                return attrs.evolve(known, reasoning=True, efforts=efforts)
        return known

    def _listed_capabilities(self, provider: str, wire_name: str) -> Capabilities:
        """Return the capabilities that the provider listed for a model."""
        return self._listed.get((provider, wire_name), Capabilities())
