"""Gemini over real HTTP on loopback, against the scripted provider."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Provider, Reply, reply
from eca_server.config import settings as config
from eca_server.models.access import KeyAccess
from eca_server.models.answer import Answer
from eca_server.models.backend import BackendError, Request, Tool
from eca_server.models.events import Note, ReasoningFinished, ReasoningStarted, Started
from eca_server.models.google import Google
from eca_server.models.google.messages import UNSIGNED
from eca_server.models.history import Message, Origin, TextPart, ToolCallPart, ToolResultPart
from eca_server.models.retry import RetryPolicy
from eca_server.secret import Secret
from tests.eca_server.models.google.scripted import (
    SIGNATURE,
    answer,
    call,
    refused,
    steps,
    text_part,
    thought,
)
from tests.eca_server.models.google.scripted import reply as gemini
from tests.eca_server.models.providers import models_of

pytestmark = pytest.mark.trio

USER = Message(role="user", parts=(TextPart("Hello"),))
HELLO = Request(messages=[USER], cache_key="chat")
TOOL = Tool(name="f", description="d", parameters={"properties": {"n": {"type": "integer"}}})
KEY = "AIzaPlantedKey"
ORIGIN = Origin(api="google", provider="google", model="gemini-3.1-pro")


@asynccontextmanager
async def talking(script, **options) -> AsyncIterator[tuple[Provider, Google]]:
    async with Provider(script) as server, HTTPClient() as http:
        access = KeyAccess(url=server.url, key=Secret(KEY), header="x-goog-api-key")
        yield server, Google(**{"http": http, "origin": ORIGIN, "access": access, **options})


async def ask(backend: Google, request: Request = HELLO) -> tuple[Answer, list]:
    read, emitted = Answer(), []
    async with backend.stream(request) as events:
        async for event in events:
            read.feed(event)
            emitted.append(event)
    return read, emitted


async def failure(backend: Google, request: Request = HELLO) -> BackendError:
    with pytest.raises(BackendError) as caught:
        await ask(backend, request)
    return caught.value


async def test_the_key_is_in_its_header_and_the_stream_is_asked_for():
    async with talking([gemini(text_part("Hel"), text_part("lo"))]) as (provider, backend):
        read, _ = await ask(backend)
        [request] = provider.requests
    assert (read.text, read.usage.output) == ("Hello", 25)
    assert request.target == "/v1/models/gemini-3.1-pro:streamGenerateContent?alt=sse"
    assert request.headers["x-goog-api-key"] == KEY
    assert "authorization" not in request.headers
    assert KEY not in request.target
    assert request.body["contents"] == [{"role": "user", "parts": [{"text": "Hello"}]}]


async def test_a_base_of_vertex_is_a_url_and_a_header():
    path = "/projects/p/locations/l/publishers/google"
    async with Provider([gemini(text_part("x"))]) as server, HTTPClient() as http:
        settings = config.Provider(
            api="google", url=server.url + path, extra_headers={"Authorization": "Bearer token"}
        )
        await ask(models_of({"vertex": settings}, http=http).backend("vertex/gemini-2.5-pro"))
        [request] = server.requests
    assert request.target.startswith(f"/v1{path}/models/gemini-2.5-pro:streamGenerateContent?")
    assert request.headers["authorization"] == "Bearer token"


async def test_a_configured_path_and_payload_are_used():
    extra = {
        "generationConfig": {"temperature": 0.5, "thinkingConfig": None},
        "safetySettings": [{"category": "X", "threshold": "OFF"}],
        "tools": [{"urlContext": {}}],
    }
    options = {
        "path": "/x/{model}:streamGenerateContent?a=b",
        "extra_payload": extra,
        "wire_model": "models/wire",
    }
    async with talking([gemini(text_part("x"))], **options) as (provider, backend):
        await ask(backend, Request(messages=[USER], tools=[TOOL], max_output_tokens=5))
        [request] = provider.requests
    assert request.target == "/v1/x/wire:streamGenerateContent?a=b"
    assert request.body["generationConfig"] == {"maxOutputTokens": 5, "temperature": 0.5}
    assert [*request.body["tools"][0], *request.body["tools"][1]] == [
        "functionDeclarations",
        "urlContext",
    ]


async def test_a_call_goes_back_signed_with_its_result_and_the_chat_continues():
    first = gemini(thought("hm"), call("f", {"n": 2**70}, signed=True, id="theirs"), call("f", {}))
    async with talking([first, gemini(text_part("done"))]) as (provider, backend):
        read, _ = await ask(backend, Request(messages=[USER], tools=[TOOL]))
        results = tuple(
            ToolResultPart(call_id=each.key, parts=(TextPart("out"),)) for each in read.calls
        )
        history = [USER, read.message(ORIGIN), Message(role="tool", parts=results)]
        read, _ = await ask(backend, Request(messages=history, tools=[TOOL]))
        _, second = provider.requests
    assert read.text == "done"
    assert second.body["contents"][1]["parts"] == [
        {"text": "hm", "thought": True},
        {
            "functionCall": {"name": "f", "args": {"n": 2**70}, "id": "theirs"},
            "thoughtSignature": SIGNATURE,
        },
        {"functionCall": {"name": "f", "args": {}}},
    ]
    assert second.body["contents"][2]["parts"] == [
        {"functionResponse": {"name": "f", "response": {"output": "out"}, "id": "theirs"}},
        {"functionResponse": {"name": "f", "response": {"output": "out"}}},
    ]


MISTAKE = steps(answer(thought("hm"), finish="MALFORMED_FUNCTION_CALL", finishMessage="print("))


async def test_a_call_that_cannot_be_read_is_requested_once_more_with_a_note():
    async with talking([MISTAKE, gemini(thought("so"), text_part("ok"))]) as (provider, backend):
        read, events = await ask(backend)
        first, second = provider.requests
    assert read.text == "ok"
    assert [type(each) for each in events].count(Started) == 1
    assert [type(each) for each in events].count(Note) == 1
    begun = [each.key for each in events if isinstance(each, ReasoningStarted)]
    assert begun == [each.key for each in events if isinstance(each, ReasoningFinished)]
    assert len(set(begun)) == 2
    [request] = second.body["contents"]
    assert request["parts"][0] == first.body["contents"][0]["parts"][0]
    assert "malformed function call" in request["parts"][1]["text"]


async def test_a_call_that_cannot_be_read_twice_is_a_readable_error():
    async with talking([MISTAKE, MISTAKE, gemini(text_part("never"))]) as (provider, backend):
        error = await failure(backend)
        assert len(provider.requests) == 2
    assert (error.kind, error.retryable) == ("protocol", False)
    assert "print(" in error.message


async def test_what_was_shown_before_a_call_that_cannot_be_read_is_not_repeated():
    ended = answer(text_part("I call"), text_part("f(n="), finish="MALFORMED_FUNCTION_CALL")
    async with talking([steps(ended), gemini(text_part("never"))]) as (provider, backend):
        assert (await failure(backend)).kind == "protocol"
        assert len(provider.requests) == 1


SIGNED_HISTORY = [
    USER,
    Message(
        role="assistant",
        parts=(
            ToolCallPart(
                id="k",
                name="f",
                raw="{}",
                arguments={},
                opaque={"part": {"thoughtSignature": SIGNATURE}},
            ),
        ),
        origin=ORIGIN,
    ),
    Message(role="tool", parts=(ToolResultPart(call_id="k", parts=(TextPart("out"),)),)),
]


@pytest.mark.parametrize(
    "refusal",
    [
        refused(400, "INVALID_ARGUMENT", "Corrupted thought signature."),
        steps(answer(finish="MISSING_THOUGHT_SIGNATURE")),
    ],
    ids=["refused", "in the stream"],
)
async def test_signatures_that_are_not_taken_back_are_left_out_once(refusal):
    async with talking([refusal, gemini(text_part("ok"))]) as (provider, backend):
        read, events = await ask(backend, Request(messages=SIGNED_HISTORY, cache_key="c"))
        first, second = provider.requests
    assert read.text == "ok"
    assert len([each for each in events if isinstance(each, Note)]) == 1
    assert SIGNATURE in json.dumps(first.body)
    assert SIGNATURE not in json.dumps(second.body)
    assert second.body["contents"][1]["parts"][0]["thoughtSignature"] == UNSIGNED


async def test_a_chat_is_notified_once_that_its_signatures_are_left_out():
    refusal = refused(400, "INVALID_ARGUMENT", "Corrupted thought signature.")
    script = [refusal, gemini(text_part("a"))] * 3
    async with talking(script) as (_, backend):
        notes = []
        for chat in ("one", "one", "another"):
            _, events = await ask(backend, Request(messages=SIGNED_HISTORY, cache_key=chat))
            notes.append(len([each for each in events if isinstance(each, Note)]))
    assert notes == [1, 0, 1]


async def test_a_refused_signature_without_any_of_ours_is_an_error():
    refusal = refused(400, "INVALID_ARGUMENT", "a call is missing a thought_signature")
    async with talking([refusal]) as (provider, backend):
        assert (await failure(backend)).kind == "invalid_request"
        assert len(provider.requests) == 1


async def test_what_a_model_refuses_is_left_out_and_remembered():
    script = [
        refused(400, "INVALID_ARGUMENT", "Thinking level LOW is not supported for this model."),
        refused(400, "INVALID_ARGUMENT", "Thinking is not enabled for this model."),
        gemini(text_part("a")),
        gemini(text_part("b")),
    ]
    sent_request = Request(messages=[USER], reasoning_effort="low")
    async with talking(script) as (provider, backend):
        await ask(backend, sent_request)
        await ask(backend, sent_request)
        bodies = [request.body for request in provider.requests]
    thinking = [body.get("generationConfig", {}).get("thinkingConfig") for body in bodies]
    full, shown = {"includeThoughts": True, "thinkingLevel": "LOW"}, {"includeThoughts": True}
    assert thinking == [full, shown, None, None]


async def test_what_one_model_refuses_another_of_its_provider_may_take():
    refusal = refused(400, "INVALID_ARGUMENT", "Thinking is not enabled for this model.")
    shared: set[str] = set()
    async with talking([refusal, gemini(text_part("a"))], refused=shared) as (_, backend):
        await ask(backend)
    assert shared == set()


async def test_a_failure_of_the_server_leaves_nothing_out():
    failing = refused(500, "INTERNAL", "thinking failed")
    async with talking([failing, gemini(text_part("never"))]) as (provider, backend):
        assert (await failure(backend)).kind == "overloaded"
        assert len(provider.requests) == 1


async def test_a_tool_whose_name_is_not_legal_is_called_by_its_own():
    tool = Tool(name="9f", description="d", parameters={})
    async with talking([gemini(call("_9f", {}))]) as (_, backend):
        read, _ = await ask(backend, Request(messages=[USER], tools=[tool]))
    [part] = read.message(ORIGIN).parts
    assert part.name == "9f"


async def test_tools_are_declared_in_openapi_where_json_schema_is_not_known():
    unknown = 'Invalid JSON payload received. Unknown name "parametersJsonSchema"'
    script = [refused(400, "INVALID_ARGUMENT", unknown), gemini(text_part("a"))]
    async with talking(script) as (provider, backend):
        await ask(backend, Request(messages=[USER], tools=[TOOL]))
        _, second = provider.requests
    [declared] = second.body["tools"][0]["functionDeclarations"]
    assert declared["parameters"] == {
        "type": "OBJECT",
        "properties": {"n": {"type": "INTEGER"}},
    }


QUOTA = "You exceeded your current quota, please check your plan and billing details."
RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"}


def quota(*periods: str) -> dict:
    violations = [{"quotaId": f"GenerateRequests{period}PerProjectPerModel"} for period in periods]
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}


BAD_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
INNER = json.dumps({"error": {"code": 503, "message": "inner", "status": "UNAVAILABLE"}})

ERRORS = [
    (refused(400, "INVALID_ARGUMENT", "API key expired.", BAD_KEY), "auth", None),
    (refused(400, "INVALID_ARGUMENT", "API key not valid."), "auth", None),
    (refused(403, "PERMISSION_DENIED", "no"), "permission", None),
    (refused(404, "NOT_FOUND", "models/x is not found for v1beta"), "model_not_found", None),
    (refused(429, "RESOURCE_EXHAUSTED", QUOTA, quota("PerMinute"), RETRY_INFO), "rate_limit", 17),
    (refused(429, "RESOURCE_EXHAUSTED", "Please retry in 2.5s."), "rate_limit", 2.5),
    (refused(429, "RESOURCE_EXHAUSTED", QUOTA, quota("PerMinute", "PerDay")), "quota", None),
    (refused(429, "RESOURCE_EXHAUSTED", QUOTA), "quota", None),
    (refused(500, "INTERNAL", "oops"), "overloaded", None),
    (refused(503, "UNAVAILABLE", "The model is overloaded."), "overloaded", None),
    (refused(504, "DEADLINE_EXCEEDED", "late"), "overloaded", None),
    (refused(500, "INTERNAL", INNER), "overloaded", None),
    (
        refused(
            400,
            "INVALID_ARGUMENT",
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        ),
        "context_overflow",
        None,
    ),
    (
        refused(400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes."),
        "request_too_large",
        None,
    ),
    (refused(400, "INVALID_ARGUMENT", "Unable to process input image."), "invalid_image", None),
    (
        refused(400, "INVALID_ARGUMENT", "Function calling is not enabled for models/gemma"),
        "unsupported_feature",
        None,
    ),
    (refused(400, "INVALID_ARGUMENT", "contents is required"), "invalid_request", None),
]


@pytest.mark.parametrize("listed", [False, True], ids=["plain", "in an array"])
@pytest.mark.parametrize(("answered", "kind", "delay"), ERRORS)
async def test_each_error_is_of_its_class(answered, kind, delay, listed):
    body = [answered.body] if listed else answered.body
    async with talking([Reply(status=answered.status, body=body)]) as (_, backend):
        error = await failure(backend)
    assert (error.kind, error.retry_after, error.status) == (kind, delay, answered.status)
    assert "{" not in error.message


async def test_a_refused_key_is_not_shown():
    said_back = refused(400, "INVALID_ARGUMENT", f"API key not valid: {KEY}{'x' * 30}")
    async with talking([said_back]) as (_, backend):
        assert KEY not in (await failure(backend)).message


async def test_a_wait_that_is_demanded_is_waited_and_an_exhausted_day_is_not():
    minute = refused(429, "RESOURCE_EXHAUSTED", QUOTA, quota("PerMinute"), RETRY_INFO)
    day = refused(429, "RESOURCE_EXHAUSTED", QUOTA, quota("PerDay"), RETRY_INFO)
    async with talking([minute, day]) as (_, backend):
        errors = [await failure(backend), await failure(backend)]
    waits = [RetryPolicy().wait(each, attempt=1, elapsed=0, jitter=0) for each in errors]
    assert waits == [17, None]


async def test_a_body_that_ends_with_its_connection_ends_well_only_behind_a_finish_reason():
    whole = answer(text_part("a"), text_part("b"))
    script = [steps(whole, close_delimited=True), steps(whole[:1], close_delimited=True)]
    async with talking(script) as (_, backend):
        assert (await ask(backend))[0].text == "ab"
        assert (await failure(backend)).kind == "premature_stop"


async def test_models_are_listed_over_all_pages_and_only_those_that_answer(monkeypatch):
    pages = {
        "/models?pageSize=1000": {
            "models": [
                {
                    "name": "models/gemini-x",
                    "inputTokenLimit": 1000,
                    "outputTokenLimit": 100,
                    "supportedGenerationMethods": ["generateContent", "countTokens"],
                    "thinking": True,
                },
                {"name": "models/embed", "supportedGenerationMethods": ["embedContent"]},
            ],
            "nextPageToken": "a/b",
        },
        "/models?pageSize=1000&pageToken=a%2Fb": {"models": [{"name": "models/gemini-y"}]},
    }

    async def get(path):
        return pages[path]

    async with talking([]) as (_, backend):
        monkeypatch.setattr(backend, "get", get)
        first, second = await backend.models()
        assert (first.name, second.name) == ("gemini-x", "gemini-y")
        facts = first.facts
        assert (facts.context, facts.output, facts.reasoning) == (
            1000,
            100,
            True,
        )
        pages["/models?pageSize=1000"] = {"publisherModels": [{"name": "publishers/g/models/z"}]}
        assert [each.name for each in await backend.models()] == ["z"]
        pages["/models?pageSize=1000"] = {"error": "odd"}
        with pytest.raises(BackendError, match="expected a list of models"):
            await backend.models()


async def test_the_provider_is_known_by_its_name():
    models = models_of({"google": config.Provider(key=Secret(KEY))})
    backend = models.backend("google/gemini-3.1-pro")
    assert isinstance(backend, Google)
    target = await backend.client.access.target(backend._path)
    assert target.url == (
        "https://generativelanguage.googleapis.com/v1beta"
        "/models/gemini-3.1-pro:streamGenerateContent?alt=sse"
    )
    assert target.headers == {"x-goog-api-key": KEY}


async def test_an_answer_of_another_api_is_reported_as_what_it_is():
    async with talking([reply("Chat Completions")]) as (_, backend):
        assert (await failure(backend)).kind == "protocol"
