"""Settings for the registry of models, from the configuration, the keys and the listings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from eca_server import config as configuration
from eca_server.config import Config
from eca_server.credentials import LOGIN, Credential, Location, Tokens, find_key, find_url
from eca_server.credentials.netrc import netrc_file
from eca_server.llm import simulator
from eca_server.llm.apis import APIS
from eca_server.llm.backend import ModelInfo
from eca_server.llm.facts import ModelFacts, Price
from eca_server.llm.known_providers import KNOWN_PROVIDERS, KnownProvider, api_of
from eca_server.llm.listings import Endpoint, Listing
from eca_server.llm.providers import ModelSettings, ProviderSettings, Timers
from eca_server.llm.retry import RetryPolicy
from eca_server.llm.think_tags import THINK_TAGS
from eca_server.secret import Secret

__all__ = [
    "ProviderFacts",
    "configured_facts",
    "policy_of",
    "provider_facts",
    "settings_of",
    "timers_of",
]


@attrs.frozen(kw_only=True)
class ProviderFacts:
    """The known facts of one provider.

    Attributes:
        name: as in `provider/model`.
        api: its wire API.
        location: its URL; None for a model inside this process.
        credential: its key; None if it needs none.
        models: the names of its configured models, or of those inside this process.
        listed: the models that its endpoint lists.
        is_there: it is configured, has a key or has listed models; otherwise it is only probed.
    """

    name: str
    api: str
    location: Location | None
    credential: Credential | None
    models: Sequence[str]
    listed: Sequence[ModelInfo] = ()
    is_there: bool = True


def provider_facts(
    config: Config,
    environ: Mapping[str, str],
    stored: Mapping[str, Secret],
    listing: Callable[[Endpoint], Listing | None],
) -> Iterator[ProviderFacts]:
    """Yield the configured providers, known ones with a key or a listing, and the simulator."""
    netrc = Path(config.netrc_file) if config.netrc_file else netrc_file(environ)
    for name in dict.fromkeys((*config.providers, *KNOWN_PROVIDERS)):
        provider = config.providers.get(name, configuration.Provider())
        known = KNOWN_PROVIDERS.get(name)
        if known is not None and provider.key_env is None and known.key_variable is not None:
            provider = attrs.evolve(provider, key_env=known.key_variable)
        credential = find_key(name, provider, environ, stored=stored.get(name), netrc=netrc)
        is_there = name in config.providers or credential.source is not None
        if not is_there and not (known and known.probed):
            continue
        location = find_url(name, provider, environ)
        if location.url is None and known is not None:
            location = _known_location(name, known, environ)
        listed = listing(Endpoint(name, location.url or "")) if provider.fetch_models else None
        yield ProviderFacts(
            name=name,
            api=provider.api or api_of(name, location.url),
            location=location,
            credential=credential,
            models=tuple(provider.models),
            listed=() if listed is None else listed.models,
            is_there=is_there or listed is not None,
        )
    yield ProviderFacts(
        name=simulator.PROVIDER,
        api="embedded",
        location=None,
        credential=None,
        models=simulator.MODELS,
    )


def _known_location(name: str, known: KnownProvider, environ: Mapping[str, str]) -> Location:
    host = environ.get(known.host_variable or "", "")
    if host.strip():
        from eca_server.llm.ollama import address_of  # noqa: PLC0415 - seldom needed

        if url := address_of(host):
            return Location(provider=name, url=url, source=known.host_variable)
    return Location(provider=name, url=known.url)


def settings_of(
    facts: ProviderFacts, provider: configuration.Provider | None, tokens: Tokens | None = None
) -> ProviderSettings:
    """Return a provider's settings for a registry; `tokens` are those of its stored login."""
    provider = provider or configuration.Provider()
    location, credential = facts.location, facts.credential
    return ProviderSettings(
        api=facts.api,
        url=None if location is None or location.source is None else location.url,
        key=None if credential is None else credential.key,
        path=provider.completion_url_relative_path,
        extra_headers=provider.extra_headers,
        lists=provider.fetch_models,
        models={
            name: ModelSettings(
                wire_name=model.model_name,
                extra_payload=model.extra_payload,
                extra_headers=model.extra_headers,
                variants=model.variants,
            )
            for name, model in provider.models.items()
        },
        listed=[model.name for model in facts.listed],
        apis={
            model.name: model.api
            for model in facts.listed
            if model.api is not None and model.api in APIS and provider.api is None
        },
        tokens=tokens if credential is not None and credential.source == LOGIN else None,
        host=provider.auth.url,
        think_tags=_think_tags(provider),
    )


def _think_tags(provider: configuration.Provider) -> tuple[str, str] | None:
    start, end = provider.think_tag_start, provider.think_tag_end
    return (start or THINK_TAGS[0], end or THINK_TAGS[1]) if start or end else None


def configured_facts(model: configuration.Model) -> ModelFacts:
    """Return the facts of a model that the user has configured."""
    cost, price = model.cost, None
    if cost.input is not None and cost.output is not None:
        price = Price(
            input=cost.input,
            output=cost.output,
            cache_read=cost.cache_read,
            cache_write=cost.cache_write,
        )
    return ModelFacts(
        context=model.limit.context,
        output=model.limit.output,
        price=price,
        images=model.image_input,
    )


def timers_of(config: Config) -> Timers:
    """Return the timers of every request."""
    configured = {
        "connect": config.connect_timeout,
        "first_byte": config.first_byte_timeout,
        "idle": config.stream_idle_timeout,
        "no_progress": config.no_progress_timeout,
    }
    return attrs.evolve(Timers(), **{k: v for k, v in configured.items() if v is not None})


def policy_of(config: Config, provider: str = "") -> RetryPolicy:
    """Return the retry policy of a provider: its own settings, then the common ones."""
    own = config.providers.get(provider, configuration.Provider())
    wait = (
        config.rate_limit_max_wait if own.rate_limit_max_wait is None else own.rate_limit_max_wait
    )
    policy, retry = (
        RetryPolicy(),
        {
            name: common if value is None else value
            for name, value in attrs.asdict(own.retry).items()
            for common in [getattr(config.retry, name)]
        },
    )
    configured = {
        "base": _seconds(retry["base_delay_ms"]),
        "factor": retry["backoff_multiplier"],
        "longest": _seconds(retry["max_delay_ms"]),
        "max_demanded": wait,
    }
    most = retry["max_retries"]
    return RetryPolicy(
        attempts=policy.attempts if most is None else most + 1,
        **{name: value for name, value in configured.items() if value is not None},
    )


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
