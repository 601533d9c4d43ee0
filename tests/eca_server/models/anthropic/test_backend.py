"""The Messages API over real HTTP on loopback, against the scripted provider.

The common part of all backends (timers, drains, proxies, dropped fields) is tested with Chat
Completions.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import trio

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Provider, Reply
from eca_server.models.access import KeyAccess
from eca_server.models.answer import Answer
from eca_server.models.anthropic import Anthropic
from eca_server.models.anthropic.backend import MAX_PAUSES
from eca_server.models.backend import BackendError, ModelInfo, Request, Tool
from eca_server.models.events import Citation, Note, Started, Usage
from eca_server.models.facts import ModelFacts
from eca_server.models.history import (
    Message,
    Origin,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from eca_server.secret import Secret
from tests.eca_server.models.anthropic.scripted import (
    citation,
    redacted,
    reply,
    search,
    search_result,
    started,
    text,
    thinking,
    tool_use,
    wire,
)
from tests.eca_server.models.reading import HELLO, ask, failure

US = Origin(api="anthropic", provider="test", model="claude-opus-4-7")
INVALID = "invalid_request_error"
TOOL = Tool(name="f", description="d", parameters={"type": "object"})


def backend_at(url: str, http: HTTPClient, **options) -> Anthropic:
    access = KeyAccess(url=url, key=Secret("sk-ant-planted"), header="x-api-key")
    return Anthropic(**{"http": http, "origin": US, "access": access, **options})


@asynccontextmanager
async def talking(*script, **options) -> AsyncIterator[tuple[Provider, Anthropic]]:
    async with Provider(script) as provider, HTTPClient() as http:
        yield provider, backend_at(provider.url, http, **options)


def refusal(message: str, *, status: int = 400, kind: str = INVALID) -> Reply:
    error = {"type": kind, "message": message}
    body = {"type": "error", "error": error, "request_id": "req_e"}
    return Reply(status=status, body=body)


def after(request: Request, kept: Answer) -> Request:
    """Return the next request: the answer, then the results of its calls or a new prompt."""
    results = tuple(
        ToolResultPart(call_id=call.key, parts=(TextPart("done"),)) for call in kept.calls
    )
    last = (
        Message(role="tool", parts=results)
        if results
        else Message(role="user", parts=(TextPart("And?"),))
    )
    messages = [*request.messages, kept.message(US), last]
    return Request(messages=messages, tools=request.tools, system=request.system)


async def test_a_request_has_its_key_its_version_and_its_path():
    async with talking(reply(text("Hi"))) as (provider, backend):
        result, _ = await ask(backend)
        [request] = provider.requests
    assert (result.text, result.finished.reason) == ("Hi", "stop")
    assert result.usage == Usage(input=10, cache_read=30, cache_write=20, output=5)
    assert request.target == "/v1/messages"
    assert request.headers["x-api-key"] == "sk-ant-planted"
    assert "authorization" not in request.headers
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert "anthropic-beta" not in request.headers
    assert (request.body["model"], request.body["stream"]) == (US.model, True)


async def test_a_tool_of_the_provider_can_be_added_by_configuration():
    extra = {"tools": [{"type": "web_search_20260209", "name": "web_search"}]}
    request = Request(messages=HELLO.messages, tools=[TOOL])
    async with talking(reply(text("Hi")), extra_payload=extra) as (provider, backend):
        await ask(backend, request)
        [received] = provider.requests
    assert [tool["name"] for tool in received.body["tools"]] == ["f", "web_search"]


async def test_a_token_may_be_where_others_expect_it():
    async with Provider([reply(text("Hi"))]) as provider, HTTPClient() as http:
        base = provider.url.removesuffix("/v1")
        access = KeyAccess(url=base, key=Secret("token"))
        await ask(backend_at("", http, access=access))
        [request] = provider.requests
    assert request.target == "/v1/messages"
    assert request.headers["authorization"] == "Bearer token"
    assert "x-api-key" not in request.headers


async def test_a_model_that_needs_a_beta_for_its_thinking_names_it():
    origin = Origin(api="anthropic", provider="test", model="claude-sonnet-4-20250514")
    request = Request(messages=HELLO.messages, reasoning_effort="low")
    async with talking(reply(text("a")), reply(text("b")), origin=origin) as (provider, backend):
        await ask(backend, request)
        await ask(backend)
        with_thinking, without = provider.requests
    assert with_thinking.headers["anthropic-beta"] == "interleaved-thinking-2025-05-14"
    assert with_thinking.body["thinking"]["type"] == "enabled"
    assert "anthropic-beta" not in without.headers


async def test_what_the_model_thought_goes_back_byte_for_byte():
    blocks = [
        thinking("Hm", " m", signature="sig1"),
        redacted("ZGF0YQ=="),
        text("I look."),
        thinking(signature="sig2"),
        tool_use("f", '{"b": 1,', '"a": 2}', call_id="toolu_1"),
        tool_use("f", call_id="toolu_2"),
    ]
    request = Request(system="s", messages=HELLO.messages, tools=[TOOL])
    script = reply(*blocks, stop="tool_use"), reply(text("Done"))
    async with talking(*script) as (provider, backend):
        result, _ = await ask(backend, request)
        await ask(backend, after(request, result))
        first, second = provider.requests
    assert second.body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Hm m", "signature": "sig1"},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
        {"type": "text", "text": "I look."},
        {"type": "thinking", "thinking": "", "signature": "sig2"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"b": 1, "a": 2}},
        {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {}},
    ]
    [results] = second.body["messages"][2:]
    assert [block["tool_use_id"] for block in results["content"]] == ["toolu_1", "toolu_2"]
    for part in ("system", "tools"):
        assert first.body[part] == second.body[part]


async def test_an_answer_that_pauses_continues_as_if_it_had_not():
    cited = citation("https://a.example", "A")
    paused = reply(thinking("hm"), text("I search."), search("q"), stop="pause_turn")
    rest = reply(search_result("https://a.example"), text("As A says.", cites=[cited]))
    async with talking(paused, rest, reply(text("Yes"))) as (provider, backend):
        result, events = await ask(backend)
        await ask(backend, after(HELLO, result))
        _, second, third = provider.requests
    assert result.text == "I search.As A says."
    assert sum(isinstance(event, Started) for event in events) == 1
    assert result.finished.reason == "stop"
    assert [event.url for event in events if isinstance(event, Citation)] == ["https://a.example"]
    assert result.usage == Usage(input=20, cache_read=60, cache_write=40, output=10)
    request, sent_back = second.body["messages"]
    assert [request["role"], sent_back["role"]] == ["user", "assistant"]
    kinds = [block["type"] for block in sent_back["content"]]
    assert kinds == ["thinking", "text", "server_tool_use"]
    whole = third.body["messages"][1]["content"]
    assert whole[:3] == sent_back["content"]
    assert [block["type"] for block in whole[3:]] == ["web_search_tool_result", "text"]
    assert whole[4]["citations"] == [cited]


async def test_an_answer_may_end_where_it_paused():
    paused = reply(text("I search."), search("q"), stop="pause_turn")
    async with talking(paused, reply()) as (_, backend):
        result, _ = await ask(backend)
    assert (result.text, result.finished.reason) == ("I search.", "stop")


async def test_an_answer_that_only_pauses_has_an_end():
    paused = [reply(search("q"), search_result("u"), stop="pause_turn")] * (MAX_PAUSES + 1)
    async with talking(*paused) as (provider, backend):
        result, _ = await ask(backend)
        assert len(provider.requests) == MAX_PAUSES + 1
    assert result.finished.reason == "pause"


def thoughtful(*, signature="old") -> Request:
    thought = ReasoningPart(text="hm", opaque={"signature": signature})
    call = ToolCallPart(id="c", name="f", raw="{}", arguments={})
    result = ToolResultPart(call_id="c", parts=(TextPart("r"),))
    messages = [
        *HELLO.messages,
        Message(role="assistant", parts=(thought, call), origin=US),
        Message(role="tool", parts=(result,)),
    ]
    return Request(messages=messages, tools=[TOOL], reasoning_effort="low", cache_key="chat")


@pytest.mark.parametrize(
    "words",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`",
        "`thinking` blocks in the latest assistant message cannot be modified",
    ],
)
async def test_thinking_that_is_not_taken_back_is_left_out_of_one_more_try(words):
    script = [refusal(words), reply(text("a")), refusal(words), reply(text("b")), refusal(words)]
    async with talking(*script, refusal(words)) as (provider, backend):
        result, events = await ask(backend, thoughtful())
        _, again = await ask(backend, thoughtful())
        assert (await failure(backend, thoughtful())).kind == "invalid_request"
        first, second, *_ = provider.requests
    assert result.text == "a"
    assert [type(event) for event in (events[0], again[0])].count(Note) == 1, "told once a chat"
    assert "thinking" in str(first.body["messages"])
    assert "thinking" not in str(second.body["messages"])
    assert second.body["messages"][1]["content"][0]["type"] == "tool_use"


async def test_a_refusal_about_thinking_without_any_in_the_history_is_an_error():
    async with talking(refusal("thinking: expected something else")) as (provider, backend):
        assert (await failure(backend)).kind == "invalid_request"
        assert len(provider.requests) == 1


async def test_an_answer_that_would_not_fit_the_window_is_made_shorter_once():
    words = "input length and `max_tokens` exceed context limit: 180000 + 32000 > 200000"
    async with talking(refusal(words), reply(text("Hi")), refusal(words)) as (provider, backend):
        result, _ = await ask(backend)
        first, second = provider.requests
    assert result.text == "Hi"
    assert first.body["max_tokens"] == 32_000
    assert second.body["max_tokens"] == 200_000 - 180_000 - 256


async def test_a_prompt_that_fills_the_window_is_too_long():
    words = "input length and `max_tokens` exceed context limit: 199500 + 32000 > 200000"
    async with talking(refusal(words)) as (provider, backend):
        assert (await failure(backend)).kind == "context_overflow"
        assert len(provider.requests) == 1


async def test_the_limit_of_an_answer_is_learned_from_a_refusal():
    words = "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens"
    async with talking(refusal(words), reply(text("a")), reply(text("b"))) as (provider, backend):
        await ask(backend)
        await ask(backend)
        limits = [request.body["max_tokens"] for request in provider.requests]
    assert limits == [32_000, 8_192, 8_192]


async def test_marks_for_the_cache_are_left_out_where_they_are_refused():
    words = "messages.0.content.0.cache_control: Extra inputs are not permitted"
    script = refusal(words), reply(text("a")), reply(text("b")), refusal(words)
    request = Request(system="s", messages=HELLO.messages, tools=[TOOL])
    async with talking(*script) as (provider, backend):
        await ask(backend, request)
        await ask(backend, request)
        assert (await failure(backend, request)).kind == "unsupported_feature"
        marked = ["cache_control" in str(request.body) for request in provider.requests]
    assert marked == [True, False, False, False]


async def test_a_refused_answer_is_shown_and_is_not_in_the_next_request():
    refused = reply(
        text("Well"), stop="refusal", stop_details={"type": "refusal", "explanation": "No."}
    )
    async with talking(refused, reply(text("Hi"))) as (provider, backend):
        result, _ = await ask(backend)
        await ask(backend, after(HELLO, result))
        second = provider.requests[1]
    assert result.finished.reason == "refusal"
    [message] = second.body["messages"]
    assert [block["text"] for block in message["content"]] == ["Hello", "And?"]


async def test_pings_keep_the_connection_and_are_no_progress(autojump_clock):
    ping = b'event: ping\ndata: {"type":"ping"}\n\n'

    class Pinging(httpx.AsyncBaseTransport, httpx.AsyncByteStream):
        async def handle_async_request(self, request):
            return httpx.Response(200, stream=self)

        async def __aiter__(self):
            yield wire([started()])
            for _ in range(20):
                await trio.sleep(100)
                yield ping

    async with HTTPClient(transport=Pinging()) as http:
        error = await failure(backend_at("http://model", http))
    assert error.kind == "timeout"
    assert "no progress for 600 s" in error.message


class Answering(httpx.AsyncBaseTransport):
    """A transport with one answer after the other, which records the requests."""

    def __init__(self, *answers) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request):
        self.requests.append(request)
        status, body = self.answers.pop(0)
        return httpx.Response(status, json=body)


def supported(*names: str, of: tuple[str, ...]) -> dict:
    return {name: {"supported": name in names} for name in of}


async def test_models_are_listed_page_by_page_with_what_they_can_do():
    kinds = ("adaptive", "enabled", "disabled", "between_tools")
    efforts = ("low", "medium", "high", "max", "xhigh")
    result = {
        "id": "claude-a",
        "type": "model",
        "display_name": "A",
        "max_input_tokens": 1_000_000,
        "max_tokens": 128_000,
        "lifecycle": "active",
        "capabilities": {
            "image_input": {"supported": False},
            "thinking": {"supported": True, "types": supported("adaptive", of=kinds)},
            "effort": {"supported": True, **supported("low", "max", of=efforts)},
        },
    }
    pages = Answering(
        (200, {"data": [result], "has_more": True, "last_id": "claude a"}),
        (200, {"data": [{"id": "b"}, {"id": "c", "lifecycle": "retired"}], "has_more": False}),
    )
    async with HTTPClient(transport=pages) as http:
        models = await backend_at("http://h/v1", http).models()
    urls = [str(request.url) for request in pages.requests]
    assert urls == [
        "http://h/v1/models?limit=1000",
        "http://h/v1/models?limit=1000&after_id=claude%20a",
    ]
    can = ModelFacts(
        images=False,
        reasoning=True,
        context=1_000_000,
        output=128_000,
        thinking=frozenset({"adaptive"}),
        efforts=("low", "max"),
    )
    assert models == [ModelInfo(name="claude-a", facts=can), ModelInfo(name="b")]


@pytest.mark.parametrize("listed", [[], {}, {"data": 5}, {"data": [5]}, {"data": [{}]}])
async def test_a_listing_of_another_shape_cannot_be_read(listed):
    async with HTTPClient(transport=Answering((200, listed))) as http:
        with pytest.raises(BackendError) as caught:
            await backend_at("http://h", http).models()
    assert caught.value.kind == "protocol"
