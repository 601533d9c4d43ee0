"""The history that the model is sent: append-only, repaired, replayed unchanged."""

from __future__ import annotations

import itertools

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
from tests.eca_server.agent.chat.agent_session import conversation
from tests.eca_server.agent.chat.editor import editor, provider_config, text

REFUSED = Reply(status=400, body={"error": {"message": "no"}})


@pytest.mark.requirement("ARROW:chat-text-4", "ARROW:chat-text-6", "ARROW:chat-text-8")
async def test_each_request_carries_the_one_before_as_it_was() -> None:
    turns = 5
    provider = Provider([reply(f"answer {number}") for number in range(turns)])
    async with provider, editor(provider_config(provider.url)) as ours:
        for number in range(turns):
            received = await ours.turn(f"prompt {number}\n")
            assert text(received[2:]) == f"answer {number}"
        bodies = [request.body["messages"] for request in provider.requests]
    for earlier, later in itertools.pairwise(bodies):
        assert later[: len(earlier)] == earlier
        assert len(later) == len(earlier) + 2
    assert conversation(provider)[-3:] == [
        ("user", f"prompt {turns - 2}\n"),
        ("assistant", f"answer {turns - 2}"),
        ("user", f"prompt {turns - 1}\n"),
    ]


@pytest.mark.parametrize("ending", ["stop", "fault", "reasoning"])
async def test_after_an_empty_answer_the_prompts_are_adjacent(ending: str) -> None:
    first = {
        "stop": Reply(steps=[finish("stop")], before_headers=[wait("never")]),
        "fault": REFUSED,
        "reasoning": reply(reasoning("hm"), hang()),
    }[ending]
    provider = Provider([first, reply("b"), reply("c")])
    async with provider, editor(provider_config(provider.url)) as ours:
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
        assert conversation(provider, 1) == [("user", "one\n\ntwo")]
        assert conversation(provider, 2) == [
            ("user", "one\n\ntwo"),
            ("assistant", "b"),
            ("user", "three"),
        ]


@pytest.mark.parametrize("ending", ["stop", "the stream breaks"])
async def test_after_an_end_in_between_the_text_that_came_is_remembered(ending: str) -> None:
    last = hang() if ending == "stop" else wait("now")
    provider = Provider([reply("half an ", "answer", last, close()), reply("b")])
    async with provider, editor(provider_config(provider.url)) as ours:
        await ours.prompt("one")
        await ours.content("text", text="answer")
        if ending == "stop":
            await ours.prompt("dropped")
            await ours.expect_stopped()
            await provider.until(lambda: provider.requests[0].closed_by_client)
        else:
            provider.open("now")
            await ours.expect_finished()
        await ours.turn("two")
        before = [("user", "one"), ("assistant", "half an answer")]
        assert conversation(provider) == [*before, ("user", "two")]
        assert len(provider.requests) == 2


@pytest.mark.requirement("CHAT-5")
async def test_the_system_prompt_changes_with_the_behaviour_and_only_then() -> None:
    provider = Provider(otherwise=reply("a"))
    async with provider, editor(provider_config(provider.url)) as ours:
        for behavior in ("agent", "agent", "plan", "plan"):
            await ours.turn("hi", behavior=behavior)
        systems = [request.body["messages"][0] for request in provider.requests]
        assert systems[0] == systems[1] != systems[2] == systems[3]
        assert [len(conversation(provider, n)) for n in range(4)] == [1, 3, 5, 7]


@pytest.mark.requirement("CHAT-39")
async def test_chats_do_not_know_each_other() -> None:
    provider = Provider(otherwise=reply("a", finish("stop"), usage(1, 1)))
    async with provider, editor(provider_config(provider.url)) as ours:
        await ours.turn("one", "first")
        await ours.turn("two", "second")
        await ours.turn("three", "first")
        assert conversation(provider, 1) == [("user", "two")]
        said = [words for _, words in conversation(provider, 2)]
        assert said == ["one", "a", "three"]
