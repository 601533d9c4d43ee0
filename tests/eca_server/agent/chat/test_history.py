"""The history that the model is sent: append-only, repaired, replayed unchanged."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from eca_protocol.testing.provider import (
    Provider,
    Reply,
    close,
    finish,
    hang,
    reasoning,
    reply,
    usage,
    wait,
)
from tests.eca_server.agent.chat.editor import editor, provider_config, text

REFUSED = Reply(status=400, body={"error": {"message": "no"}})


def conversation(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Role and text of each message after the system prompt."""
    system, *messages = body["messages"]
    assert system["role"] == "system"
    return [(each["role"], _text(each["content"])) for each in messages]


def _text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "|".join(part["text"] for part in content)


@pytest.mark.requirement("ARROW:chat-text-4", "ARROW:chat-text-6", "ARROW:chat-text-8")
async def test_each_request_carries_the_one_before_as_it_was() -> None:
    turns = 12
    provider = Provider([reply(f"answer {number}") for number in range(turns)])
    async with provider, editor(provider_config(provider.url, chat={"title": False})) as ours:
        for number in range(turns):
            received = await ours.turn(f"prompt {number}\n")
            assert text(received[2:]) == f"answer {number}"
        bodies = [request.body["messages"] for request in provider.requests]
    for earlier, later in itertools.pairwise(bodies):
        assert later[: len(earlier)] == earlier
        assert len(later) == len(earlier) + 2
    assert (
        conversation(provider.requests[-1].body)
        == [
            line
            for number in range(turns)
            for line in (("user", f"prompt {number}\n"), ("assistant", f"answer {number}"))
        ][:-1]
    )


async def test_after_a_restart_the_model_is_sent_the_messages_before(tmp_path: Path) -> None:
    provider = Provider([reply("first answer"), reply("second answer")])
    async with provider:
        config = provider_config(provider.url)
        for prompt in ("first prompt", "second prompt"):
            async with editor(config, keeps_chats=True, XDG_DATA_HOME=str(tmp_path)) as ours:
                await ours.turn(prompt)
    expected = [("user", "first prompt"), ("assistant", "first answer"), ("user", "second prompt")]
    assert conversation(provider.requests[-1].body) == expected


async def test_after_a_stop_the_text_that_came_is_remembered() -> None:
    script = [reply("half an ", "answer", hang()), reply("b")]
    provider = Provider(script)
    async with provider, editor(provider_config(provider.url, chat={"title": False})) as ours:
        await ours.prompt("one")
        await ours.content("text", text="answer")
        await ours.expect_stopped()
        await provider.until(lambda: provider.requests[0].closed_by_client)
        await ours.turn("two")
        assert conversation(provider.requests[1].body) == [
            ("user", "one"),
            ("assistant", "half an answer"),
            ("user", "two"),
        ]


@pytest.mark.parametrize("ending", ["stop", "fault", "reasoning"])
async def test_after_an_empty_answer_the_prompts_are_adjacent(ending: str) -> None:
    first = {
        "stop": Reply(steps=[finish("stop")], before_headers=[wait("never")]),
        "fault": REFUSED,
        "reasoning": reply(reasoning("hm"), hang()),
    }[ending]
    provider = Provider([first, reply("b"), reply("c")])
    async with provider, editor(provider_config(provider.url, chat={"title": False})) as ours:
        await ours.prompt("one")
        if ending == "stop":
            await provider.until(lambda: "never" in provider.reached)
            await ours.stop()
        elif ending == "reasoning":
            await ours.content("reasonText")
            await ours.stop()
        await ours.expect_finished()
        await ours.turn("two")
        await ours.turn("three")
        assert conversation(provider.requests[1].body) == [("user", "one\n\ntwo")]
        assert conversation(provider.requests[2].body) == [
            ("user", "one\n\ntwo"),
            ("assistant", "b"),
            ("user", "three"),
        ]


async def test_after_a_stream_that_broke_the_text_that_came_is_remembered() -> None:
    provider = Provider([reply("half", close()), reply("b")])
    async with provider, editor(provider_config(provider.url, chat={"title": False})) as ours:
        await ours.turn("one")
        await ours.turn("continue")
        assert conversation(provider.requests[1].body) == [
            ("user", "one"),
            ("assistant", "half"),
            ("user", "continue"),
        ]


async def test_prompts_dropped_by_a_stop_never_reach_the_model() -> None:
    provider = Provider([reply("a", hang()), reply("b")])
    async with provider, editor(provider_config(provider.url, chat={"title": False})) as ours:
        await ours.prompt("one")
        await ours.content("text", text="a")
        await ours.prompt("dropped")
        await ours.expect_stopped()
        await ours.turn("two")
        said = [words for _, words in conversation(provider.requests[1].body)]
        assert said == ["one", "a", "two"]
        assert len(provider.requests) == 2


@pytest.mark.requirement("CHAT-5")
async def test_the_system_prompt_changes_with_the_behaviour_and_only_then() -> None:
    provider = Provider(otherwise=reply("a"))
    async with provider, editor(provider_config(provider.url, chat={"title": False})) as ours:
        for behavior in ("agent", "agent", "plan", "plan"):
            await ours.turn("hi", behavior=behavior)
        systems = [request.body["messages"][0] for request in provider.requests]
        assert systems[0] == systems[1] != systems[2] == systems[3]
        assert [len(conversation(each.body)) for each in provider.requests] == [1, 3, 5, 7]


@pytest.mark.requirement("CHAT-39")
async def test_chats_do_not_know_each_other() -> None:
    provider = Provider(otherwise=reply("a", finish("stop"), usage(1, 1)))
    async with provider, editor(provider_config(provider.url, chat={"title": False})) as ours:
        await ours.turn("one", "first")
        await ours.turn("two", "second")
        await ours.turn("three", "first")
        assert conversation(provider.requests[1].body) == [("user", "two")]
        said = [words for _, words in conversation(provider.requests[2].body)]
        assert said == ["one", "a", "three"]
