"""Demands of servers: in a refusal, from then on, or by what they sent."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from eca_protocol.testing.provider import Reply, chunk, reply
from eca_server.models.backend import Request
from tests.eca_server.models.histories import (
    OURS,
    PICTURE,
    model,
    tool,
    tool_call,
    tool_result,
    user,
)
from tests.eca_server.models.openai_chat.scripted import delta
from tests.eca_server.models.reading import ask, notes, talking

talking = partial(talking, "openai-chat")

STOPPED = [user(), model(tool_call("call_1")), tool(tool_result("call_1")), user()]
SHOWN = [user(), model(tool_call("call_1")), tool(tool_result("call_1", PICTURE))]


def has_short_ids(messages: Sequence[Mapping[str, Any]]) -> bool:
    ids = [each["tool_call_id"] for each in messages if each["role"] == "tool"]
    return all(len(each) == 9 and each.isalnum() for each in ids)


def has_answered_results(messages: Sequence[Mapping[str, Any]]) -> bool:
    roles = [each["role"] for each in messages]
    return "tool user" not in " ".join(roles)


def has_texts(messages: Sequence[Mapping[str, Any]]) -> bool:
    return all(isinstance(each["content"], str | list) for each in messages)


@pytest.mark.parametrize(
    ("words", "is_accepted"),
    [
        ("Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.", has_short_ids),
        ("Tool call IDs should be alphanumeric strings with length 9!", has_short_ids),
        ("Unexpected role 'user' after role 'tool'", has_answered_results),
        ("conversation roles must alternate user and assistant roles", has_answered_results),
        ("Invalid 'content': 'content' field must be a string or an array of objects.", has_texts),
        ("body.messages.1.content.str: Input should be a valid string", has_texts),
        ("Unexpected 'content' of an assistant message: None", has_texts),
    ],
)
@pytest.mark.parametrize("history", [STOPPED, SHOWN])
async def test_a_demanded_option_is_used_from_then_on(words, is_accepted, history):
    accepted = []

    def script(request) -> Reply:
        accepted.append(is_accepted(request.body["messages"]))
        return reply("Hi") if accepted[-1] else Reply(status=400, body={"message": words})

    async with talking(script) as (_, backend):
        for _ in range(2):
            answer, events = await ask(backend, Request(messages=history))
            assert (answer.text, notes(events)) == ("Hi", [])
    assert accepted == [False, True, True]


@pytest.mark.parametrize(
    ("server", "content"), [("other", None), ("litellm", None), ("openai", None), ("lmstudio", "")]
)
async def test_calls_without_text_have_no_text_that_a_gateway_would_fill(server, content):
    async with talking([reply("Hi")], server=server) as (provider, backend):
        await ask(backend, Request(messages=STOPPED))
        [request] = provider.requests
    assert request.body["messages"][1]["content"] == content


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize(
    ("server", "is_back"),
    [("llama-cpp", True), ("vllm", True), ("lmstudio", True), ("deepseek", True), ("other", False)],
)
async def test_reasoning_goes_back_in_its_field_where_it_is_known_to_be_accepted(
    server, is_back, field
):
    replies = [reply(chunk(delta(**{field: "Hm"})), "Hi"), reply("Ho")]
    async with talking(replies, server=server) as (provider, backend):
        answer, _ = await ask(backend)
        await ask(backend, Request(messages=[user(), answer.message(OURS), user()]))
        [_, request] = provider.requests
    assert request.body["messages"][1].get(field) == ("Hm" if is_back else None)


async def test_several_options_may_be_demanded_of_one_request():
    refusals = ["tool call id: length of 9", "Unexpected role 'user' after role 'tool'"]
    refused = [Reply(status=400, body={"message": words}) for words in refusals]
    async with talking([*refused, reply("Hi")]) as (_, backend):
        assert (await ask(backend, Request(messages=STOPPED)))[0].text == "Hi"


async def test_litellm_gets_the_reasoning_of_claude_back_with_its_signatures():
    def thinking(text="", signature=None, **fields: Any) -> Any:
        block = {"type": "thinking", "thinking": text, "signature": signature}
        delta = {"thinking_blocks": [block], **fields}
        return chunk({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})

    deltas = [
        *(thinking("H", reasoning_content="H"), thinking("m"), thinking(signature="one")),
        *(thinking("So"), thinking(signature="two"), thinking("cut")),
    ]
    async with talking([reply(*deltas, "Hi"), reply("Ho")]) as (provider, backend):
        answer, _ = await ask(backend)
        messages = [user(), answer.message(OURS), user()]
        await ask(backend, Request(messages=messages))
        written = provider.requests[1].body["messages"][1]
    assert written["content"] == "Hi"
    assert written["thinking_blocks"] == [
        {"type": "thinking", "thinking": "Hm", "signature": "one"},
        {"type": "thinking", "thinking": "So", "signature": "two"},
    ]


@pytest.mark.parametrize(
    "words",
    [
        "Corrupted thought signature.",
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "The encrypted content gAAA could not be verified",
    ],
)
async def test_reasoning_that_a_provider_behind_a_gateway_refuses_is_left_out(words):
    details = [{"type": "reasoning.encrypted", "data": "abc", "index": 0}]
    thought = chunk({"choices": [{"index": 0, "delta": {"reasoning_details": details}}]})
    error = {"message": "Provider returned error", "metadata": {"raw": words}}

    def script(request) -> Reply:
        is_sent = any("reasoning_details" in each for each in request.body["messages"])
        return Reply(status=400, body={"error": error}) if is_sent else reply(thought, "Hi")

    async with talking(script, server="openrouter") as (provider, backend):
        answer, _ = await ask(backend)
        request = Request(messages=[user(), answer.message(OURS), user()])
        first, second = [await ask(backend, request) for _ in range(2)]
        assert [first[0].text, second[0].text] == ["Hi", "Hi"]
        assert [len(notes(events)) for _, events in (first, second)] == [1, 0]
        assert len(provider.requests) == 5


@pytest.mark.parametrize("history", [STOPPED, SHOWN, [*SHOWN, model("Hi"), user()]])
async def test_mistral_needs_no_refusal(history):
    async with talking([reply("Hi")], server="mistral") as (provider, backend):
        await ask(backend, Request(messages=history))
        [request] = provider.requests
    messages = request.body["messages"]
    assert has_short_ids(messages)
    assert has_answered_results(messages)
