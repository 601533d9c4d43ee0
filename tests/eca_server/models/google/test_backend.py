"""Gemini over real HTTP on loopback, against the scripted provider."""

from functools import partial

import pytest

from eca_server.models.backend import BackendError, Request, Tool
from eca_server.models.google import Google
from eca_server.models.history import Origin
from tests.eca_server.models.google.scripted import (
    answer,
    call,
    refused,
    reply,
    steps,
    text_part,
    thought,
)
from tests.eca_server.models.histories import user
from tests.eca_server.models.reading import (
    KEY,
    TOOL,
    ask,
    check_one_answer_of_two_tries,
    failure,
    talking,
)

ORIGIN = Origin(api="google", provider="google", model="gemini-3.1-pro")
talking = partial(talking, Google, origin=ORIGIN, header="x-goog-api-key")
NEVER = reply(text_part("never"))


def invalid(message: str):
    return refused(400, "INVALID_ARGUMENT", message)


async def test_the_key_is_in_its_header_and_the_stream_is_asked_for():
    async with talking([reply(text_part("Hel"), text_part("lo"))]) as (provider, backend):
        read, _ = await ask(backend)
        [request] = provider.requests
    assert (read.text, read.usage.output) == ("Hello", 25)
    assert request.target == "/v1/models/gemini-3.1-pro:streamGenerateContent?alt=sse"
    assert request.headers["x-goog-api-key"] == KEY
    assert "authorization" not in request.headers
    assert request.body["contents"] == [{"role": "user", "parts": [{"text": "Hello"}]}]


async def test_a_configured_path_and_payload_are_used():
    extra = {
        "generationConfig": {"temperature": 0.5, "thinkingConfig": None},
        "tools": [{"urlContext": {}}],
    }
    path = "/x/{model}:streamGenerateContent?a=b"
    options = {"path": path, "extra_payload": extra, "wire_model": "models/wire"}
    async with talking([reply(text_part("x"))], **options) as (provider, backend):
        await ask(backend, Request(messages=[user()], tools=[TOOL], max_output_tokens=5))
        [request] = provider.requests
    assert request.target == "/v1/x/wire:streamGenerateContent?a=b"
    assert request.body["generationConfig"] == {"maxOutputTokens": 5, "temperature": 0.5}
    assert [*map(list, request.body["tools"])] == [["functionDeclarations"], ["urlContext"]]


MISTAKE = steps(answer(thought("hm"), finish="MALFORMED_FUNCTION_CALL", finishMessage="print("))
SHOWN = steps(answer(text_part("I call"), text_part("f(n="), finish="MALFORMED_FUNCTION_CALL"))


async def test_a_call_that_cannot_be_read_is_requested_once_more_with_a_note():
    async with talking([MISTAKE, reply(thought("so"), text_part("ok"))]) as (provider, backend):
        read, events = await ask(backend)
        first, second = provider.requests
    assert read.text == "ok"
    check_one_answer_of_two_tries(events)
    [request] = second.body["contents"]
    assert request["parts"][0] == first.body["contents"][0]["parts"][0]
    assert "malformed function call" in request["parts"][1]["text"]


@pytest.mark.parametrize(("mistake", "tries", "words"), [(MISTAKE, 2, "print("), (SHOWN, 1, "")])
async def test_a_call_that_is_never_read_is_an_error_and_so_is_one_behind_text(
    mistake, tries, words
):
    async with talking([mistake, mistake, NEVER]) as (provider, backend):
        error = await failure(backend)
        assert len(provider.requests) == tries
    assert (error.kind, error.retryable) == ("protocol", False)
    assert words in error.message


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (invalid("a call is missing a thought_signature"), "invalid_request"),
        (refused(500, "INTERNAL", "thinking failed"), "overloaded"),
    ],
)
async def test_a_refusal_of_what_was_not_sent_leaves_nothing_out(refusal, kind):
    async with talking([refusal, NEVER]) as (provider, backend):
        assert (await failure(backend)).kind == kind
        assert len(provider.requests) == 1


async def test_what_a_model_refuses_is_left_out_and_remembered_of_this_model_alone():
    script = [
        invalid("Thinking level LOW is not supported for this model."),
        invalid("Thinking is not enabled for this model."),
        reply(text_part("a")),
        reply(text_part("b")),
    ]
    sent_request = Request(messages=[user()], reasoning_effort="low")
    shared: set[str] = set()
    async with talking(script, refused=shared) as (provider, backend):
        await ask(backend, sent_request)
        await ask(backend, sent_request)
        bodies = [request.body for request in provider.requests]
    thinking = [body.get("generationConfig", {}).get("thinkingConfig") for body in bodies]
    full, shown = {"includeThoughts": True, "thinkingLevel": "LOW"}, {"includeThoughts": True}
    assert thinking == [full, shown, None, None]
    assert shared == set()


async def test_a_tool_whose_name_is_not_legal_is_called_by_its_own():
    request = Request(messages=[user()], tools=[Tool(name="9f", description="d", parameters={})])
    async with talking([reply(call("_9f", {}))]) as (_, backend):
        read, _ = await ask(backend, request)
    [part] = read.message(ORIGIN).parts
    assert part.name == "9f"


async def test_tools_are_declared_in_openapi_where_json_schema_is_not_known():
    unknown = invalid('Invalid JSON payload received. Unknown name "parametersJsonSchema"')
    number = {"properties": {"n": {"type": "integer"}}}
    counting = Tool(name="f", description="d", parameters=number)
    async with talking([unknown, reply(text_part("a"))]) as (provider, backend):
        await ask(backend, Request(messages=[user()], tools=[counting]))
        _, second = provider.requests
    [declared] = second.body["tools"][0]["functionDeclarations"]
    assert declared["parameters"] == {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}


async def test_models_are_listed_over_all_pages_and_only_those_that_answer(monkeypatch):
    methods = {"supportedGenerationMethods": ["generateContent", "countTokens"], "thinking": True}
    listed = {"name": "models/gemini-x", "inputTokenLimit": 1000, "outputTokenLimit": 100}
    embed = {"name": "models/embed", "supportedGenerationMethods": ["embedContent"]}
    pages = {
        "/models?pageSize=1000": {"models": [listed | methods, embed], "nextPageToken": "a/b"},
        "/models?pageSize=1000&pageToken=a%2Fb": {"models": [{"name": "models/gemini-y"}]},
    }

    async def get(path):
        return pages[path]

    async with talking([]) as (_, backend):
        monkeypatch.setattr(backend, "get", get)
        first, second = await backend.models()
        assert (first.name, second.name) == ("gemini-x", "gemini-y")
        facts = first.facts
        assert (facts.context, facts.output, facts.reasoning) == (1000, 100, True)
        pages["/models?pageSize=1000"] = {"publisherModels": [{"name": "publishers/g/models/z"}]}
        assert [each.name for each in await backend.models()] == ["z"]
        pages["/models?pageSize=1000"] = {"error": "odd"}
        with pytest.raises(BackendError, match="expected a list of models"):
            await backend.models()
