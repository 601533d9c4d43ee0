"""Ollama's own API over real HTTP on loopback, against the scripted provider.

The common part of all backends (timers, drains, proxies, dropped fields) is tested with Chat
Completions.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Provider, Reply, wait
from eca_server.models.access import KeyAccess
from eca_server.models.backend import Request
from eca_server.models.events import Progress, Usage
from eca_server.models.facts import Capabilities
from eca_server.models.history import Origin
from eca_server.models.ollama import Ollama
from eca_server.models.ollama.backend import IN_MEMORY_SECONDS, METADATA_SECONDS
from tests.eca_server.models.histories import PICTURE, user
from tests.eca_server.models.ollama.scripted import (
    reply,
    running,
    shown,
    text,
)
from tests.eca_server.models.reading import HELLO, TOOL, ask, failure, notes, only

US = Origin(api="ollama", provider="test", model="qwen3:8b")
A = reply(text("a"))
ABLE = Reply(body=shown("completion", "tools", "thinking", "vision"))
AWAKE_NOW = Reply(body=running(US.model, 16_384))
ASLEEP = Reply(body={"models": []})
MISSING = Reply(status=404, body="404 page not found")
LOADING = Progress("loading")


def backend_at(url: str, http: HTTPClient, **options) -> Ollama:
    access = KeyAccess(url=url.removesuffix("/v1"))
    return Ollama(**{"http": http, "origin": US, "access": access, **options})


@asynccontextmanager
async def talking(*script, show=ABLE, ps=AWAKE_NOW, others=None, **options) -> AsyncIterator:
    others = {"/api/show": show, "/api/ps": ps} if others is None else others
    async with Provider(script, others=others) as provider, HTTPClient() as http:
        yield provider, backend_at(provider.url, http, **options)


def refusal(words: str, status: int = 400) -> Reply:
    return Reply(status=status, body={"error": words})


def asking(prompt=HELLO.messages[0], **fields) -> Request:
    return Request(messages=[prompt], **fields)


def long(tokens: int) -> Request:
    return asking(user("word" * tokens))


def sent(provider: Provider, field: str) -> list:
    return [request.body.get(field) for request in provider.requests]


def windows(provider: Provider) -> list[int]:
    return [options["num_ctx"] for options in sent(provider, "options")]


async def test_a_request_has_its_path_its_window_and_no_key():
    async with talking(reply(text("Hi"))) as (provider, backend):
        answer, events = await ask(backend, asking(system="Be brief."))
        [request] = provider.requests
    assert (answer.text, answer.finished.reason) == ("Hi", "stop")
    assert answer.usage == Usage(input=26, output=7)
    assert notes(events) == only(Progress, events) == []
    assert request.target == "/api/chat"
    assert "authorization" not in request.headers
    assert request.body["options"] == {"num_ctx": 16_384}


async def test_abilities_are_asked_once_and_only_when_the_model_is_used():
    async with talking(A, A) as (provider, backend):
        assert provider.other_requests == []
        assert backend.capabilities.context is None
        await ask(backend)
        await ask(backend)
        ps, show = provider.other_requests
    assert (ps.target, show.target) == ("/api/ps", "/api/show")
    assert show.body == {"model": US.model}
    can = {"tools": True, "images": True, "reasoning": True}
    assert backend.capabilities == Capabilities(**can, context=65_536, output=65_536)


async def test_a_server_that_does_not_know_abilities_is_asked_all_the_same():
    async with talking(A, show=MISSING, ps=MISSING) as (provider, backend):
        answer, events = await ask(backend, asking(tools=[TOOL]))
        assert sent(provider, "tools") != [None]
    assert answer.text == "a"
    assert only(Progress, events) == []
    assert backend.capabilities.context == 65_536


async def test_a_server_that_lists_abilities_slowly_delays_little(mock_clock):
    slow = Reply(before_headers=[wait("show")])
    async with talking(A, show=slow) as (provider, backend):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, backend)
            await provider.until(lambda: "show" in provider.reached)
            assert not provider.requests
            mock_clock.jump(METADATA_SECONDS)
        assert provider.requests[0].answered
        assert backend.capabilities.context == 65_536


async def test_a_missing_server_is_reported_once():
    async with HTTPClient() as http:
        error = await failure(backend_at("http://127.0.0.1:9", http))
    assert (error.kind, error.retryable) == ("network", True)


async def test_a_model_without_tools_gets_none_and_the_user_is_notified_once_a_chat():
    async with talking(*[A] * 4, show=Reply(body=shown("completion"))) as (provider, backend):
        told = [
            notes((await ask(backend, asking(tools=tools, cache_key=chat)))[1])
            for chat, tools in (("one", [TOOL]), ("one", [TOOL]), ("two", []), ("two", [TOOL]))
        ]
        assert sent(provider, "tools") == [None] * 4
    assert [len(each) for each in told] == [1, 0, 0, 1]
    assert "not support tools" in told[0][0]


@pytest.mark.parametrize(
    ("script", "show"),
    [
        ([A], Reply(body=shown("completion", "tools"))),
        ([refusal("image input is not supported - hint: the mmproj", 500), A], MISSING),
    ],
)
async def test_pictures_are_for_models_that_see(script, show):
    async with talking(*script, show=show) as (provider, backend):
        await ask(backend, asking(user(PICTURE)))
        assert "omitted" in provider.requests[-1].body["messages"][0]["content"]
    async with talking(A) as (provider, backend):
        await ask(backend, asking(user(PICTURE)))
        assert "images" in provider.requests[0].body["messages"][0]


async def test_a_level_of_thinking_that_is_not_known_becomes_yes():
    show = Reply(body=shown("thinking", architecture="gptoss"))
    words = "json: cannot unmarshal string into Go struct field ChatRequest.think of type bool"
    async with talking(refusal(words), A, show=show) as (provider, backend):
        await ask(backend, asking(reasoning_effort="low"))
        assert sent(provider, "think") == ["low", True]


async def test_the_window_is_the_same_for_each_caller_and_grows_with_the_need():
    async with talking(*[A] * 4) as (provider, backend):
        await ask(backend)
        await ask(backend, asking(system="A short summary."))
        _, events = await ask(backend, long(20_000))
        await ask(backend)
        assert windows(provider) == [16_384, 16_384, 32_768, 32_768]
    assert events[0] == LOADING, "another size is loaded anew"


async def test_a_prompt_that_does_not_fit_makes_the_window_larger_as_far_as_it_goes():
    full = refusal("the request exceeds the available context size, try increasing it")
    async with talking(full, full, A, full) as (provider, backend):
        assert (await ask(backend))[0].text == "a"
        assert (await failure(backend)).kind == "context_overflow"
        assert windows(provider) == [16_384, 32_768, 65_536, 65_536]


HOSTED = Reply(body=shown("completion", context=262_144, remote_host="https://x"))
OWN = {"options": {"num_ctx": 9_999, "temperature": 0}, "keep_alive": "1h"}


@pytest.mark.parametrize(
    ("options", "sent_options", "context"),
    [
        ({"capabilities": Capabilities(context=100_000)}, {"num_ctx": 100_000}, 100_000),
        ({"extra_payload": OWN}, OWN["options"], 9_999),
        ({"show": HOSTED}, {}, 262_144),
        ({"extra_payload": {"options": 5}}, {"num_ctx": 65_536}, 65_536),
        ({"ps": Reply(body=running(US.model, 200_000))}, {"num_ctx": 131_072}, 131_072),
    ],
)
async def test_the_limit_of_the_window_is_the_users_or_what_is_loaded_or_hosted(
    options, sent_options, context
):
    async with talking(A, **options) as (provider, backend):
        await ask(backend, long(120_000))
        body = provider.requests[0].body
        assert body["options"] == sent_options
        assert body.get("keep_alive") == options.get("extra_payload", {}).get("keep_alive")
        assert backend.capabilities.context == context


async def test_a_model_that_has_to_be_loaded_says_so_and_may_leave_memory(mock_clock):
    others = {"/api/ps": AWAKE_NOW, "/api/show": ABLE}
    async with talking(A, A, A, A, others=others) as (_, backend):
        _, first = await ask(backend)
        others["/api/ps"] = ASLEEP
        _, soon = await ask(backend)
        mock_clock.jump(IN_MEMORY_SECONDS)
        _, later = await ask(backend)
    assert LOADING not in (*first, *soon)
    assert later[0] == LOADING
