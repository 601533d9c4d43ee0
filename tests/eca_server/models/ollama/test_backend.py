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
from eca_server.models.apis import APIS
from eca_server.models.backend import BackendError, ModelInfo, Request, Tool
from eca_server.models.events import Note, Progress, Usage
from eca_server.models.facts import Capabilities, ModelFacts
from eca_server.models.history import ImagePart, Message, Origin, TextPart, ToolResultPart
from eca_server.models.ollama import Ollama
from eca_server.models.ollama.backend import IN_MEMORY_SECONDS, METADATA_SECONDS
from eca_server.secret import Secret
from tests.eca_server.models.ollama.scripted import (
    call,
    calls,
    installed,
    reply,
    running,
    shown,
    text,
    thinking,
)
from tests.eca_server.models.reading import HELLO, ask, failure

US = Origin(api="ollama", provider="test", model="qwen3:8b")
TOOL = Tool(name="f", description="d", parameters={"type": "object"})
ABLE = Reply(body=shown("completion", "tools", "thinking", "vision"))
AWAKE_NOW = Reply(body=running(US.model, 16_384))
ASLEEP = Reply(body={"models": []})


def backend_at(url: str, http: HTTPClient, **options) -> Ollama:
    access = KeyAccess(url=url.removesuffix("/v1"))
    return Ollama(**{"http": http, "origin": US, "access": access, **options})


@asynccontextmanager
async def talking(*script, show=ABLE, ps=AWAKE_NOW, **options) -> AsyncIterator:
    others = {"/api/show": show, "/api/ps": ps}
    async with Provider(script, others=others) as provider, HTTPClient() as http:
        yield provider, backend_at(provider.url, http, **options)


def refusal(words: str, status: int = 400) -> Reply:
    return Reply(status=status, body={"error": words})


def paths(provider: Provider) -> list[str]:
    return [request.target for request in provider.other_requests]


def long(tokens: int, **fields) -> Request:
    message = Message(role="user", parts=(TextPart("word" * tokens),))
    return Request(messages=[message], **fields)


async def test_a_request_has_its_path_its_window_and_no_key():
    async with talking(reply(text("Hi"))) as (provider, backend):
        answer, events = await ask(backend, Request(system="Be brief.", messages=HELLO.messages))
        [request] = provider.requests
    assert (answer.text, answer.finished.reason) == ("Hi", "stop")
    assert answer.usage == Usage(input=26, output=7)
    assert not any(isinstance(event, Note | Progress) for event in events)
    assert request.target == "/api/chat"
    assert "authorization" not in request.headers
    assert request.body == {
        "model": "qwen3:8b",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello"},
        ],
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": {"num_ctx": 16_384},
    }


async def test_a_hosted_server_gets_the_key():
    async with Provider([reply(text("Hi"))]) as provider, HTTPClient() as http:
        access = KeyAccess(url=provider.url, key=Secret("planted"))
        await ask(backend_at("", http, access=access))
        assert provider.requests[0].headers["authorization"] == "Bearer planted"


async def test_a_loop_of_calls_goes_back_as_it_came():
    first = calls(call("f", {"n": 1}))
    second = calls(call("f", {"n": 2}))
    script = reply(thinking("Hm"), text("I look."), first, second), reply(text("Done"))
    async with talking(*script) as (provider, backend):
        result, _ = await ask(backend, Request(messages=HELLO.messages, tools=[TOOL]))
        assert [each.arguments for each in result.calls] == [{"n": 1}, {"n": 2}]
        results = tuple(
            ToolResultPart(call_id=each.key, parts=(TextPart(f"r{n}"),))
            for n, each in enumerate(result.calls)
        )
        last = Message(role="tool", parts=results)
        history = [*HELLO.messages, result.message(US), last]
        await ask(backend, Request(messages=history, tools=[TOOL]))
        _, again = provider.requests
    _, answer, *result_ = again.body["messages"]
    assert (answer["content"], answer["thinking"]) == ("I look.", "Hm")
    made = [each["function"] for each in answer["tool_calls"]]
    assert [each["arguments"] for each in made] == [{"n": 1}, {"n": 2}]
    assert [(each["tool_name"], each["content"]) for each in result_] == [("f", "r0"), ("f", "r1")]
    assert [each["tool_call_id"] for each in result_] == [
        each["id"] for each in answer["tool_calls"]
    ]


class TestAbilities:
    async def test_they_are_asked_once_and_only_when_the_model_is_used(self):
        async with talking(reply(text("a")), reply(text("b"))) as (provider, backend):
            assert provider.other_requests == []
            assert backend.capabilities.context is None
            await ask(backend)
            await ask(backend)
            assert paths(provider) == ["/api/ps", "/api/show"]
            assert provider.other_requests[1].body == {"model": US.model}
        assert backend.capabilities == Capabilities(
            tools=True, images=True, reasoning=True, context=65_536, output=65_536
        )

    async def test_a_server_that_does_not_know_them_is_asked_all_the_same(self):
        missing = Reply(status=404, body="404 page not found")
        async with talking(reply(text("a")), show=missing, ps=missing) as (provider, backend):
            answer, events = await ask(backend, Request(messages=HELLO.messages, tools=[TOOL]))
            assert "tools" in provider.requests[0].body
        assert answer.text == "a"
        assert not any(isinstance(event, Progress) for event in events)
        assert backend.capabilities.context == 65_536

    async def test_a_server_that_lists_them_slowly_delays_little(self, mock_clock):
        slow = Reply(before_headers=[wait("show")])
        async with talking(reply(text("a")), show=slow) as (provider, backend):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, backend)
                await provider.until(lambda: "show" in provider.reached)
                assert not provider.requests
                mock_clock.jump(METADATA_SECONDS)
            assert provider.requests[0].answered
            assert backend.capabilities.context == 65_536

    async def test_a_missing_server_is_reported_once(self):
        async with HTTPClient() as http:
            error = await failure(backend_at("http://127.0.0.1:9", http))
        assert (error.kind, error.retryable) == ("network", True)

    async def test_a_model_without_tools_gets_none_and_the_user_is_notified_once_a_chat(self):
        unable = Reply(body=shown("completion"))
        script = [reply(text("a"))] * 4
        async with talking(*script, show=unable) as (provider, backend):
            request = Request(messages=HELLO.messages, tools=[TOOL], cache_key="one")
            _, first = await ask(backend, request)
            _, second = await ask(backend, request)
            _, title = await ask(backend, Request(messages=HELLO.messages, cache_key="two"))
            other = Request(messages=HELLO.messages, tools=[TOOL], cache_key="two")
            _, third = await ask(backend, other)
            assert not any("tools" in each.body for each in provider.requests)
        notes = [[e for e in events if isinstance(e, Note)] for events in (first, second, title)]
        assert [len(each) for each in notes] == [1, 0, 0]
        assert "not support tools" in notes[0][0].text
        assert any(isinstance(event, Note) for event in third)

    async def test_pictures_are_for_those_that_see(self):
        picture = Message(role="user", parts=(ImagePart(media_type="image/png", data=b"i"),))
        async with talking(reply(text("a"))) as (provider, backend):
            await ask(backend, Request(messages=[picture]))
            assert "images" in provider.requests[0].body["messages"][0]
        blind = Reply(body=shown("completion", "tools"))
        async with talking(reply(text("a")), show=blind) as (provider, backend):
            await ask(backend, Request(messages=[picture]))
            assert "omitted" in provider.requests[0].body["messages"][0]["content"]


class TestRefusals:
    async def test_tools_are_left_out_of_one_more_try_and_from_then_on(self):
        words = "registry.ollama.ai/library/gemma:2b does not support tools"
        script = refusal(words), reply(text("a")), reply(text("b"))
        async with talking(*script, show=Reply(status=404)) as (provider, backend):
            request = Request(messages=HELLO.messages, tools=[TOOL], cache_key="chat")
            answer, first = await ask(backend, request)
            _, second = await ask(backend, request)
            offered = ["tools" in each.body for each in provider.requests]
        assert answer.text == "a"
        assert offered == [True, False, False]
        assert [sum(isinstance(e, Note) for e in events) for events in (first, second)] == [1, 0]

    async def test_thinking_too(self):
        script = refusal('"gemma:2b" does not support thinking'), reply(text("a")), reply(text("b"))
        async with talking(*script, show=Reply(status=404)) as (provider, backend):
            request = Request(messages=HELLO.messages, reasoning_effort="low")
            _, events = await ask(backend, request)
            await ask(backend, request)
            values = [each.body.get("think") for each in provider.requests]
        assert values == [True, None, None]
        [note] = [event for event in events if isinstance(event, Note)]
        assert "does not reason" in note.text

    async def test_both_at_once(self):
        words = "gemma:2b does not support tools\nthinking"
        script = refusal(words), refusal(words), reply(text("a"))
        async with talking(*script, show=Reply(status=404)) as (provider, backend):
            request = Request(messages=HELLO.messages, tools=[TOOL], reasoning_effort="low")
            _, events = await ask(backend, request)
            assert {"tools", "think"} & provider.requests[-1].body.keys() == set()
        assert sum(isinstance(event, Note) for event in events) == 2

    async def test_a_level_of_thinking_that_is_not_known_becomes_yes(self):
        show = Reply(body=shown("thinking", architecture="gptoss"))
        words = "json: cannot unmarshal string into Go struct field ChatRequest.think of type bool"
        async with talking(refusal(words), reply(text("a")), show=show) as (provider, backend):
            await ask(backend, Request(messages=HELLO.messages, reasoning_effort="low"))
            values = [each.body["think"] for each in provider.requests]
        assert values == ["low", True]

    async def test_pictures_that_are_refused_become_a_note(self):
        picture = Message(role="user", parts=(ImagePart(media_type="image/png", data=b"i"),))
        words = "image input is not supported - hint: you may need to provide the mmproj"
        script = refusal(words, 500), reply(text("a"))
        async with talking(*script, show=Reply(status=404)) as (provider, backend):
            await ask(backend, Request(messages=[picture]))
            assert "omitted" in provider.requests[1].body["messages"][0]["content"]

    async def test_what_is_about_something_else_is_an_error(self):
        async with talking(refusal('"x" does not support chat')) as (provider, backend):
            assert (await failure(backend)).status == 400
            assert len(provider.requests) == 1


class TestContext:
    async def test_it_is_the_same_for_each_caller_and_grows_with_the_need(self):
        script = [reply(text("a"))] * 4
        async with talking(*script) as (provider, backend):
            await ask(backend)
            await ask(backend, Request(system="A short summary.", messages=HELLO.messages))
            _, events = await ask(backend, long(20_000))
            await ask(backend)
            sizes = [each.body["options"]["num_ctx"] for each in provider.requests]
        assert sizes == [16_384, 16_384, 32_768, 32_768]
        assert events[0] == Progress("loading"), "another size is loaded anew"

    async def test_a_prompt_that_does_not_fit_makes_it_larger_as_far_as_it_goes(self):
        words = "the request exceeds the available context size, try increasing it"
        script = [refusal(words), refusal(words), reply(text("a")), refusal(words)]
        async with talking(*script) as (provider, backend):
            answer, _ = await ask(backend)
            assert (await failure(backend)).kind == "context_overflow"
            sizes = [each.body["options"]["num_ctx"] for each in provider.requests]
        assert answer.text == "a"
        assert sizes == [16_384, 32_768, 65_536, 65_536]

    async def test_the_limit_is_the_users(self):
        limits = Capabilities(context=100_000)
        async with talking(reply(text("a")), capabilities=limits) as (provider, backend):
            await ask(backend, long(120_000))
            assert provider.requests[0].body["options"]["num_ctx"] == 100_000
            assert backend.capabilities.context == 100_000

    async def test_the_users_own_number_stays_and_other_options_are_beside_it(self):
        extra = {"options": {"num_ctx": 9_999, "temperature": 0}, "keep_alive": "1h"}
        async with talking(reply(text("a")), extra_payload=extra) as (provider, backend):
            await ask(backend, long(50_000))
            body = provider.requests[0].body
            assert body["options"] == {"num_ctx": 9_999, "temperature": 0}
            assert body["keep_alive"] == "1h"
            assert backend.capabilities.context == 9_999

    async def test_options_that_are_none_are_passed_over(self):
        async with talking(reply(text("a")), extra_payload={"options": 5}) as (provider, backend):
            await ask(backend)
            assert provider.requests[0].body["options"] == {"num_ctx": 16_384}

    async def test_what_is_in_memory_already_is_not_loaded_anew(self):
        loaded = Reply(body=running(US.model, 40_000))
        async with talking(reply(text("a")), ps=loaded) as (provider, backend):
            _, events = await ask(backend)
            assert provider.requests[0].body["options"]["num_ctx"] == 40_000
            assert not any(isinstance(event, Progress) for event in events)

    async def test_a_model_that_runs_elsewhere_has_what_it_has(self):
        hosted = Reply(body=shown("completion", context=262_144, remote_host="https://x"))
        async with talking(reply(text("a")), show=hosted) as (provider, backend):
            await ask(backend, long(50_000))
            assert provider.requests[0].body["options"] == {}
            assert backend.capabilities.context == 262_144


async def test_a_model_that_has_to_be_loaded_says_so_at_once():
    async with talking(reply(text("a")), ps=ASLEEP) as (_, backend):
        _, events = await ask(backend)
    assert events[0] == Progress("loading")


async def test_a_model_may_have_left_memory_after_a_while(mock_clock):
    ps = {"/api/ps": AWAKE_NOW, "/api/show": ABLE}
    async with Provider([reply(text("a"))] * 3, others=ps) as provider, HTTPClient() as http:
        backend = backend_at(provider.url, http)
        await ask(backend)
        ps["/api/ps"] = ASLEEP
        _, soon = await ask(backend)
        mock_clock.jump(IN_MEMORY_SECONDS)
        _, later = await ask(backend)
    assert Progress("loading") not in soon
    assert later[0] == Progress("loading")


async def test_a_stop_while_the_model_is_loaded_closes_the_connection():
    waiting = Reply(before_headers=[wait("never")])
    async with talking(waiting, ps=ASLEEP) as (provider, backend):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def stop() -> None:
                    await provider.until(lambda: "never" in provider.reached)
                    scope.cancel()

                nursery.start_soon(stop)
                await ask(backend)
        await provider.until(lambda: provider.requests[0].closed_by_client)


async def test_installed_models_are_listed():
    tags = Reply(body={"models": [installed("a:1", "completion"), installed("b:1", "embedding")]})
    async with Provider([], others={"/api/tags": tags}) as provider, HTTPClient() as http:
        [listed] = await backend_at(provider.url, http).models()
    assert listed == ModelInfo(name="a:1", facts=ModelFacts(tools=False, images=False))


async def test_what_is_no_listing_is_a_protocol_error():
    tags = Reply(body={"data": []})
    async with Provider([], others={"/api/tags": tags}) as provider, HTTPClient() as http:
        with pytest.raises(BackendError, match="a list of models"):
            await backend_at(provider.url, http).models()


async def test_the_configuration_finds_it_by_its_name():
    assert APIS["ollama"].load() is Ollama
