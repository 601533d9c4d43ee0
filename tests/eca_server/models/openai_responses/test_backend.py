"""Responses over real HTTP on loopback, against the scripted provider."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Provider, Reply
from eca_server.models.access import KeyAccess
from eca_server.models.answer import Answer
from eca_server.models.backend import Request
from eca_server.models.events import Note
from eca_server.models.facts import Capabilities
from eca_server.models.history import Message, Origin, TextPart, ToolResultPart
from eca_server.models.openai_responses import OpenAIResponses
from eca_server.secret import Secret
from tests.eca_server.models.openai_responses.scripted import (
    answer,
    call,
    message,
    reasoning,
    reply,
)
from tests.eca_server.models.reading import HELLO, ask, failure

USER = Message(role="user", parts=(TextPart("Hello"),))


@asynccontextmanager
async def talking(
    script, provider: str = "openai", **options
) -> AsyncIterator[tuple[Provider, OpenAIResponses]]:
    async with Provider(script) as server, HTTPClient() as http:
        origin = Origin(api="openai-responses", provider=provider, model="m")
        access = KeyAccess(url=server.url, key=Secret("sk-planted-key"))
        yield server, OpenAIResponses(http=http, origin=origin, access=access, **options)


def refused(status: int, text: str, **fields) -> Reply:
    return Reply(status=status, body={"error": {"message": text, **fields}})


async def test_a_question_and_its_answer():
    async with talking([reply(message("Hi"))]) as (server, backend):
        read, _ = await ask(backend)
    [request] = server.requests
    assert request.target == "/v1/responses"
    assert request.headers["authorization"] == "Bearer sk-planted-key"
    assert request.headers["accept"] == "text/event-stream"
    assert request.body["store"] is False
    assert (read.text, read.usage.input, read.finished.reason) == ("Hi", 30, "stop")


async def test_a_second_request_has_the_first_answer_with_the_ids_of_its_calls():
    script = [reply(reasoning("why"), call("read", '{"path": "a"}')), reply(message("Done"))]
    async with talking(script) as (server, backend):
        read, _ = await ask(backend)
        result = ToolResultPart(call_id=read.calls[0].key, parts=(TextPart("text"),))
        history = [USER, read.message(backend.origin), Message(role="tool", parts=(result,))]
        await ask(backend, Request(messages=history))
    thought, called, output = server.requests[1].body["input"][1:]
    assert (thought["type"], thought["encrypted_content"]) == ("reasoning", "gAAA")
    assert called["call_id"] == output["call_id"] == "call_theirs"


def with_reasoning(backend: OpenAIResponses) -> Request:
    read = Answer()
    decoder = backend.decoder(HELLO, {})
    for event in answer(reasoning("why"), message("a")):
        for result in decoder.feed_object(event):
            read.feed(result)
    return Request(messages=[USER, read.message(backend.origin), USER])


@pytest.mark.parametrize(
    ("status", "words", "code"),
    [
        (400, "The encrypted content could not be verified.", "invalid_encrypted_content"),
        (404, "Item with id 'rs_0' not found. Items are not persisted.", None),
        (400, "Item 'rs_0' was provided without its required following item.", None),
        (400, "Item 'msg_1' was provided without its required 'reasoning' item: 'rs_0'.", None),
    ],
)
async def test_reasoning_that_is_not_taken_back_is_left_out_once_and_for_all(status, words, code):
    refusal = refused(status, words, code=code)
    async with talking([refusal, reply(message("b")), reply(message("c"))]) as (server, backend):
        request = with_reasoning(backend)
        read, events = await ask(backend, request)
        await ask(backend, request)
    assert read.text == "b"
    assert len([event for event in events if isinstance(event, Note)]) == 1
    kinds = [[item.get("type") for item in each.body["input"]] for each in server.requests]
    assert kinds == [[None, "reasoning", "message", None], *[[None, "message", None]] * 2]


async def test_a_refusal_of_reasoning_that_was_not_sent_is_an_error():
    async with talking([refused(404, "Item with id 'rs_0' not found.")]) as (_, backend):
        assert (await failure(backend)).status == 404


@pytest.mark.parametrize(
    ("refusal", "gone"),
    [
        (
            refused(
                400,
                "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
                param="reasoning.effort",
            ),
            {"reasoning"},
        ),
        (
            refused(400, "Encrypted content is not supported with this model.", param="include"),
            {"include"},
        ),
        (refused(400, "Unknown parameter: 'prompt_cache_key'."), {"prompt_cache_key"}),
        (refused(422, "store: Extra inputs are not permitted"), {"store"}),
        (refused(400, "Unsupported parameter: truncation"), {"truncation"}),
    ],
)
async def test_a_field_that_is_refused_is_dropped_and_the_request_sent_again(refusal, gone):
    request = Request(messages=[USER], cache_key="chat", reasoning_effort="high")
    script = [refusal, reply(message("a")), reply(message("b"))]
    async with talking(script) as (server, backend):
        await ask(backend, request)
        await ask(backend, request)
    first, *later = (each.body.keys() for each in server.requests)
    assert [first - keys for keys in later] == [gone, gone]


async def test_a_summary_that_is_refused_takes_the_effort_not_with_it():
    words = "Your organization must be verified to generate reasoning summaries."
    refusal = refused(400, words, param="reasoning.summary", code="unsupported_value")
    async with talking([refusal, reply(message("a"))]) as (server, backend):
        await ask(backend, Request(messages=[USER], reasoning_effort="high"))
    assert [each.body["reasoning"] for each in server.requests] == [
        {"effort": "high", "summary": "auto"},
        {"effort": "high"},
    ]


@pytest.mark.parametrize(
    ("field", "of_all"),
    [("reasoning.effort", set()), ("max_output_tokens", set()), ("store", {"store"})],
)
async def test_what_one_model_refuses_another_may_take(field, of_all):
    request = Request(messages=[USER], reasoning_effort="high", max_output_tokens=9)
    refusal = refused(400, f"Unsupported parameter: '{field}'")
    shared: set[str] = set()
    async with talking([refusal, reply(message("a"))], refused=shared) as (_, backend):
        await ask(backend, request)
    assert shared == of_all


@pytest.mark.parametrize(
    "field", [{"reasoning": {"summary": "x"}}, {"reasoning": "summary"}, {"include": ["a"]}]
)
async def test_a_refused_field_of_the_configuration_is_dropped_too(field):
    [name] = field

    def script(request):
        if request.body.get(name):
            return refused(400, f"Unsupported parameter: {name} summary")
        return reply(message("a"))

    async with talking(script, extra_payload=field) as (server, backend):
        await ask(backend)
    assert len(server.requests) == 2


async def test_tools_of_the_configuration_are_added_to_ours():
    extra = {"tools": [{"type": "web_search", "search_context_size": "low"}], "seed": 1}
    searching = Capabilities(web_search=True)
    options = {"extra_payload": extra, "capabilities": searching}
    async with talking([reply(message("a"))], **options) as (server, backend):
        await ask(backend)
    body = server.requests[0].body
    assert body["tools"] == [{"type": "web_search"}, *extra["tools"]]
    assert body["seed"] == 1


async def test_the_models_are_listed():
    async with talking([]) as (server, backend):
        assert [model.name for model in await backend.models()] == ["scripted"]
    assert server.other_requests[0].target == "/v1/models"
