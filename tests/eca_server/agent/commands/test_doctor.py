"""Checks of providers: the proof that they work, and the errors if they do not."""

from typing import Any

import trio

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Provider, Reply, hang, reply
from eca_server.agent.commands import doctor
from eca_server.agent.commands.doctor import CheckResult, check_providers
from eca_server.config.settings import Config
from eca_server.config.settings import Model as ConfiguredModel
from eca_server.config.settings import Provider as Configured
from eca_server.models.models import Models
from eca_server.secret import Secret
from tests.tasks import run_in

KEY = "planted-key-01234567"


def refusal(status: int, message: str) -> Reply:
    return Reply(status=status, body={"error": {"message": message}})


WITHOUT_LIST = {"fetch_models": False, "models": {"m": ConfiguredModel()}}


async def check(url: str | None, *, name: str = "p", **more: Any) -> CheckResult:
    fields: dict[str, Any] = {"url": url, "key": Secret(KEY), "api": "openai-chat", **more}
    config = Config(providers={name: Configured(**fields)})
    async with HTTPClient() as http:
        (result,) = await check_providers(Models(config, environ={}, http=http))
    assert KEY not in result.message
    assert result.provider == name
    return result


async def test_a_list_of_models_or_an_answer_of_a_few_tokens_is_proof_enough():
    async with Provider([], models=["m", "n"]) as provider:
        result = await check(provider.url)
        assert provider.requests == []
    assert result.works
    assert result.message.startswith("works: lists 2 models after ")
    async with Provider([reply("Hi")]) as provider:
        result = await check(provider.url, **WITHOUT_LIST)
        (request,) = provider.requests
    assert result.works
    assert result.message.startswith("works: p/m answered after ")
    assert 16 in request.body.values()


async def test_a_wrong_key_is_reported_with_its_source_and_a_public_list_does_not_prove_it():
    async with Provider([refusal(401, f"no such key: {KEY}")], models=["m"]) as provider:
        models = {"m": ConfiguredModel()}
        result = await check(provider.url, name="openrouter", models=models)
    assert not result.works
    assert "the key was refused" in result.message
    assert "The key was found in providers.openrouter.key" in result.message
    async with Provider([refusal(401, f"bad key {KEY}")]) as provider:
        result = await check(provider.url, **WITHOUT_LIST)
    assert not result.works
    assert result.message.startswith("the key was refused: bad key *** (status 401")
    assert result.message.endswith("The key was found in providers.p.key.")


async def test_an_unreachable_address_and_missing_settings_are_named():
    result = await check("http://127.0.0.1:1/v1")
    assert not result.works
    assert result.message.startswith("the provider cannot be reached: ")
    assert "The URL is http://127.0.0.1:1/v1, from providers.p.url." in result.message
    result = await check(None, models={"m": ConfiguredModel()})
    assert not result.works
    assert "providers.p.url is not set" in result.message
    result = await check("http://127.0.0.1:1/v1", fetch_models=False)
    assert "set providers.p.models" in result.message


async def test_all_are_checked_at_once_within_a_time_limit(mock_clock):
    silent = Reply(before_headers=[hang()])
    async with Provider([silent, silent]) as provider, HTTPClient() as http:
        each = Configured(api="openai-chat", url=provider.url, key=Secret(KEY), **WITHOUT_LIST)
        models = Models(Config(providers={"a": each, "b": each}), environ={}, http=http)
        async with trio.open_nursery() as nursery:
            checks = run_in(nursery, check_providers, models)
            await provider.until(lambda: len(provider.requests) == 2)
            mock_clock.jump(doctor.CHECK_SECONDS)
    [results] = checks
    assert [result.provider for result in results] == ["a", "b"]
    assert all(result.message.startswith("no answer within") for result in results)
