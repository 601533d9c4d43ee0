"""A conversation that is too long for its model: one summary and one more try, over every API."""

from __future__ import annotations

from typing import Any

import pytest

from eca_protocol.testing.provider import Provider, Reply, raw
from tests.eca_server.agent.chat.editor import editor, finishes, text
from tests.eca_server.agent.chat.test_switching import configured, model_of
from tests.eca_server.models.every_api import EVERY_API, ScriptedAnswer, ScriptedAPI

WORDS = {
    "openai-responses": "Your input exceeds the context window of this model.",
    "anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
    "google": "The input token count (9) exceeds the maximum number of tokens allowed (8).",
    "ollama": "input length exceeds the context length",
}
OTHERS = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"


def settings(url: str, api: ScriptedAPI) -> dict[str, Any]:
    """Ollama's model has no larger context than the one that it runs with: it would get it."""
    config = configured(url, api)
    if api.name == "ollama":
        config["providers"][api.name]["models"][api.model] = {"limit": {"context": 4096}}
    return config


def too_long(api: ScriptedAPI, where: str) -> Reply:
    words = WORDS.get(api.name, OTHERS)
    if where == "refused":
        return api.refusing(400, words=words)
    return api.replying([raw(api.fail("", words))])


@pytest.mark.parametrize("where", ["refused", "in the stream"])
@pytest.mark.parametrize("api", EVERY_API, ids=lambda api: api.name)
async def test_what_is_too_long_is_summarized_and_asked_once_more(api, where):
    script = [
        api.reply(ScriptedAnswer(text=["first answer"])),
        too_long(api, where),
        api.reply(ScriptedAnswer(text=["the summary"])),
        api.reply(ScriptedAnswer(text=["second answer"])),
    ]
    provider = Provider(lambda _request: script.pop(0))
    async with provider, editor(settings(provider.url, api)) as ours:
        await ours.turn("one", model=model_of(api))
        second = await ours.turn("two", model=model_of(api))
        assert not ours.connection.chats.open("c").last_turn_failed
    assert finishes(second) == 1
    assert "second answer" in text(second)
    assert len(provider.requests) == 4
    last = str(provider.requests[-1].body)
    assert "the summary" in last
    assert "first answer" not in last


@pytest.mark.parametrize("api", EVERY_API, ids=lambda api: api.name)
async def test_what_is_still_too_long_is_reported_and_not_tried_again(api):
    script = [
        api.reply(ScriptedAnswer(text=["first answer"])),
        too_long(api, "refused"),
        api.reply(ScriptedAnswer(text=["the summary"])),
        too_long(api, "refused"),
    ]
    provider = Provider(lambda _request: script.pop(0))
    async with provider, editor(settings(provider.url, api)) as ours:
        await ours.turn("one", model=model_of(api))
        second = await ours.turn("two", model=model_of(api))
    assert finishes(second) == 1
    told = text(second)
    assert told.count("the conversation is too long") == 1
    assert f"{model_of(api)}: " in told
    assert len(provider.requests) == 4
