"""Every API in a chat: one after the other, and a chat that is too long for its model."""

from pathlib import Path
from typing import Any

import pytest

from eca_protocol.testing.provider import Provider, Reply, raw
from tests.eca_server.agent.chat.editor import Content, editor, finishes, text
from tests.eca_server.models.every_api import EVERY_API, ScriptedAnswer, ScriptedAPI, ScriptedCall


def configured(url: str, *apis: ScriptedAPI) -> dict[str, Any]:
    """One provider for each API, at the same place; every call is allowed."""
    providers = {
        api.name: {"api": api.name, "url": url, "key": "k", "models": {api.model: {}}}
        for api in apis
    }
    return {"providers": providers, "toolCall": {"approval": {"byDefault": "allow"}}}


def model_of(api: ScriptedAPI) -> str:
    return f"{api.name}/{api.model}"


def not_told(api: ScriptedAPI, before: ScriptedAPI) -> str:
    return (
        f"{model_of(api)} answers from here on. It is sent the chat so far, "
        f"but not the reasoning of {model_of(before)}."
    )


def notes(contents: list[Content]) -> list[str]:
    return [each["text"] for each in contents if "answers from here on" in each.get("text", "")]


async def test_each_api_continues_where_another_one_was(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("what stands there\n")
    script: list[Reply] = []
    provider = Provider(lambda _request: script.pop(0))
    read = ScriptedCall("eca_read_file", {"path": "a.txt"})
    async with provider, editor(configured(provider.url, *EVERY_API), folder=tmp_path) as ours:
        before: ScriptedAPI | None = None
        for number, api in enumerate([*EVERY_API, EVERY_API[0]]):
            thoughts = [f"thought-{number}"]
            script += [
                api.reply(
                    ScriptedAnswer(thoughts=thoughts, text=[f"look-{number}"], calls=[read, read])
                ),
                api.reply(ScriptedAnswer(thoughts=thoughts, text=[f"done-{number}"])),
                api.reply(ScriptedAnswer(text=[f"more-{number}"])),
            ]
            first, second = [
                await ours.turn(f"prompt-{number}{each}", model=model_of(api)) for each in "ab"
            ]
            assert text(first).count(f"look-{number}done-{number}") == 1
            assert (finishes(first), finishes(second)) == (1, 1)
            assert notes(first) == ([not_told(api, before)] if before else [])
            assert notes(second) == []
            before = api
    last = str(provider.requests[-1].body)
    sent = [word for n in range(5) for word in (f"prompt-{n}b", f"look-{n}", f"thought-{n}")]
    assert [each for each in sent if each not in last] == [f"thought-{n}" for n in range(5)]


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


@pytest.mark.long(but=4)
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
    assert second.finishes == 1
    assert "second answer" in second.text
    assert len(provider.requests) == 4
    last = str(provider.requests[-1].body)
    assert "the summary" in last
    assert "first answer" not in last
