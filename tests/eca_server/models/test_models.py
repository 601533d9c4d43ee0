"""Requests to a model: its tools, its earlier reasoning, its variant, its retries."""

from typing import Any

import pytest
from hypothesis import given

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Provider, Reply, reply
from eca_protocol.tls import ClientCertificate
from eca_server.config.settings import Config, Model, Network, Retry
from eca_server.config.settings import Provider as Settings
from eca_server.models.backend import BackendError, ModelInfo, Request
from eca_server.models.facts import ModelFacts
from eca_server.models.history import Origin, ReasoningPart
from eca_server.models.reasoning import select_reasoning
from eca_server.models.retry import RetryPolicy
from eca_server.secret import Secret
from tests.eca_server.models.histories import histories, model, user
from tests.eca_server.models.reading import HELLO, TOOL, models_of, only

CANNOT = ModelInfo(name="cannot", facts=ModelFacts(tools=False))


async def sent(
    name: str = "p/m",
    *,
    variant: str | None = None,
    request: Request = HELLO,
    retry: Retry | None = None,
    script: Any = (),
    **settings: Any,
) -> list[Any]:
    """Return the bodies of the requests to a model with these settings."""
    provider_name, _, own = name.partition("/")
    async with Provider(script, otherwise=reply("Hi")) as provider, HTTPClient() as http:
        models = {own.partition(":")[0]: Model(**settings)}
        configured = Settings(url=provider.url, models=models, retry=retry or Retry())
        made = models_of({provider_name: configured}, http=http, listed={"p": [CANNOT]})
        chosen = made.find(name, variant)
        full_request = Request(
            messages=request.messages, tools=request.tools, reasoning_effort=chosen.effort
        )
        if script:
            with pytest.raises(BackendError):
                await chosen.text(full_request)
        else:
            assert await chosen.text(full_request) == "Hi"
        return [each.body for each in provider.requests]


async def test_tools_are_offered_to_models_that_can_use_them_or_whose_abilities_are_unknown():
    request = Request(messages=[user()], tools=[TOOL])
    [known], [cannot] = await sent(request=request), await sent("p/cannot", request=request)
    assert len(known["tools"]) == 1
    assert "tools" not in cannot


def test_what_a_provider_listed_is_forgotten_with_its_key():
    def names(**environ: str) -> tuple[str, ...]:
        models = models_of({}, environ=environ, listed={"openai": ["gpt-9"]})
        assert ("openai" in {facts.name for facts in models.providers}) == bool(environ)
        return models.names[:-2]

    assert names(OPENAI_API_KEY="sk-x") == ("openai/gpt-9",)
    assert names() == ()


@pytest.mark.parametrize(
    ("settings", "kind", "advice"),
    [
        ({}, "auth", "found in P_API_KEY. Send `/login p` to store a different one."),
        ({}, "permission", "Check what the key is allowed to do. It was found in P_API_KEY."),
        ({}, "rate_limit", "Try again later."),
        ({"key": Secret("k")}, "auth", "provider. It was found in providers.p.key."),
    ],
)
def test_a_refused_key_is_explained_with_its_source(settings, kind, advice):
    provider = Settings(url="http://nowhere.invalid", models={"m": Model()}, **settings)
    models = models_of({"p": provider}, environ={"P_API_KEY": "sk-x"})
    error = BackendError(kind, "no", status=401)
    assert models.find("p/m").explain(error).endswith(advice)


def test_a_model_that_thinks_has_variants_by_how_much():
    capabilities = {
        "thinks": ModelFacts(reasoning=True),
        "says": ModelFacts(reasoning=True, efforts=("none", "max")),
        "plain": ModelFacts(),
    }
    listed = [ModelInfo(name=name, facts=can) for name, can in capabilities.items()]
    own = Model(variants={"low": {}, "max": {"thinking": "all"}})
    configured = Settings(url="http://nowhere.invalid", models={"thinks": own})
    models = models_of({"p": configured}, listed={"p": listed})
    assert models.variants("p/thinks") == ("medium", "high", "max")
    assert models.variants("p/says") == ("none", "max")
    assert models.variants("p/plain") == models.variants("no/such") == models.variants("") == ()
    efforts = [models.find("p/thinks", variant).effort for variant in ("high", "max", "low", None)]
    assert efforts == ["high", None, None, None]


GPT = ("none", "low", "medium", "high", "xhigh")


@pytest.mark.parametrize(
    ("provider", "name", "variants"),
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
def test_a_well_known_model_has_variants_by_its_name(provider, name, variants):
    url = "http://nowhere.invalid" if provider == "gateway" else None
    facts = ModelFacts(reasoning=True, efforts=("low", "max"))
    listed = {provider: [ModelInfo(name="advertised-gpt-5.2", facts=facts)]}
    models = models_of({provider: Settings(url=url, models={name: Model()})}, listed=listed)
    assert models.variants(f"{provider}/{name}") == variants


def thought(text: str, **fields: Any):
    part = ReasoningPart(text=text, opaque={"field": "reasoning_content"})
    return model(part, "so", **fields)


@pytest.mark.parametrize(
    ("which", "thoughts"), [("all", ["1", "2", "3"]), ("turn", ["2", "3"]), ("off", [])]
)
async def test_thoughts_of_all_turns_or_of_this_one_or_none_go_back_as_configured(which, thoughts):
    origin = Origin(api="openai-chat", provider="deepseek", model="m")
    history = [user("a"), thought("1"), user("b"), thought("2"), thought("3")]
    selected = select_reasoning(history, which)
    parts = [part for each in selected for part in only(ReasoningPart, each.parts)]
    assert [part.text for part in parts] == thoughts
    assert [each.role for each in selected] == [each.role for each in history]
    assert selected[2] is history[2]
    request = Request(messages=[user(), thought("hm", origin=origin), user()])
    [body] = await sent("deepseek/m", request=request, reasoning_history=which)
    assert ("reasoning_content" in body["messages"][1]) == (which == "all")
    assert body["messages"][1]["content"] == "so"


@given(history=histories)
def test_nothing_but_thoughts_is_left_out(history):
    for which in ("turn", "off"):
        for before, after in zip(history, select_reasoning(history, which), strict=True):
            assert (before.role, before.origin) == (after.role, after.origin)
            parts = [part for part in before.parts if not isinstance(part, ReasoningPart)]
            assert list(after.parts) in (parts, list(before.parts))


@pytest.mark.parametrize(("api", "thoughts"), [("openai-chat", "off"), ("anthropic", "all")])
def test_the_choice_counts_where_thoughts_may_be_missing(api, thoughts):
    settings = Settings(
        api=api, url="http://localhost", models={"m": Model(reasoning_history="off")}
    )
    assert models_of({"p": settings}).find("p/m")._thoughts == thoughts


def test_what_opens_the_client_certificate_s_key_is_hidden_like_a_key():
    environ = {"ECA_CLIENT_CERT": "a.pem", "ECA_CLIENT_KEY_PASSPHRASE": "of the environment"}
    for network, passphrase in (
        (Network(), "of the environment"),
        (Network(client_key_passphrase=Secret("of the file")), "of the file"),
    ):
        models = models_of({}, network=network, environ=environ)
        assert Secret(passphrase) in models.secrets
        certificate = network.client_certificate(environ)
        assert certificate == ClientCertificate(certificate="a.pem", passphrase=passphrase)
        assert passphrase not in f"{network} {certificate}"
    assert Network().client_certificate({}) is None


def test_a_provider_s_own_retry_counts_where_it_says_something():
    providers = {
        "p": Settings(retry=Retry(max_retries=0), rate_limit_max_wait=7),
        "q": Settings(retry=Retry(backoff_multiplier=3)),
    }
    shared = Retry(max_retries=2, base_delay_ms=500)
    config = Config(retry=shared, rate_limit_max_wait=30, providers=providers)
    own, other = RetryPolicy.of(config, "p"), RetryPolicy.of(config, "q")
    assert (own.attempts, own.base, own.max_demanded) == (1, 0.5, 7)
    assert (other.attempts, other.factor, other.max_demanded) == (3, 3, 30)
    assert RetryPolicy.of(config, "unknown") == RetryPolicy.of(config)


@pytest.mark.parametrize("retries", [0, 2])
async def test_a_provider_is_asked_as_often_as_it_is_configured(retries):
    own = Retry(max_retries=retries, base_delay_ms=1)
    bodies = await sent(retry=own, script=[Reply(status=503)] * (retries + 1))
    assert len(bodies) == retries + 1
