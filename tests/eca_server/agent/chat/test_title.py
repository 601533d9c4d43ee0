"""A chat's title: one request beside the first turn, never after a stop or a delete (W-25)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from eca_protocol.testing.provider import Provider, Reply, hang, reply, wait
from eca_server.agent.chat.instructions import instructions
from tests.eca_server.agent.chat.editor import (
    ECHO,
    Editor,
    editor,
    finishes,
    provider_config,
    text,
    types,
)


@asynccontextmanager
async def titled(provider: Provider) -> AsyncIterator[Editor]:
    async with provider, editor(provider_config(provider.url, chat={"title": True})) as ours:
        yield ours


def titles(ours: Editor) -> list[str]:
    return [each["title"] for each in ours.contents(kind="metadata")]


async def test_the_title_is_one_more_request_without_tools() -> None:
    provider = Provider([reply("hello"), reply("again")], title=reply('"A fine name"\nmore'))
    async with titled(provider) as ours:
        first = await ours.turn("Tell me")
        assert await ours.title() == "A fine name"
        second = await ours.turn("And then?")
        assert titles(ours) == ["A fine name"]
        assert len(provider.requests) == 2
        [asked] = provider.title_requests
    assert "tools" not in asked.body
    instruction, message = asked.body["messages"]
    assert "title" in instruction["content"].lower()
    assert message["content"] == "Tell me"
    for request in provider.requests:
        assert "title" not in request.body["messages"][0]["content"].lower()
    used = [each["sessionTokens"] for each in first + second if each["type"] == "usage"]
    assert used == [11, 22]


@pytest.mark.requirement("W-25b")
@pytest.mark.parametrize("behavior", ["agent", "plan"])
async def test_no_system_prompt_contains_the_word_title(behavior: str) -> None:
    assert "title" not in instructions(behavior, ()).lower()


async def test_a_folder_called_title_does_not_make_a_prompt_ask_for_one(tmp_path: Path) -> None:
    folder = tmp_path / "subtitles"
    folder.mkdir()
    async with editor(started=False) as ours:
        await ours.start(workspaceFolders=[{"uri": folder.as_uri(), "name": "subtitles"}])
        words = "one two three four five six seven eight"
        assert text((await ours.turn(words, model=ECHO))[2:]) == words


async def test_a_title_may_follow_finished() -> None:
    provider = Provider([reply("hello")], title=reply(wait("now"), "Late"))
    async with titled(provider) as ours:
        await ours.turn("Tell me")
        assert titles(ours) == []
        provider.open("now")
        assert await ours.title() == "Late"
        assert types(ours.contents())[-2:] == ["finished", "metadata"]


@pytest.mark.requirement("W-25a")
@pytest.mark.parametrize(
    "title", [Reply(status=400, body={"error": {"message": "no"}}), reply(hang()), reply(" \n ")]
)
async def test_a_title_that_cannot_be_had_disturbs_nothing(title: Reply) -> None:
    provider = Provider([reply("hello"), reply("again")], title=title)
    async with titled(provider) as ours:
        received = await ours.turn("Tell me")
        assert types(received) == ["progress", "text", "progress", "text", "usage", "finished"]
        received = await ours.turn("And then?")
        assert finishes(received) == 1
        assert titles(ours) == []


@pytest.mark.requirement("CHAT-21")
async def test_a_long_title_is_cut() -> None:
    async with editor({"chat": {"title": True}}) as ours:
        await ours.turn("word" * 40 + "\nsecond line", model=ECHO)
        title = await ours.title()
    assert len(title) == 60
    assert title.endswith("…")


@pytest.mark.parametrize("ending", ["stop", "stop when idle", "delete"])
async def test_no_title_follows_a_stop_or_a_delete(ending: str) -> None:
    steps = ["hello", hang()] if ending == "stop" else ["hello"]
    provider = Provider([reply(*steps)], title=reply(wait("now"), "Never"))
    async with titled(provider) as ours:
        await ours.prompt("Tell me")
        if ending != "stop":
            await ours.expect_finished()
        await provider.until(lambda: "now" in provider.reached)
        if ending == "delete":
            await ours.ask("chat/delete", {"chatId": "c"})
        else:
            await ours.stop()
        await provider.until(lambda: provider.title_requests[0].closed_by_client)
        await ours.later(0)
        assert titles(ours) == []


@pytest.mark.requirement("W-25c")
async def test_titles_can_be_turned_off_and_a_failed_prompt_asks_for_none() -> None:
    provider = Provider([Reply(status=400, body={"error": {"message": "no"}}), reply("hello")])
    async with provider:
        for title, prompts in ((True, ["Tell me", "/costs"]), (False, ["Tell me"])):
            config = provider_config(provider.url, chat={"title": title})
            async with editor(config) as ours:
                for prompt in prompts:
                    await ours.turn(prompt)
                await ours.turn("hi", "d", model="p/unknown")
                assert await ours.later(0) == []
        assert provider.title_requests == []
