"""Providers asked on demand: what proves that they work, and what is said if they do not."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Provider, Reply, hang, reply
from eca_server.commands import provider_trial
from eca_server.commands.provider_trial import Verdict, try_providers
from eca_server.config import Config
from eca_server.config import Model as ConfiguredModel
from eca_server.config import Provider as Configured
from eca_server.llm.models import Models
from eca_server.secret import Secret

pytestmark = pytest.mark.trio

KEY = "planted-key-01234567"


def refusal(status: int, message: str) -> Reply:
    return Reply(status=status, body={"error": {"message": message}})


async def trial(url: str | None, *, name: str = "p", **more: Any) -> Verdict:
    fields: dict[str, Any] = {"url": url, "key": Secret(KEY), "api": "openai-chat", **more}
    config = Config(providers={name: Configured(**fields)})
    async with HTTPClient() as http:
        (verdict,) = await try_providers(Models(config, environ={}, http=http))
    assert KEY not in verdict.words
    assert verdict.provider == name
    return verdict


async def test_a_list_of_models_is_proof_enough() -> None:
    async with Provider([], models=["m", "n"]) as provider:
        verdict = await trial(provider.url)
        assert provider.requests == []
    assert verdict.works
    assert verdict.words.startswith("works: it lists 2 models after ")


async def test_where_there_is_no_list_a_model_is_asked_for_a_few_tokens() -> None:
    async with Provider([reply("Hi")]) as provider:
        verdict = await trial(provider.url, fetch_models=False, models={"m": ConfiguredModel()})
        (request,) = provider.requests
    assert verdict.works
    assert verdict.words.startswith("works: p/m answered after ")
    assert 16 in request.body.values()


async def test_a_list_that_anybody_may_see_proves_no_key() -> None:
    async with Provider([refusal(401, f"no such key: {KEY}")], models=["m"]) as provider:
        models = {"m": ConfiguredModel()}
        verdict = await trial(provider.url, name="openrouter", models=models)
    assert not verdict.works
    assert "the key was refused" in verdict.words
    assert "The key was found in providers.openrouter.key" in verdict.words


async def test_a_wrong_key_is_told_with_the_place_it_came_from() -> None:
    async with Provider([refusal(401, f"bad key {KEY}")]) as provider:
        verdict = await trial(provider.url, fetch_models=False, models={"m": ConfiguredModel()})
    assert not verdict.works
    assert verdict.words.startswith("the key was refused: bad key *** (status 401")
    assert verdict.words.endswith("The key was found in providers.p.key.")


async def test_an_address_where_nobody_answers_is_told_with_the_address() -> None:
    verdict = await trial("http://127.0.0.1:1/v1")
    assert not verdict.works
    assert verdict.words.startswith("the provider cannot be reached: ")
    assert "The url is http://127.0.0.1:1/v1, from providers.p.url." in verdict.words


async def test_what_is_not_configured_is_named_and_nothing_is_sent() -> None:
    verdict = await trial(None, models={"m": ConfiguredModel()})
    assert not verdict.works
    assert "providers.p.url is not set" in verdict.words
    verdict = await trial("http://127.0.0.1:1/v1", fetch_models=False)
    assert "set providers.p.models" in verdict.words


async def test_all_are_asked_at_once_and_one_that_is_silent_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(provider_trial, "SECONDS", 0.3)
    silent = Reply(before_headers=[hang()])
    async with Provider([silent, silent]) as provider, HTTPClient() as http:
        each = Configured(
            url=provider.url,
            key=Secret(KEY),
            api="openai-chat",
            fetch_models=False,
            models={"m": ConfiguredModel()},
        )
        models = Models(Config(providers={"a": each, "b": each}), environ={}, http=http)
        with trio.fail_after(5):
            verdicts = await try_providers(models)
        assert len(provider.requests) == 2
    assert [verdict.provider for verdict in verdicts] == ["a", "b"]
    assert all(verdict.words.startswith("no answer came within") for verdict in verdicts)
