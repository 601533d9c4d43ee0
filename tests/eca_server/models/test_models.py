"""Requests to a model: its tools, its earlier reasoning, its variant."""

from __future__ import annotations

from typing import Any

import pytest

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Provider, Reply, reply
from eca_protocol.tls import ClientCertificate
from eca_server.config.login_settings import Network
from eca_server.config.settings import Config, Retry
from eca_server.config.settings import Model as ModelConfig
from eca_server.config.settings import Provider as ProviderConfig
from eca_server.models.backend import BackendError, ModelInfo, Request, Tool
from eca_server.models.facts import ModelFacts
from eca_server.models.history import Message, Origin, ReasoningPart, TextPart
from eca_server.models.listings import Listing
from eca_server.models.models import Models
from eca_server.models.retry import RetryPolicy
from eca_server.secret import Secret

TOOL = Tool(name="look", description="Look.", parameters={"type": "object"})
ASKED = Message(role="user", parts=(TextPart("hi"),))


async def sent(request: Request, name: str = "p/m", **model: Any) -> Any:
    """Return the body of a request to a model with this configuration."""
    result = [ModelInfo(name="cannot", facts=ModelFacts(tools=False))]
    async with Provider(otherwise=reply("Hi")) as provider, HTTPClient() as http:
        configured = ProviderConfig(
            url=provider.url, models={"m": ModelConfig(**model), "cannot": ModelConfig()}
        )
        models = Models(
            Config(providers={"p": configured}),
            environ={},
            http=http,
            listing=lambda endpoint: (
                Listing(models=tuple(result), at=0) if endpoint.provider == "p" else None
            ),
        )
        assert await models.find(name).text(request) == "Hi"
        return provider.requests[0].body


async def test_tools_are_offered_to_models_that_can_use_them_or_whose_abilities_are_unknown():
    request = Request(messages=[ASKED], tools=[TOOL])
    assert len((await sent(request))["tools"]) == 1
    assert "tools" not in await sent(request, "p/cannot")


async def test_what_a_provider_listed_is_forgotten_with_its_key():
    listing = Listing(models=(ModelInfo(name="gpt-9"),), at=0)

    def names(**environ: str) -> tuple[str, ...]:
        models = Models(
            Config(),
            environ=environ,
            http=HTTPClient(),
            listing=lambda endpoint: listing if endpoint.provider == "openai" else None,
        )
        assert ("openai" in {facts.name for facts in models.providers}) == bool(environ)
        return models.names[:-2]

    assert names(OPENAI_API_KEY="sk-x") == ("openai/gpt-9",)
    assert names() == ()


async def test_a_variant_is_sent_under_the_models_own_name():
    body = await sent(
        Request(messages=[ASKED]),
        "p/m:high",
        model_name="real",
        extra_payload={"seed": 1, "reasoning_effort": "low"},
        variants={"high": {"reasoning_effort": "high"}},
    )
    assert (body["model"], body["seed"], body["reasoning_effort"]) == ("real", 1, "high")


async def test_a_model_that_thinks_has_variants_by_how_much():
    capabilities = {
        "thinks": ModelFacts(reasoning=True),
        "says": ModelFacts(reasoning=True, efforts=("none", "max")),
        "plain": ModelFacts(),
    }
    listing = Listing(
        models=tuple(ModelInfo(name=name, facts=can) for name, can in capabilities.items()), at=0
    )
    own = {"low": {}, "max": {"thinking": "all"}}
    configured = ProviderConfig(
        url="http://nowhere.invalid", models={"thinks": ModelConfig(variants=own)}
    )
    models = Models(
        Config(providers={"p": configured}),
        environ={},
        http=HTTPClient(),
        listing=lambda endpoint: listing if endpoint.provider == "p" else None,
    )
    assert models.variants("p/thinks") == ("medium", "high", "max")
    assert models.variants("p/says") == ("none", "max")
    assert models.variants("p/plain") == models.variants("no/such") == models.variants("") == ()
    efforts = [models.find("p/thinks", variant).effort for variant in ("high", "max", "low", None)]
    assert efforts == ["high", None, None, None]


GPT = ("none", "low", "medium", "high", "xhigh")


@pytest.mark.parametrize(
    ("provider", "model", "variants"),
    [
        ("openai", "gpt-5.2", GPT),
        ("openai", "gpt-5.3-codex", GPT),
        ("openai", "gpt-5.6-luna", (*GPT, "max")),
        ("openai", "gpt-6-astra", (*GPT[1:], "max")),
        ("gateway", "azure/gpt-5_4", GPT),
        ("gateway", "gpt-5.1", ("low", "medium", "high")),
        ("gateway", "gpt-5.2-chat-latest", ()),
        ("anthropic", "claude-sonnet-4-6", ("low", "medium", "high", "max")),
        ("anthropic", "claude-fable-5-1", ("low", "medium", "high", "xhigh", "max")),
        ("openrouter", "anthropic/claude-opus-4.6", ("low", "medium", "high", "max")),
        ("gateway", "deepseek-v4-flash", ("none", "high", "max")),
        ("gateway", "deepseek-v3", ()),
        ("gateway", "advertised-gpt-5.2", ("low", "max")),
    ],
)
async def test_a_well_known_model_has_variants_by_its_name(provider, model, variants):
    config = ProviderConfig(models={model: ModelConfig()})
    if provider == "gateway":
        config = ProviderConfig(url="http://nowhere.invalid", models=config.models)
    facts = ModelFacts(reasoning=True, efforts=("low", "max"))
    listed = Listing(models=(ModelInfo(name="advertised-gpt-5.2", facts=facts),), at=0)
    models = Models(
        Config(providers={provider: config}),
        environ={},
        http=HTTPClient(),
        listing=lambda _: listed,
    )
    assert models.variants(f"{provider}/{model}") == variants


@pytest.mark.parametrize(
    ("model", "variant", "fields"),
    [
        ("gpt-5.2", "xhigh", {"reasoning_effort": "xhigh"}),
        ("gpt-5.2", "none", {"reasoning_effort": "none"}),
        ("deepseek-v4-pro", "max", {"reasoning_effort": "max"}),
        ("deepseek-v4-pro", "none", {"thinking": {"type": "disabled"}}),
    ],
)
async def test_an_effort_is_asked_for_in_the_field_of_chat_completions(model, variant, fields):
    async with Provider(otherwise=reply("Hi")) as provider, HTTPClient() as http:
        config = ProviderConfig(url=provider.url, models={model: ModelConfig()})
        models = Models(Config(providers={"p": config}), environ={}, http=http)
        found_model = models.find(f"p/{model}", variant)
        await found_model.text(Request(messages=[ASKED], reasoning_effort=found_model.effort))
        body = provider.requests[0].body
    names = {"reasoning", "reasoning_effort", "thinking", "verbosity"}
    assert {name: value for name, value in body.items() if name in names} == fields


@pytest.mark.parametrize(("which", "goes_back"), [("all", True), ("turn", False), ("off", False)])
async def test_thoughts_of_an_earlier_turn_go_back_as_configured(which, goes_back):
    thought = ReasoningPart(text="hm", opaque={"field": "reasoning_content"})
    answer = Message(
        role="assistant",
        parts=(thought, TextPart("so")),
        origin=Origin(api="openai-chat", provider="deepseek", model="m"),
    )
    async with Provider(otherwise=reply("Hi")) as provider, HTTPClient() as http:
        configured = ProviderConfig(
            url=provider.url, models={"m": ModelConfig(reasoning_history=which)}
        )
        models = Models(Config(providers={"deepseek": configured}), environ={}, http=http)
        await models.find("deepseek/m").text(Request(messages=[ASKED, answer, ASKED]))
        body = provider.requests[0].body
    assert ("reasoning_content" in body["messages"][1]) == goes_back
    assert body["messages"][1]["content"] == "so"


async def test_what_opens_the_client_certificate_s_key_is_hidden_like_a_key():
    environ = {"ECA_CLIENT_CERT": "a.pem", "ECA_CLIENT_KEY_PASSPHRASE": "of the environment"}
    for network, passphrase in (
        (Network(), "of the environment"),
        (Network(client_key_passphrase=Secret("of the file")), "of the file"),
    ):
        models = Models(Config(network=network), environ=environ, http=HTTPClient())
        assert Secret(passphrase) in models.secrets
        certificate = network.client_certificate(environ)
        assert certificate == ClientCertificate(certificate="a.pem", passphrase=passphrase)
        assert passphrase not in f"{network} {certificate}"
    assert Network().client_certificate({}) is None


async def test_a_provider_s_own_retry_counts_where_it_says_something():
    config = Config(
        retry=Retry(max_retries=2, base_delay_ms=500),
        rate_limit_max_wait=30,
        providers={
            "p": ProviderConfig(retry=Retry(max_retries=0), rate_limit_max_wait=7),
            "q": ProviderConfig(retry=Retry(backoff_multiplier=3)),
        },
    )
    own, other = RetryPolicy.of(config, "p"), RetryPolicy.of(config, "q")
    assert (own.attempts, own.base, own.max_demanded) == (1, 0.5, 7)
    assert (other.attempts, other.factor, other.max_demanded) == (3, 3, 30)
    assert RetryPolicy.of(config, "unknown") == RetryPolicy.of(config)


@pytest.mark.parametrize("retries", [0, 2])
async def test_a_provider_is_asked_as_often_as_it_is_configured(retries):
    script = [Reply(status=503)] * (retries + 1)
    async with Provider(script, otherwise=reply("Hi")) as provider, HTTPClient() as http:
        own = Retry(max_retries=retries, base_delay_ms=1)
        config = ProviderConfig(url=provider.url, models={"m": ModelConfig()}, retry=own)
        models = Models(Config(providers={"p": config}), environ={}, http=http)
        with pytest.raises(BackendError):
            await models.find("p/m").text(Request(messages=[ASKED]))
        assert len(provider.requests) == retries + 1
