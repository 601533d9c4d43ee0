"""A model as it is asked: with the tools it can use, the thoughts it is to see, its variant."""

from __future__ import annotations

from typing import Any

import pytest

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Provider, reply
from eca_protocol.tls import ClientCertificate
from eca_server.config import Config
from eca_server.config import Model as ModelConfig
from eca_server.config import Provider as ProviderConfig
from eca_server.config.login_settings import Network
from eca_server.llm.backend import Capabilities, ModelInfo, Request, Tool
from eca_server.llm.history import Message, Origin, ReasoningPart, TextPart
from eca_server.llm.listings import Listing
from eca_server.llm.models import Models
from eca_server.secret import Secret

pytestmark = pytest.mark.trio

TOOL = Tool(name="look", description="Look.", parameters={"type": "object"})
ASKED = Message(role="user", parts=(TextPart("hi"),))


async def sent(request: Request, name: str = "p/m", **model: Any) -> Any:
    """What the endpoint is sent for a request to a model, configured like this."""
    told = [ModelInfo(name="cannot", capabilities=Capabilities(tools=False))]
    async with Provider(otherwise=reply("Hi")) as provider, HTTPClient() as http:
        configured = ProviderConfig(
            url=provider.url, models={"m": ModelConfig(**model), "cannot": ModelConfig()}
        )
        models = Models(
            Config(providers={"p": configured}),
            environ={},
            http=http,
            listing=lambda endpoint: (
                Listing(models=tuple(told), at=0) if endpoint.provider == "p" else None
            ),
        )
        assert await models.find(name).text(request) == "Hi"
        return provider.requests[0].body


async def test_tools_are_offered_to_who_can_use_them_and_whose_abilities_nobody_knows() -> None:
    request = Request(messages=[ASKED], tools=[TOOL])
    assert len((await sent(request))["tools"]) == 1
    assert "tools" not in await sent(request, "p/cannot")


async def test_what_a_provider_listed_is_forgotten_with_its_key() -> None:
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


async def test_a_variant_is_sent_under_the_models_own_name() -> None:
    body = await sent(
        Request(messages=[ASKED]),
        "p/m:high",
        model_name="real",
        extra_payload={"seed": 1, "reasoning_effort": "low"},
        variants={"high": {"reasoning_effort": "high"}},
    )
    assert (body["model"], body["seed"], body["reasoning_effort"]) == ("real", 1, "high")


async def test_a_model_that_thinks_has_variants_by_how_much() -> None:
    told = {
        "thinks": Capabilities(reasoning=True),
        "says": Capabilities(reasoning=True, efforts=("none", "max")),
        "plain": Capabilities(),
    }
    listing = Listing(
        models=tuple(ModelInfo(name=name, capabilities=can) for name, can in told.items()), at=0
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


@pytest.mark.parametrize(("which", "goes_back"), [("all", True), ("turn", False), ("off", False)])
async def test_thoughts_of_an_earlier_turn_go_back_as_configured(
    which: str, goes_back: bool
) -> None:
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


async def test_what_opens_the_client_certificate_s_key_is_hidden_like_a_key() -> None:
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
