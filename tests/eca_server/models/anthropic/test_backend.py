"""The Messages API over real HTTP on loopback, against the scripted provider.

The common part of all backends (timers, drains, proxies, dropped fields) is tested with Chat
Completions.
"""

from functools import partial

import httpx
import pytest
import trio

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Reply
from eca_server.models.access import KeyAccess
from eca_server.models.anthropic import Anthropic
from eca_server.models.anthropic.backend import MAX_PAUSES
from eca_server.models.backend import Request
from eca_server.models.events import Citation, Started, Usage
from eca_server.models.history import Origin
from eca_server.secret import Secret
from tests.eca_server.models.anthropic.scripted import (
    citation,
    reply,
    search,
    search_result,
    started,
    text,
    thinking,
    wire,
)
from tests.eca_server.models.reading import (
    HELLO,
    KEY,
    after,
    ask,
    failure,
    only,
    talking,
)

US = Origin(api="anthropic", provider="test", model="claude-opus-4-7")
HI = reply(text("Hi"))
talking = partial(talking, Anthropic, origin=US, header="x-api-key")


def backend_at(url: str, http: HTTPClient) -> Anthropic:
    return Anthropic(http=http, origin=US, access=KeyAccess(url=url, key=Secret(KEY)))


def refusal(message: str) -> Reply:
    error = {"type": "invalid_request_error", "message": message}
    return Reply(status=400, body={"type": "error", "error": error, "request_id": "req_e"})


async def test_a_model_that_needs_a_beta_for_its_thinking_names_it():
    origin = Origin(api="anthropic", provider="test", model="claude-sonnet-4-20250514")
    async with talking([HI, HI], origin=origin) as (provider, backend):
        await ask(backend, Request(messages=HELLO.messages, reasoning_effort="low"))
        await ask(backend)
        with_thinking, without = provider.requests
    assert with_thinking.headers["anthropic-beta"] == "interleaved-thinking-2025-05-14"
    assert with_thinking.body["thinking"]["type"] == "enabled"
    assert "anthropic-beta" not in without.headers


async def test_an_answer_that_pauses_continues_as_if_it_had_not():
    cited = citation("https://a.example", "A")
    paused = reply(thinking("hm"), text("I search."), search("q"), stop="pause_turn")
    rest = reply(search_result("https://a.example"), text("As A says.", cites=[cited]))
    async with talking([paused, rest, HI]) as (provider, backend):
        result, events = await ask(backend)
        await ask(backend, after(HELLO, result, backend))
        _, second, third = provider.requests
    assert result.text == "I search.As A says."
    assert len(only(Started, events)) == 1
    assert result.finished.reason == "stop"
    assert [event.url for event in only(Citation, events)] == ["https://a.example"]
    assert result.usage == Usage(input=20, cache_read=60, cache_write=40, output=10)
    request, sent_back = second.body["messages"]
    assert [request["role"], sent_back["role"]] == ["user", "assistant"]
    kinds = [block["type"] for block in sent_back["content"]]
    assert kinds == ["thinking", "text", "server_tool_use"]
    whole = third.body["messages"][1]["content"]
    assert whole[:3] == sent_back["content"]
    assert [block["type"] for block in whole[3:]] == ["web_search_tool_result", "text"]
    assert whole[4]["citations"] == [cited]


async def test_an_answer_may_end_where_it_paused_but_not_pause_for_ever():
    async with talking([reply(text("I search."), search("q"), stop="pause_turn"), reply()]) as (
        _,
        backend,
    ):
        result, _ = await ask(backend)
    assert (result.text, result.finished.reason) == ("I search.", "stop")
    pausing = reply(search("q"), search_result("u"), stop="pause_turn")
    async with talking([pausing] * (MAX_PAUSES + 1)) as (provider, backend):
        result, _ = await ask(backend)
        assert len(provider.requests) == MAX_PAUSES + 1
    assert result.finished.reason == "pause"


OVER = "input length and `max_tokens` exceed context limit"


MOST = "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens"


@pytest.mark.parametrize(
    ("words", "limits"),
    [
        (f"{OVER}: 180000 + 32000 > 200000", [32_000, 200_000 - 180_000 - 256, 32_000]),
        (MOST, [32_000, 8_192, 8_192]),
    ],
)
async def test_the_limit_of_an_answer_is_learned_from_a_refusal(words, limits):
    async with talking([refusal(words), HI, HI]) as (provider, backend):
        assert (await ask(backend))[0].text == (await ask(backend))[0].text == "Hi"
        assert [request.body["max_tokens"] for request in provider.requests] == limits


async def test_a_refused_answer_is_shown_and_is_not_in_the_next_request():
    details = {"type": "refusal", "explanation": "No."}
    async with talking([reply(text("Well"), stop="refusal", stop_details=details), HI]) as (
        provider,
        backend,
    ):
        result, _ = await ask(backend)
        await ask(backend, after(HELLO, result, backend))
        second = provider.requests[1]
    assert result.finished.reason == "refusal"
    [message] = second.body["messages"]
    assert [block["text"] for block in message["content"]] == ["Hello", "And?"]


async def test_pings_keep_the_connection_and_are_no_progress(autojump_clock):
    class Pinging(httpx.AsyncBaseTransport, httpx.AsyncByteStream):
        async def handle_async_request(self, request):
            return httpx.Response(200, stream=self)

        async def __aiter__(self):
            yield wire([started()])
            for _ in range(20):
                await trio.sleep(100)
                yield wire([{"type": "ping"}])

    async with HTTPClient(transport=Pinging()) as http:
        error = await failure(backend_at("http://model", http))
    assert error.kind == "timeout"
    assert "no progress for 600 s" in error.message
