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
from eca_server.config.problems import Problem
from eca_server.config.settings import Config, agent_key, provider_name
from eca_server.models import simulator
from eca_server.models.access import Access
from eca_server.models.acp import ACP, ACPBackend
from eca_server.models.answer import Answer
from eca_server.models.apis import APIS
from eca_server.models.backend import Backend, BackendError, Request
from eca_server.models.backends import Backends
from eca_server.models.catalog import Catalog
from eca_server.models.credentials.logins import Logins, StoredKeys
from eca_server.models.credentials.tokens import Tokens
from eca_server.models.efforts import efforts_of
from eca_server.models.errors import user_message
from eca_server.models.events import Event
from eca_server.models.facts import Capabilities, ModelFacts
from eca_server.models.history import Origin
from eca_server.models.http_backend import HTTPBackend
from eca_server.models.listings import Endpoint, Listing
from eca_server.models.provider import Provider, is_local, resolve_providers
from eca_server.models.reasoning import ReasoningHistory, select_reasoning
from eca_server.models.retry import RetryPolicy, Wait, stream_with_retries
from eca_server.models.simulator import Simulator
from eca_server.models.tracing import traced
from eca_server.secret import Secret

_EFFORTS = ("low", "medium", "high")
"""The efforts of a model that reasons, if nothing else is known: every API accepts these."""

_NEAR = 0.8
"""The similarity of a suggested model, from 0 to 1."""


def with_provider(name: str, other: str) -> str:
    """Return `provider/model`; a name without a provider is a model of the other's provider."""
    return name if "/" in name else f"{other.partition('/')[0]}/{name}"


def _nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known model that is probably meant: of this name without a provider, or close."""
    from difflib import get_close_matches  # noqa: PLC0415 - only after an error

    names = {each.casefold(): each for each in known}
    folded = name.casefold()
    same = (each for key, each in names.items() if key.partition("/")[2] == folded)
    near = get_close_matches(folded, names, n=1, cutoff=_NEAR)
    return next(same, names[near[0]] if near else None)


@attrs.define(eq=False)
class Model:
    """A usable model: its backend, with retries.

    Attributes:
        backend: the backend, without retries.
        effort: the reasoning effort of answers to the user; None: unspecified.
        key_source: where the provider's key was found; None: it has none.
    """

    backend: Backend
    _policy: RetryPolicy
    facts: ModelFacts = attrs.field(factory=ModelFacts)
    _thoughts: ReasoningHistory = "all"
    effort: str | None = None
    key_source: str | None = None

    @property
    def origin(self) -> Origin:
        """The model, as its messages name it."""
        return self.backend.origin

    @property
    def capabilities(self) -> Capabilities:
        """The model's capabilities."""
        return self.backend.capabilities

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
        stream = stream_with_retries(self.backend, request, policy=self._policy, on_wait=on_wait)
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
        """Return the message for the user about an error: the model, the error, the next step."""
        return user_message(
            error,
            provider=self.origin.provider,
            model=self.origin.model,
            key_source=self.key_source,
        )


class Models:
    """Every model of a connection.

    Attributes:
        names: the offered models, as `provider/model`; the built-in ones are always included, and
            come last.
        selected: the model for a prompt that names none, if its behaviour has no default.
        providers: the providers that are configured, have a key, or have listed models.
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
        modes: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._config = config
        self._modes = {} if modes is None else modes
        self._stored = stored = stored or StoredKeys()
        self._passphrase = config.network.passphrase(environ)
        self._catalog = catalog or Catalog()
        self._tokens = tokens = {
            name: Tokens(name, each, logins=logins, http=http, hide=hide)
            for name, each in stored.tokens.items()
            if logins is not None
        }
        every = resolve_providers(config, environ, stored, tokens, listing)
        self._by_name = {each.name: each for each in every}
        self.providers = tuple(each for each in self._by_name.values() if each.is_there)
        self._makers = Backends(
            http=http,
            config=config,
            accesses={} if accesses is None else accesses,
            hide=hide,
        )
        self._backends: dict[str, Backend] = {}
        self._retry_policies: dict[str, RetryPolicy] = {}
        self._known_facts: dict[tuple[str, str], ModelFacts] = {}
        self.names = tuple(
            f"{each.name}/{model}"
            for each in self.providers
            if each.missing_setting is None
            for model in each.offered()
        )
        self.problems = tuple(problem for each in self.providers for problem in each.problems)
        if stored.problem is not None:
            self.problems = (*self.problems, stored.problem)
        first = self.names[0]
        self.selected = self._offer_default(config.default_model, "defaultModel") or first
        self._behavior_defaults = {
            behavior: self._offer_default(
                self._of_selected_provider(own.default_model),
                agent_key(behavior, "defaultModel"),
            )
            for behavior, own in config.behaviors.items()
        }

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Every secret to hide from the log: of providers, and the client certificate's."""
        keys = (each.key for each in self.providers)
        refreshing = (each.refresh for each in self._stored.tokens.values())
        known = (key for key in (*keys, *refreshing, self._passphrase) if key is not None)
        return (*known, *(secret for each in self.providers for secret in each.own_secrets))

    @property
    def reasons_without_a_model(self) -> list[str]:
        """The reason of each provider over a network why it has no usable model."""
        return [
            each.missing_setting or f"`{each.name}` has listed no models"
            for each in self.providers
            if each.location is not None
        ]

    def tokens_of(self, provider: str) -> Tokens | None:
        """Return the tokens of a provider's stored login, if it has tokens."""
        return self._tokens.get(provider)

    def canonical_name(self, name: str) -> str:
        """Return `name` with its provider spelled as it is configured."""
        provider, slash, model = name.partition("/")
        known = [each.name for each in self.providers]
        if provider in known:
            return name
        spelled = (each for each in known if provider_name(each) == provider_name(provider))
        return f"{next(spelled, provider)}{slash}{model}"

    def facts_and_capabilities(self, name: str) -> tuple[ModelFacts, Capabilities]:
        """Return the facts and capabilities of `provider/model`, even if it cannot be used."""
        provider, model = self._split(name)
        return self._facts(provider, model), self._capabilities(provider, model)

    def default_for(self, behavior: str) -> str:
        """Return the model for a prompt of a behaviour that names no model."""
        return self._behavior_defaults.get(behavior) or self.selected

    def _of_selected_provider(self, name: str | None) -> str | None:
        """Return an agent's default model; None if only other providers have one of its name."""
        if name is None or "/" in name:
            return name
        offered = {each.partition("/")[2] for each in self.names}
        full = with_provider(name, self.selected)
        return None if full not in self.names and name in offered else full

    def _offer_default(self, name: str | None, key: str) -> str | None:
        """Offer a configured default model and return it; note a problem if it is unusable."""
        if name is None:
            return None
        name = self.canonical_name(name)
        try:
            self.find(name)
        except BackendError as error:
            message = f"{name}: {error.message}"
            problem = Problem(source="configuration", key=key, message=message)
            self.problems = (*self.problems, problem)
            return None
        if name not in self.names:
            self.names = (name, *self.names)
        return name

    def variants(self, name: str) -> tuple[str, ...]:
        """Return the variants of a model: its reasoning efforts, and those that are configured.

        A variant that is configured as empty is removed. Those of an ACP agent are its modes, once
        they are known.
        """
        provider, model = self._split(name)
        if provider.api == ACP:
            return self._modes.get(model, ())
        configured = provider.model(model).variants
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
        if name.startswith(f"{ACP}/"):
            effort = variant  # the agent's modes may be unknown yet
        elif variant is not None and variant in self.variants(name):
            provider, model = self._split(name)
            if variant in provider.model(model).variants:
                name = f"{name}:{variant}"
            else:
                effort = variant
        backend = self.backend(name)
        origin = backend.origin
        provider, api = self._provider(origin.provider), APIS.get(origin.api)
        configured = provider.model(origin.model)
        return Model(
            backend,
            self._retry_policy(origin.provider),
            self._facts(provider, origin.model),
            configured.reasoning_history if api and api.reasoning_optional else "all",
            effort,
            None if provider.credential is None else provider.credential.source,
        )

    def _retry_policy(self, provider: str) -> RetryPolicy:
        if provider not in self._retry_policies:
            self._retry_policies[provider] = RetryPolicy.of(self._config, provider)
        return self._retry_policies[provider]

    def backend(self, name: str) -> Backend:
        """Return the backend of the model `provider/model`, always the same one.

        Raises:
            BackendError: `model_not_found`, or `configuration` if a setting is missing.
        """
        if name not in self._backends:
            self._backends[name] = self._make(name)
        return self._backends[name]

    def _make(self, name: str) -> Backend:
        own, _, requested = name.partition("/")
        provider = self._by_name.get(own)
        if provider is None or not requested or not provider.may_have(requested):
            few = ", ".join(self.names[:8]) + (", ..." if len(self.names) > 8 else "")
            near = _nearest(name, self.names)
            listed = f"did you mean {near}? Available models" if near else "available models"
            raise BackendError(
                "model_not_found", f"there is no model of this name; {listed}: {few}"
            )
        if provider.name == simulator.PROVIDER:
            return Simulator(requested)
        if provider.name == ACP == provider.api:
            origin = Origin(api=ACP, provider=ACP, model=requested)
            return ACPBackend(command=self._config.providers[requested].command, origin=origin)
        if provider.missing_setting is not None:
            raise BackendError("configuration", provider.missing_setting)
        model, _ = provider.split_variant(requested)
        return self._makers.make(provider, requested, self._capabilities(provider, model))

    @property
    def endpoints(self) -> Mapping[Endpoint, Callable[[], HTTPBackend]]:
        """The endpoints that can list models, each with a maker of its backend."""
        return {
            endpoint: partial(self._makers.make, each, "", Capabilities())
            for each in self._by_name.values()
            if (endpoint := each.endpoint) is not None
        }

    @property
    def has_paid_models(self) -> bool:
        """True if a provider with a key is not on this machine or its network."""
        return any(
            each.key is not None and each.url is not None and not is_local(each.url)
            for each in self.providers
        )

    def _split(self, name: str) -> tuple[Provider, str]:
        provider, _, model = self.canonical_name(name).partition("/")
        return self._provider(provider), model

    def _provider(self, name: str) -> Provider:
        return self._by_name.get(name) or Provider(name=name, api="")

    def _facts(self, provider: Provider, model: str) -> ModelFacts:
        """Return the facts of a model: the user's, then the provider's, then the catalogue's."""
        key = provider.name, model
        if key not in self._known_facts:
            self._known_facts[key] = self._find_facts(provider, model)
        return self._known_facts[key]

    def _find_facts(self, provider: Provider, model: str) -> ModelFacts:
        wire_name = provider.wire_name(model)
        facts = ModelFacts.from_settings(provider.model(model))
        if wire_name in provider.listed:
            facts = facts.with_defaults(provider.listed[wire_name].facts)
        return facts.with_defaults(self._catalog.facts(provider.server, wire_name))

    def _capabilities(self, provider: Provider, model: str) -> Capabilities:
        facts = self._facts(provider, model)
        known = facts.capabilities()
        if known.efforts is None and facts.reasoning is not False:
            efforts = efforts_of(
                provider.wire_name(model),
                provider.api_of(model),
                is_openrouter=provider.server == "openrouter",
            )
            if efforts is not None:
                return attrs.evolve(known, reasoning=True, efforts=efforts)
        return known
