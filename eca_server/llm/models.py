"""The models a connection can talk to, by `provider/model`: from configuration, keys and lists.

Nothing is asked over the network for this: what endpoints list is given. What cannot be used is
not offered; asked for all the same, it ends in a `BackendError` that says what to set.
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
from eca_server.llm.errors import readable
from eca_server.llm.events import Event
from eca_server.llm.facts import ModelFacts
from eca_server.llm.history import Origin
from eca_server.llm.known_providers import server_of
from eca_server.llm.listings import Endpoint, Listing
from eca_server.llm.providers import Registry, is_local
from eca_server.llm.retry import RetryPolicy, Wait, stream_with_retries
from eca_server.llm.thoughts import Thoughts, with_thoughts
from eca_server.llm.told import told
from eca_server.secret import Secret, secrets_in

__all__ = ["Model", "Models"]

_EFFORTS = ("low", "medium", "high")
"""Of a model that thinks and of which no more is known: every API takes these."""


class Model:
    """A model that can be asked: its backend, with retries above it.

    Attributes:
        facts: what is known of it.
        effort: how much it is to think when it answers the user; None: nothing is said of that.
    """

    def __init__(
        self,
        backend: Backend,
        policy: RetryPolicy,
        facts: ModelFacts | None = None,
        thoughts: Thoughts = "all",
        effort: str | None = None,
    ) -> None:
        self._backend = backend
        self._policy = policy
        self._thoughts = thoughts
        self.facts = facts or ModelFacts()
        self.effort = effort

    @property
    def backend(self) -> Backend:
        """What is asked, without retries."""
        return self._backend

    @property
    def origin(self) -> Origin:
        """Whose messages it makes."""
        return self._backend.origin

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        return self._backend.capabilities

    @asynccontextmanager
    async def stream(
        self, request: Request, *, on_wait: Callable[[Wait], None] = lambda _wait: None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """The answer to `request`; `on_wait` is told of each wait before another try.

        Raises:
            BackendError: there is no (whole) answer.
        """
        request = attrs.evolve(
            request,
            messages=with_thoughts(request.messages, self._thoughts),
            tools=request.tools if self.capabilities.tools else (),
        )
        stream = stream_with_retries(self._backend, request, policy=self._policy, on_wait=on_wait)
        async with told(self.origin, request, stream) as events:
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
        problems: what is wrong with keys, URLs and the configured defaults.
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
            found.problem
            for facts in self.providers
            for found in (facts.credential, facts.location)
            if found is not None and found.problem is not None
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
        """Every key in use, and what opens the client certificate's, to be hidden from the log."""
        found = (facts.credential for facts in self.providers)
        keys = (each.key for each in found if each is not None)
        refreshing = (each.refresh for each in self._stored.tokens.values())
        every = (*keys, *refreshing, self._passphrase)
        known = tuple(key for key in every if key is not None)
        return (*known, *self._in_headers)

    def tokens_of(self, provider: str) -> TokenSet | None:
        """The tokens of a provider's stored login, if they are what it is."""
        return self._stored.tokens.get(provider)

    def named(self, name: str) -> str:
        """Return `name` with its provider spelled as it is configured."""
        provider, slash, model = name.partition("/")
        known = [facts.name for facts in self.providers]
        if provider in known:
            return name
        spelled = (each for each in known if provider_name(each) == provider_name(provider))
        return f"{next(spelled, provider)}{slash}{model}"

    def about(self, name: str) -> tuple[ModelFacts, Capabilities]:
        """What is known of the model `provider/model`, whether or not it can be asked."""
        provider, _, model = self.named(name).partition("/")
        return self._facts(provider, model), self._capabilities(provider, model)

    def selected_in(self, behavior: str) -> str:
        """The model for a prompt of that behaviour that names none."""
        return self._own.get(behavior) or self.selected

    def _usable(self, name: str | None, key: str) -> str | None:
        """A configured default if it can be asked: then it is offered; else that is a problem."""
        if name is None:
            return None
        name = self.named(name)
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
        """The variants of a model: how much it can be asked to think, and those configured.

        One that is configured as empty is none.
        """
        provider, _, model = self.named(name).partition("/")
        configured = self._configured_model(provider, model).variants
        known = self._capabilities(provider, model)
        efforts = _EFFORTS if known.efforts is None else known.efforts
        names = dict.fromkeys((*(efforts if known.reasoning else ()), *configured))
        return tuple(each for each in names if each not in configured or configured[each])

    def find(self, name: str, variant: str | None = None) -> Model:
        """The model of that name; a variant that it has not is as if none was asked for.

        Raises:
            BackendError: there is none, or something is missing for it.
        """
        name, effort = self.named(name), None
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
            configured.reasoning_history if api and api.thoughts_optional else "all",
            effort,
        )

    @property
    def endpoints(self) -> Mapping[Endpoint, Callable[[], Backend]]:
        """Who can be asked for a list of models, and by what."""
        return self._registry.endpoints()

    @property
    def cost_money(self) -> bool:
        """Whether one of them is anywhere but on this machine or its network."""
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
        """What is known of a model: by the user, else its provider, else the catalogue."""
        configured = self._configured_model(provider, model)
        wire_name = configured.model_name or model
        known = self._catalog.facts(self._servers.get(provider, provider), wire_name)
        told = ModelFacts.told_by(self._told(provider, wire_name))
        return configured_facts(configured).over(told).over(known)

    def _capabilities(self, provider: str, model: str) -> Capabilities:
        wire_name = self._configured_model(provider, model).model_name or model
        facts = self._facts(provider, model)
        known = facts.capabilities(self._told(provider, wire_name))
        if known.efforts is None and facts.reasoning is not False:
            api = self._listed_apis.get((provider, wire_name)) or self._apis.get(provider, "")
            router = self._servers.get(provider) == "openrouter"
            efforts = efforts_of(wire_name, api, is_openrouter=router)
            if efforts is not None:
                return attrs.evolve(known, reasoning=True, efforts=efforts)
        return known

    def _told(self, provider: str, wire_name: str) -> Capabilities:
        """What the provider said of a model when it listed it."""
        return self._listed.get((provider, wire_name), Capabilities())
