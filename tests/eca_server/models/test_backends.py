"""The backends of all APIs over HTTP: headers, refusals, lists, and answers that go back."""

import json
from typing import Any

import attrs
import pytest

from eca_protocol.http import HTTPClient
from eca_protocol.http_request import HTTPRequest
from eca_protocol.testing.provider import Provider, Reply, chunk, finish, reasoning, reply
from eca_server.config.settings import Model
from eca_server.models import http_backend
from eca_server.models.backend import BackendError, ModelInfo, Request, Tool
from eca_server.models.facts import ModelFacts
from eca_server.models.http_backend import HTTPBackend
from tests.eca_server.models.anthropic import scripted as anthropic
from tests.eca_server.models.every_api import API, ScriptedAnswer, each_api
from tests.eca_server.models.google import scripted as google
from tests.eca_server.models.histories import user
from tests.eca_server.models.ollama import scripted as ollama
from tests.eca_server.models.openai_responses import scripted as responses
from tests.eca_server.models.reading import (
    HELLO,
    HISTORY,
    TOOL,
    after,
    ask,
    check_one_answer_of_two_tries,
    failure,
    models_of,
    notes,
)
from tests.scripted_http import ScriptedHTTPClient

HI = ScriptedAnswer(text=["Hi"])

HEADERS = {
    "anthropic": {
        "x-api-key": "plain-key-anthropic",
        "anthropic-version": "2023-06-01",
        "authorization": None,
        "anthropic-beta": None,
    },
    "google": {"x-goog-api-key": "plain-key-google", "authorization": None},
    "openai-responses": {"authorization": "Bearer plain-key-openai-responses"},
    "openai-chat": {"authorization": "Bearer plain-key-openai-chat"},
    "ollama": {"authorization": "Bearer plain-key-ollama", "accept": "application/x-ndjson"},
}


@each_api
async def test_a_request_has_its_key_and_asks_for_a_stream(api):
    async with api.talking([api.reply(HI)]) as (provider, backend):
        await ask(backend)
        [request] = provider.requests
    expected = {"accept": "text/event-stream", **HEADERS[api.name]}
    assert {name: request.headers.get(name) for name in expected} == expected
    assert "?alt=sse" in request.target if api.name == "google" else request.body["stream"]


NO_SUMMARY = "Your organization must be verified to generate reasoning summaries: reasoning.summary"
GEMINI_TOOLS = "Built-in tools ({google_search}) and Function Calling"
REFUSALS = [
    ("openai-chat", "Unsupported parameter: 'max_tokens'", "max_tokens", False),
    ("openai-chat", "body.stream_options: Extra inputs are not permitted", "stream_options", True),
    ("openai-chat", "Unsupported value: 'temperature' with this model", "temperature", False),
    ("openai-chat", "Unsupported value: 'reasoning_effort'", "reasoning_effort", False),
    ("openai-chat", "x does not support parameter reasoningEffort.", "reasoning_effort", False),
    ("openai-chat", "`temperature` is deprecated for this model.", "temperature", False),
    ("openai-chat", "Invalid parameter: stream_options", "stream_options", True),
    ("openai-responses", "Unsupported parameter: 'reasoning.effort'", "reasoning", False),
    ("openai-responses", f"Not supported: {NO_SUMMARY}", "summary", False),
    ("openai-responses", "include: encrypted content is not supported", "include", False),
    ("openai-responses", "Unsupported parameter: 'max_output_tokens'", "max_output_tokens", False),
    ("openai-responses", "Unsupported parameter: truncation", "truncation", False),
    ("openai-responses", "Unknown parameter: 'prompt_cache_key'.", "prompt_cache_key", True),
    ("openai-responses", "store: Extra inputs are not permitted", "store", True),
    (
        "anthropic",
        "content.0.cache_control: Extra inputs are not permitted",
        "cache_control",
        False,
    ),
    ("google", 'Unknown name "parametersJsonSchema": Cannot find', "parametersJsonSchema", False),
    ("google", GEMINI_TOOLS, "googleSearch", False),
    ("google", "Developer instruction is not enabled for models/g", "systemInstruction", False),
    ("google", "Thinking level LOW is not supported", "thinkingLevel", False),
    ("google", "Thinking is not enabled for this model", "thinkingConfig", False),
    ("ollama", "x/gemma:2b does not support tools", "tools", False),
    ("ollama", '"gemma:2b" does not support thinking', "think", False),
]
OTHER_MODELS = {"google": "gemini-3.1-flash", "anthropic": "claude-opus-5-5"}
COUNTING = Tool(name="f", description="d", parameters={"properties": {"n": {"type": "integer"}}})
FULL = Request(
    system="Be.",
    messages=[user()],
    tools=[COUNTING],
    max_output_tokens=9,
    reasoning_effort="low",
    cache_key="chat",
)


@pytest.mark.parametrize(("api", "words", "gone", "by_server"), REFUSALS)
async def test_what_the_server_refuses_all_its_models_leave_out_but_not_what_one_model_does(
    api, words, gone, by_server
):
    api = API[api]
    refused, hi = api.refusing(400, words=words), api.reply(HI)
    known = "openai" if api.name == "openai-responses" else api.name
    names = (api.model, OTHER_MODELS.get(api.name, "n"))
    facts = ModelFacts(web_search=api.name == "google")
    listed = {known: [ModelInfo(name=name, facts=facts) for name in names]}
    extra = {"temperature": 0} if api.name == "openai-chat" else {}
    async with Provider([refused, hi, hi, hi, refused]) as provider, HTTPClient() as http:
        settings = attrs.evolve(
            api.settings(provider.url), models=dict.fromkeys(names, Model(extra_payload=extra))
        )
        models = models_of({known: settings}, http=http, listed=listed)
        one, other = (models.backend(f"{known}/{name}") for name in names)
        note_counts = [len(notes((await ask(each, FULL))[1])) for each in (one, one, other)]
        bodies = [json.dumps(request.body) for request in provider.requests]
        if api.name != "google":  # which has more to leave out
            assert await failure(one, FULL)
    assert [f'"{gone}"' in body for body in bodies] == [True, False, False, not by_server]
    assert all('"Be."' in body and "Hello" in body for body in bodies)
    assert note_counts == [int(api.name == "ollama"), 0, 0]


OVER = "input length and `max_tokens` exceed context limit"


@pytest.mark.parametrize(
    ("api", "status", "words", "kind"),
    [
        ("openai-chat", 400, "unknown field messages", "unsupported_feature"),
        ("openai-chat", 400, "max_tokens is too large", "invalid_request"),
        ("openai-chat", 500, "Unsupported parameter: 'max_tokens'", "overloaded"),
        ("anthropic", 400, "thinking: expected something else", "invalid_request"),
        ("anthropic", 400, f"{OVER}: 199500 + 32000 > 200000", "context_overflow"),
        ("google", 400, "a call is missing a thought_signature", "invalid_request"),
        ("google", 500, "thinking failed", "overloaded"),
        ("google", 400, "contents is required", "invalid_request"),
        ("ollama", 400, '"x" does not support chat', "invalid_request"),
    ],
)
async def test_a_refusal_that_no_other_request_avoids_is_an_error(api, status, words, kind):
    api = API[api]
    async with api.talking([api.refusing(status, words=words)]) as (provider, backend):
        assert (await failure(backend, FULL)).kind == kind
        assert len(provider.requests) == 1


UNREADABLE = {
    "message": "Failed to call a function",
    "type": "invalid_request_error",
    "code": "tool_use_failed",
    "failed_generation": "<function=f{n:1}>",
}
REFUSED = Reply(status=400, body={"error": UNREADABLE})
FAILED = chunk({"error": UNREADABLE})
FILTER = "function_call_filter: MALFORMED_FUNCTION_CALL"
FILTERED = chunk({"choices": [{"delta": {}, "finish_reason": FILTER}]})
MALFORMED = {"finish": "MALFORMED_FUNCTION_CALL", "finishMessage": "print("}
MISTAKE = google.reply(google.thought("hm"), **MALFORMED)
LEAKED = google.reply(*map(google.text_part, ("I call", "f(n=")), **MALFORMED)


@pytest.mark.parametrize(
    ("api", "mistake", "words"),
    [
        ("openai-chat", REFUSED, "<function=f{n:1}>"),
        ("openai-chat", reply(FAILED), "<function=f{n:1}>"),
        ("openai-chat", reply(reasoning("Hm"), FAILED), "<function=f{n:1}>"),
        ("openai-chat", reply(FILTERED), "malformed function call"),
        ("google", MISTAKE, "malformed function call"),
    ],
)
async def test_a_call_that_cannot_be_read_is_asked_for_once_more(api, mistake, words):
    api = API[api]
    script = [mistake, api.reply(ScriptedAnswer(thoughts=["So"], text=["Hi"])), mistake, mistake]
    async with api.talking(script) as (provider, backend):
        answer, events = await ask(backend)
        error = await failure(backend)
        first, second, *_ = (request.body[HISTORY[api.name]] for request in provider.requests)
        assert len(provider.requests) == 4
    assert answer.text == "Hi"
    check_one_answer_of_two_tries(events)
    assert words in str(second)
    assert words not in str(first)
    assert error.code in ("tool_use_failed", "function_call_filter", "MALFORMED_FUNCTION_CALL")
    assert not error.retryable


@pytest.mark.parametrize(
    ("api", "mistake"), [("openai-chat", reply("Hel", FAILED)), ("google", LEAKED)]
)
async def test_a_call_that_cannot_be_read_behind_text_is_an_error(api, mistake):
    async with API[api].talking([mistake]) as (provider, backend):
        assert not (await failure(backend)).retryable
        assert len(provider.requests) == 1


THINKING = anthropic.reply(
    anthropic.thinking("Hm", " m", signature="sig1"),
    anthropic.redacted("ZGF0YQ=="),
    anthropic.text("I look."),
    anthropic.thinking(signature="sig2"),
    anthropic.tool_use("f", '{"b": 1,', '"a": 2}', call_id="toolu_1"),
    anthropic.tool_use("f", call_id="toolu_2"),
    stop="tool_use",
)
SEALED = {"google": {"thought_signature": "c2ln"}}
CALL = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
CHAT = [
    chunk({"choices": [{"index": 0, "delta": fields}]})
    for fields in ({"reasoning_content": "Hm"}, {"tool_calls": [{**CALL, "extra_content": SEALED}]})
]
SUMMARY = [{"type": "summary_text", "text": "why"}]


def tool_use(call_id: str, arguments: dict[str, int]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": arguments}


@pytest.mark.parametrize(
    ("api", "server", "made", "expected"),
    [
        (
            "anthropic",
            "anthropic",
            THINKING,
            [
                {"type": "thinking", "thinking": "Hm m", "signature": "sig1"},
                {"type": "redacted_thinking", "data": "ZGF0YQ=="},
                {"type": "text", "text": "I look."},
                {"type": "thinking", "thinking": "", "signature": "sig2"},
                tool_use("toolu_1", {"b": 1, "a": 2}),
                tool_use("toolu_2", {}),
            ],
        ),
        (
            "openai-chat",
            "deepseek",
            reply(*CHAT, finish("tool_calls")),
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "Hm",
                "tool_calls": [
                    {"type": "function", "function": CALL["function"], "extra_content": SEALED}
                ],
            },
        ),
        (
            "openai-responses",
            "openai",
            responses.reply(responses.reasoning("why"), responses.call("f", '{"a": 1}')),
            {"type": "reasoning", "id": "rs_0", "summary": SUMMARY, "encrypted_content": "gAAA"},
        ),
    ],
)
async def test_what_the_model_thought_goes_back_where_it_must(api, server, made, expected):
    request = attrs.evolve(HELLO, system="s", tools=[TOOL])
    api = API[api]
    async with Provider([made, api.reply(HI)]) as provider, HTTPClient() as http:
        settings = attrs.evolve(api.settings(provider.url), api=api.name)
        backend = models_of({server: settings}, http=http).backend(f"{server}/{api.model}")
        answer, _ = await ask(backend, request)
        await ask(backend, after(request, answer, backend))
        first, second = (each.body for each in provider.requests)
    back = second[HISTORY[api.name]][1 + (api.name == "openai-chat")]
    for call in back.get("tool_calls", ()):
        assert call.pop("id")
    assert (back["content"] if api.name == "anthropic" else back) == expected
    same = first.keys() - {HISTORY[api.name]}
    assert {name: first[name] for name in same} == {name: second[name] for name in same}


ANTHROPIC_MODEL = ModelInfo(
    name="claude-a",
    facts=ModelFacts(
        images=False,
        reasoning=True,
        context=1_000_000,
        output=128_000,
        thinking=frozenset({"adaptive", "disabled"}),
        efforts=("low", "max"),
    ),
)
METHODS = {"supportedGenerationMethods": ["generateContent", "countTokens"], "thinking": True}
GEMINI = {"name": "models/gemini-x", "inputTokenLimit": 1000, "outputTokenLimit": 100, **METHODS}
EMBED = {"name": "models/embed", "supportedGenerationMethods": ["embedContent"]}
GEMINI_X = ModelInfo(name="gemini-x", facts=ModelFacts(context=1000, output=100, reasoning=True))
TAGS = [
    ollama.installed("qwen3:8b", "completion", "tools", "thinking"),
    ollama.installed("llava:7b", "completion", "vision"),
    ollama.installed("embeddinggemma:latest", "embedding"),
    ollama.installed("nomic-embed-text:latest", family="nomic-bert"),
    ollama.installed("old:latest"),
]
LLAMA_CPP = {
    "id": "tiny",
    "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
    "meta": {"n_ctx": 5, "n_ctx_train": 9},
}
RETIRED = {"id": "c", "lifecycle": "retired"}
LISTS = [
    (
        "anthropic",
        {
            "/v1/models?limit=1000": {
                "data": [anthropic.LISTED],
                "has_more": True,
                "last_id": "claude a",
            },
            "/v1/models?limit=1000&after_id=claude%20a": {
                "data": [{"id": "b"}, RETIRED, LLAMA_CPP],
                "has_more": False,
            },
        },
        [
            ANTHROPIC_MODEL,
            ModelInfo(name="b"),
            ModelInfo(name="tiny", facts=ModelFacts(context=5, images=False)),
        ],
    ),
    (
        "google",
        {
            "/v1/models?pageSize=1000": {"models": [GEMINI, EMBED], "nextPageToken": "a/b"},
            "/v1/models?pageSize=1000&pageToken=a%2Fb": {"models": [{"name": "models/gemini-y"}]},
        },
        [GEMINI_X, ModelInfo(name="gemini-y")],
    ),
    (
        "google",
        {"/v1/models?pageSize=1000": {"publisherModels": [{"name": "publishers/g/models/z"}]}},
        [ModelInfo(name="z")],
    ),
    (
        "ollama",
        {"/v1/api/tags": {"models": TAGS}},
        [
            ModelInfo(name="qwen3:8b", facts=ModelFacts(tools=True, images=False, reasoning=True)),
            ModelInfo(name="llava:7b", facts=ModelFacts(tools=False, images=True)),
            ModelInfo(name="old:latest"),
        ],
    ),
    ("openai-chat", {"/v1/models": {"data": [{"id": "m"}]}}, [ModelInfo(name="m")]),
    ("openai-responses", {"/v1/models": {"data": [{"id": "m"}]}}, [ModelInfo(name="m")]),
]


def listing_backend(api: str, http: HTTPClient) -> HTTPBackend:
    made = models_of({api: API[api].settings("http://h/v1")}, http=http)
    return made.backend(f"{api}/{API[api].model}")


@pytest.mark.parametrize(("api", "pages", "models"), LISTS)
async def test_models_are_listed_over_all_pages_with_what_they_can_do(api, pages, models):
    def page(request: HTTPRequest) -> list[bytes]:
        return [json.dumps(pages.pop(request.url.removeprefix("http://h"))).encode()]

    async with ScriptedHTTPClient(page) as http:
        assert await listing_backend(api, http).models() == models
    assert not pages


async def test_only_the_first_models_of_a_huge_page_are_read(monkeypatch):
    monkeypatch.setattr(http_backend, "MAX_LISTED", 2)
    listed = {"data": [{"id": name} for name in "abc"]}
    async with HTTPClient() as http:
        models = listing_backend("openai-chat", http).parse_models(listed)
    assert [model.name for model in models] == ["a", "b"]


JSON = "application/json"


@pytest.mark.parametrize(
    ("api", "content_type", "body", "quoted"),
    [
        *(
            ("anthropic", JSON, body, "expected a list of models")
            for body in (b"[]", b"{}", b'{"data": 5}', b'{"data": [5]}', b'{"data": [{}]}')
        ),
        ("google", JSON, b'{"error": "odd"}', "expected a list of models"),
        ("ollama", JSON, b'{"data": []}', "expected a list of models"),
        ("openai-chat", JSON, '{"data":"\x9b31m\u202e"}'.encode(), r'got {"data":"\x9b31m\u202e'),
        ("openai-chat", "", b"\0\x1b[31m", "got binary data, not text"),
        ("openai-chat", "text/html", b"<title>Log in</title>", "network?): Log in"),
        (
            "openai-chat",
            "image/png",
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x1b[31m",
            "got image/png, not text",
        ),
    ],
)
async def test_a_listing_that_is_none_is_quoted_without_control_bytes(
    api, content_type, body, quoted
):
    async with ScriptedHTTPClient(lambda _: [body], headers={"content-type": content_type}) as http:
        with pytest.raises(BackendError) as caught:
            await listing_backend(api, http).models()
    assert caught.value.kind == "protocol"
    assert quoted in caught.value.message
    assert caught.value.message.isprintable()
