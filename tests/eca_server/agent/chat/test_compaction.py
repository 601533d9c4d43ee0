"""A chat that would not fit its model any more: a summary takes the place of its past."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from eca_protocol.testing.provider import (
    Provider,
    ReceivedRequest,
    Reply,
    close,
    finish,
    hang,
    reply,
    tool_call,
    usage,
    wait,
)
from eca_server.agent.chat.compaction import LONGEST_SUMMARY, SECONDS
from eca_server.agent.chat.replay import COMPACTED as HERE
from tests.eca_server.agent.chat.agent_session import conversation
from tests.eca_server.agent.chat.editor import Editor, editor, provider_config

LIMIT = 10_000
COMPACTED = "The chat was compacted"
NOT_COMPACTED = "The chat could not be compacted"
TOO_LONG = Reply(
    status=400,
    body={"error": {"message": "maximum context length", "code": "context_length_exceeded"}},
)


def answered(words: str, prompt: int = 10, **more: Any) -> Reply:
    return reply(words, finish("stop"), usage(prompt, 5, **more))


@attrs.define(kw_only=True)
class Case:
    """An editor, the model's provider, and what that was asked."""

    ours: Editor
    provider: Provider

    @property
    def model_contexts(self) -> list[list[tuple[str, str]]]:
        """The conversation in each request that was for an answer."""
        requests = enumerate(self.provider.requests)
        return [conversation(self.provider, n) for n, each in requests if not is_for_summary(each)]

    @property
    def summaries(self) -> list[dict[str, Any]]:
        """The requests that were for a summary."""
        return [each.body for each in self.provider.requests if is_for_summary(each)]

    async def turn(self, words: str, **params: Any) -> str:
        """One turn; what the server itself says in it."""
        received = await self.ours.turn(words, **params)
        assert received.finishes == 1
        return received.answer

    async def texts_of_replay(self) -> list[str]:
        """Open the chat again; return the texts that are shown of it."""
        return [each["text"].strip() for _, each in await self.ours.reopen() if "text" in each]


def is_for_summary(request: ReceivedRequest) -> bool:
    return "Summarize a conversation" in str(request.body["messages"][0]["content"])


@contextlib.asynccontextmanager
async def chatting(
    answers: Sequence[Reply],
    summaries: Sequence[Reply] = (),
    *,
    context: int | None = LIMIT,
    data: Path | None = None,
    **config: Any,
) -> AsyncIterator[Case]:
    """A chat with a model of a small context, which answers and summarizes like this."""
    replies = {True: list(summaries), False: list(answers)}
    provider = Provider(lambda request: replies[is_for_summary(request)].pop(0))
    async with provider:
        limit = {} if context is None else {"limit": {"context": context}}
        models = {"models": {"m": limit}}
        config = provider_config(provider.url, provider=models, **config)
        async with editor(config, data=data) as ours:
            yield Case(ours=ours, provider=provider)
    assert replies == {True: [], False: []}


FULL = answered("one is done", 9000)


async def test_before_a_chat_is_full_a_summary_takes_the_place_of_its_past():
    answers = [FULL, answered("b"), answered("c")]
    async with chatting(answers, [answered("THE SUMMARY", 700)]) as case:
        await case.turn("one")
        received = await case.ours.turn("two")
        await case.turn("three")
        texts = await case.texts_of_replay()
        assert texts == ["one", "one is done", "two", HERE, "b", "three", "c"]
    [request] = case.summaries
    assert "tools" not in request
    assert "one is done" in request["messages"][1]["content"]
    assert "two" not in request["messages"][1]["content"]
    second, third = case.model_contexts[1:]
    [(role, words)] = second
    assert role == "user"
    assert "THE SUMMARY" in words
    assert words.endswith("\n\ntwo")
    assert third == [*second, ("assistant", "b"), ("user", "three")]
    progress = [each["text"] for each in received if each["type"] == "progress"]
    assert progress == ["Waiting model", "Compacting the chat", "Waiting model", "Generating", ""]
    [notice] = [each for each in received if COMPACTED in each.get("text", "")]
    assert notice["type"] == "text"
    [used] = [each for each in received if each["type"] == "usage"]
    assert used["sessionTokens"] == 9005 + 705 + 15


@pytest.mark.parametrize(
    ("prompt", "shown"), [(9000, ["at work"]), (7000, ["at work"]), (9000, [])]
)
async def test_messages_that_came_meanwhile_are_sent_again_behind_the_summary(prompt, shown):
    working = reply(*shown, wait("now"), finish("stop" if shown else "length"), usage(prompt, 5))
    too_long = [] if prompt == 9000 else [TOO_LONG]
    answers = [answered("a"), working, *too_long, answered("b")]
    async with chatting(answers, [answered("THE SUMMARY")]) as case:
        await case.turn("zero")
        await case.ours.prompt("one")
        await case.provider.until(lambda: "now" in case.provider.reached)
        await case.ours.tell("chat/promptSteer", {"chatId": "c", "message": "but not two"})
        case.provider.open("now")
        await case.ours.expect_finished()
    [(role, words)] = case.model_contexts[-1]
    assert role == "user"
    assert words.index("THE SUMMARY") < words.index("one") < words.index("but not two")
    assert words.count("one") == 1
    assert "but not two" not in str(case.summaries)


TOKENS_LEFT = {"autoCompactTokensLeft": 2500}
ALL_OF_IT = {"autoCompactPercentage": 100}


@pytest.mark.parametrize(
    ("config", "used", "compacts"),
    [
        ({}, 7000, False),
        ({}, 8000, True),
        (ALL_OF_IT, 9000, False),
        ({**ALL_OF_IT, "behavior": {"agent": {"autoCompactPercentage": 10}}}, 2000, True),
        ({"autoCompactTokensLeft": 1500}, 8000, False),
        ({**TOKENS_LEFT, **ALL_OF_IT}, 8000, True),
        ({"autoCompactTokensLeft": LIMIT, **ALL_OF_IT}, 8000, False),  # too small a model
        ({**TOKENS_LEFT, "agent": {"code": ALL_OF_IT}}, 8000, False),
        ({"agent": {"code": {**TOKENS_LEFT, **ALL_OF_IT}}}, 8000, True),
    ],
)
async def test_how_full_a_chat_may_be_is_configured(config, used, compacts):
    summaries = [answered("s")] if compacts else []
    async with chatting([answered("a", used), answered("b")], summaries, **config) as case:
        await case.turn("one")
        assert (COMPACTED in await case.turn("two")) is compacts


async def test_what_was_not_counted_by_the_provider_is_estimated():
    async with chatting([answered("a", 10**9), answered("b")], context=None) as case:
        await case.turn("one")
        assert COMPACTED not in await case.turn("two")
    async with chatting([answered("a"), answered("b")], [answered("s")]) as case:
        await case.turn("one")
        assert COMPACTED in await case.turn("x" * 4 * LIMIT)
        assert case.model_contexts[1][0][1].endswith("x" * 4 * LIMIT)


FAILURES = {
    "refused": Reply(status=400, body={"error": {"message": "no"}}),
    "empty": answered(" \n "),
    "cut": reply("half a summ", finish("length")),
    "filtered": reply("half a summ", finish("content_filter")),
    "broken": reply("half a summ", close()),
    "a call": reply(tool_call("eca_nothing", "{}"), finish("tool_calls")),
    "endless": reply("x" * (LONGEST_SUMMARY + 1), hang()),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_where_there_is_no_summary_the_chat_continues_whole(failure):
    async with chatting([FULL, answered("b")], [FAILURES[failure]]) as case:
        await case.turn("one")
        text = await case.turn("two")
    assert NOT_COMPACTED in text
    assert text.endswith("b")
    assert case.model_contexts[1] == [
        ("user", "one"),
        ("assistant", "one is done"),
        ("user", "two"),
    ]


async def test_a_summary_that_never_comes_is_waited_for_in_vain(autojump_clock):
    limits = dict.fromkeys(("streamIdleTimeoutSeconds", "noProgressTimeoutSeconds"), 10 * SECONDS)
    config = {"retry": {"maxRetries": 0}, **limits}
    async with chatting([FULL, answered("b")], [reply("half", hang())], **config) as case:
        await case.turn("one")
        begun = trio.current_time()
        assert f"longer than {SECONDS} s" in await case.turn("two")
        assert trio.current_time() - begun < SECONDS + 10
    assert len(case.model_contexts[1]) == 3


async def test_a_summary_that_failed_is_not_asked_for_again_in_that_turn():
    call = tool_call("eca_nothing", "{}")
    calling = reply(call, finish("tool_calls"), usage(9000, 5))
    refused = FAILURES["refused"]
    async with chatting([FULL, calling, answered("b")], [refused]) as case:
        await case.turn("one")
        assert (await case.turn("two")).count(NOT_COMPACTED) == 1


async def test_a_stop_ends_a_summary_and_nothing_is_lost():
    async with chatting([FULL, answered("c")], [reply("half", hang()), answered("S")]) as case:
        await case.turn("one")
        ours = case.ours
        await ours.prompt("two")
        await ours.content("progress", text="Compacting the chat")
        await case.provider.until(lambda: len(case.provider.requests) == 2)
        begun = len(ours.received)
        await ours.expect_stopped()
        last = [message["params"]["content"]["text"] for message in ours.received[begun:]]
        assert last == ["Stopped.", ""]
        await case.provider.until(lambda: case.provider.requests[1].closed_by_client)
        assert COMPACTED in await case.turn("three")
        past = case.summaries[1]["messages"][1]["content"]
        assert all(words in past for words in ("one", "one is done", "two"))
        assert past.count("user:\n") == 2  # the stop is none


async def test_a_request_that_is_too_long_even_so_ends_readably():
    answers = [TOO_LONG, answered("a"), TOO_LONG, TOO_LONG, answered("c")]
    async with chatting(answers, [answered("SUMMARY")]) as case:
        # A first prompt has nothing to summarize.
        assert "the conversation is too long" in await case.turn("one", chat="first")
        await case.turn("one")
        assert "the conversation is too long" in await case.turn("two")
        assert (await case.turn("three")).endswith("c")


async def test_a_past_that_is_too_long_for_one_request_is_cut_until_it_fits():
    answers = [answered("a" * 300_000), TOO_LONG, answered("b")]
    summaries = [TOO_LONG, TOO_LONG, answered("SUMMARY")]
    async with chatting(answers, summaries, context=None) as case:
        await case.turn("one")
        assert COMPACTED in await case.turn("two")
    sizes = [len(each["messages"][1]["content"]) for each in case.summaries]
    assert sizes[0] > 300_000
    assert 80_000 < sizes[1] < 110_000
    assert sizes[2] < 30_000
    assert "bytes left out" in case.summaries[2]["messages"][1]["content"]


async def test_a_past_that_never_fits_ends_readably():
    answers = [answered("a"), TOO_LONG, answered("c")]
    async with chatting(answers, [TOO_LONG] * 3, context=None) as case:
        await case.turn("one")
        text = await case.turn("two")
        assert NOT_COMPACTED in text
        assert text.count("the conversation is too long") == 2
        assert (await case.turn("three")).endswith("c")
    assert [words for _, words in case.model_contexts[2]] == ["one", "a", "two\n\nthree"]


async def test_the_user_compacts_a_chat_and_says_how():
    summaries = [FAILURES["empty"], answered("THE SUMMARY")]
    async with chatting([answered("a"), answered("b")], summaries) as case:
        assert "nothing to compact" in await case.turn("/compact")
        await case.turn("one")
        assert "cannot be used" in await case.turn("/compact", model="p/none")
        assert NOT_COMPACTED in await case.turn("/compact")
        assert case.ours.connection.chats.open("c").last_turn_failed
        received = await case.ours.turn("/compact keep  the names ")
        compacted, summary = [each["text"] for each in received if each["type"] == "text"][1:]
        assert COMPACTED in compacted
        assert summary.strip() == "THE SUMMARY"
        assert received.types[-2:] == ["usage", "finished"]
        assert "nothing to compact" in await case.turn("/compact")
        await case.turn("two")
        assert await case.texts_of_replay() == ["one", "a", HERE, "THE SUMMARY", "two", "b"]
    assert "keep  the names" in case.summaries[1]["messages"][1]["content"]
    assert "one" in case.summaries[1]["messages"][1]["content"]
    [(_, words)] = case.model_contexts[1]
    assert "THE SUMMARY" in words
    assert words.endswith("two")


@pytest.mark.parametrize("prompt", ["two", "/compact"])
async def test_another_server_continues_a_compacted_chat_from_its_summary(tmp_path, prompt):
    answers = [FULL, answered("b")] if prompt == "two" else [FULL]
    further = [answered("c"), answered("d")]
    async with chatting(answers, [answered("THE SUMMARY")], data=tmp_path) as first:
        await first.turn("one")
        assert COMPACTED in await first.turn(prompt)
        async with chatting(further, data=tmp_path) as second:  # the first may end in any way
            await second.turn("three")
            await second.turn("/resume 1", chat="resumed")
            await second.turn("four", chat="resumed")
    last, resumed = second.model_contexts
    for context in (last, resumed):
        assert "THE SUMMARY" in context[0][1]
        assert "one is done" not in str(context)
    assert last[-1][1].endswith("three")
    assert resumed[-1] == ("user", "four")
    if prompt == "two":
        assert last[0][1].endswith("two")
        assert last[1:] == [("assistant", "b"), ("user", "three")]
