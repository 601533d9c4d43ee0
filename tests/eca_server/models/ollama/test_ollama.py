"""Peculiarities of Ollama's own API: its models, the size of their context, and its backend."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from eca_protocol.http import HTTPClient
from eca_protocol.sse import SSEvent
from eca_protocol.testing.provider import Provider, Reply, wait
from eca_server.models.backend import BackendError, Request
from eca_server.models.events import Finished, Progress, Usage
from eca_server.models.facts import Capabilities
from eca_server.models.history import Message, ReasoningPart
from eca_server.models.ollama.address import address_of
from eca_server.models.ollama.backend import (
    IN_MEMORY_SECONDS,
    METADATA_SECONDS,
    think_value,
)
from eca_server.models.ollama.context import FIRST, ContextSize
from eca_server.models.ollama.decoder import OllamaDecoder
from eca_server.models.ollama.models import ModelDetails, loaded_context, read_details
from tests.eca_server.models.every_api import API
from tests.eca_server.models.histories import (
    OURS,
    PICTURE,
    THEIRS,
    model,
    tool,
    tool_call,
    tool_result,
    user,
)
from tests.eca_server.models.ollama.scripted import answer, message, reply, running, shown, text
from tests.eca_server.models.reading import (
    HELLO,
    TOOL,
    ask,
    backend_of,
    failure,
    notes,
    only,
    text_of,
    thoughts_of,
    write,
    write_history,
)

ONE = {"raw": '{"n":1}', "arguments": {"n": 1}}


def called(origin=OURS) -> Message:
    return model(ReasoningPart(text="Hm"), tool_call("a", "tool_a", **ONE), origin=origin)


def test_thoughts_go_back_to_the_very_model_that_had_them():
    ours, theirs = (
        write_history("ollama", user(), called(origin), tool(tool_result("a")))[1]
        for origin in (OURS, THEIRS)
    )
    assert ours["thinking"] == "Hm"
    assert "thinking" not in theirs
    assert theirs["tool_calls"], "but its calls are kept"


def test_a_model_that_calls_no_tools_reads_of_calls_as_text():
    history = [user(), called(THEIRS), tool(tool_result("a", is_error=True)), user("And?")]
    assert write_history("ollama", *history, calls_tools=False) == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": '[called tool_a with {"n":1}]'},
        {"role": "user", "content": "[result of tool_a]\n\nError:\n\nr"},
        {"role": "user", "content": "And?"},
    ]


def test_options_of_the_user_replace_ours_and_a_null_removes_one():
    options = {"temperature": 0, "num_ctx": None, "num_predict": 5}
    payload = write("ollama", user(), extra_payload={"options": options}, max_output_tokens=9)
    assert payload["options"] == {"temperature": 0, "num_predict": 5}


LEVELS = ("low", "medium", "high")


@pytest.mark.parametrize(
    ("effort", "thinks", "efforts", "value"),
    [
        ("high", False, (), None),
        ("high", True, LEVELS, "high"),
        ("max", True, LEVELS, "high"),
        ("minimal", True, LEVELS, "low"),
        ("none", True, LEVELS, "low"),
        ("own word", True, ("low",), "own word"),
    ],
)
def test_an_effort_is_asked_for_as_the_server_says_that_the_model_takes_it(
    effort, thinks, efforts, value
):
    assert think_value(effort, thinks=thinks, efforts=efforts) == value


NAMED = {"values": ["max", "low", "off", True], "default": "low"}


@pytest.mark.parametrize(
    ("details", "facts"),
    [
        (
            shown("completion", "tools", "thinking", context=40_960),
            {"tools": True, "images": False, "thinking": True, "most": 40_960},
        ),
        (
            shown("completion", parameters='stop    "<|im_end|>"\nnum_ctx      8192\n'),
            {"chosen": 8_192},
        ),
        (shown("thinking", thinking=NAMED), {"efforts": ("low", "max")}),
        (shown("thinking", architecture="gptoss"), {"efforts": LEVELS}),
        (shown("thinking"), {"efforts": (), "hosted": False, "chosen": None}),
        (shown("tools", remote_host="https://ollama.com:443"), {"hosted": True}),
    ],
)
def test_abilities_sizes_and_levels_are_read(details, facts):
    result = read_details(details)
    assert {name: getattr(result, name) for name in facts} == facts


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        {},
        {"capabilities": None, "model_info": None},
        {"model_info": {"x": 1}},
        {"thinking": 5, "parameters": None, "details": 3},
    ],
)
def test_what_is_odd_is_unknown(odd):
    assert read_details(odd) == ModelDetails()


def test_the_size_in_memory_is_found_by_the_full_name():
    assert loaded_context(running("qwen3:8b", 32_768), "qwen3:8b") == 32_768
    assert loaded_context(running("qwen3:latest", 1), "qwen3") == 1
    assert loaded_context(running("hf.co:443/a/b:latest", 1), "hf.co:443/a/b") == 1
    assert loaded_context(running("qwen3:8b", 0), "qwen3:8b") == 0
    assert loaded_context(running("qwen3:8b", 1), "qwen3:4b") is None
    assert loaded_context({"models": None}, "m") is None


def test_an_estimate_that_was_too_low_is_corrected():
    context = ContextSize(ModelDetails(), limit=None, loaded=None)
    context.record(10, 1_000)
    context.fit(8_000, None)
    assert context.size == FIRST, "of a few words nothing is learned"
    context.record(2_000, 4_000)
    context.fit(8_000, None)
    assert context.size == 32_768


@pytest.mark.parametrize(
    ("host", "base"),
    [
        ("", None),
        (" ", None),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:11500", "http://127.0.0.1:11500"),
        (":11500", "http://127.0.0.1:11500"),
        ("localhost", "http://localhost:11434"),
        ("box.lan:8000", "http://box.lan:8000"),
        ("http://box.lan", "http://box.lan:80"),
        ("https://box.lan", "https://box.lan:443"),
        ("https://box.lan/ollama/", "https://box.lan:443/ollama"),
        ("http://0.0.0.0:11434/", "http://127.0.0.1:11434"),
        ("'10.0.0.5'", "http://10.0.0.5:11434"),
        ("::", "http://[::1]:11434"),
        ("[::]:11500", "http://[::1]:11500"),
        ("[fe80::1]", "http://[fe80::1]:11434"),
        ("ollama.com", "https://ollama.com:443"),
        ("box.lan:port", None),
        ("[::1", None),
        ("ftp://box.lan", None),
    ],
)
def test_the_variable_is_read_as_ollama_reads_it(host, base):
    assert address_of(host) == base


def play(*objects) -> list:
    return API["ollama"].play(answer(*objects))


def test_thinking_between_tags_is_thinking_where_the_server_does_not_mark_it():
    events = play(text("<th"), text("ink>Hm"), text("</think>\n\nSo <think>"))
    assert (thoughts_of(events), text_of(events)) == ("Hm", "So <think>")


FULL = {"prompt_eval_count": 4_000, "eval_count": 95}


@pytest.mark.parametrize(
    ("fields", "context", "reason"),
    [
        ({"reason": None}, None, "stop"),
        ({"reason": 5}, None, "stop"),
        ({"reason": "length"}, None, "length"),
        ({"reason": "load"}, None, "other"),
        ({"reason": "length", "counts": FULL}, 4_096, "context_window"),
        ({"reason": "length", "counts": FULL}, None, "length"),
        ({"reason": "length"}, 4_096, "length"),
    ],
)
def test_a_done_reason_has_its_meaning(fields, context, reason):
    ended = API["ollama"].play(answer(text("x"), **fields), context=context)[-1]
    assert ended == Finished(reason=reason)


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"message": None},
        message(content=None, thinking=None, tool_calls=None),
        message(content=5, images=["x"]),
        {"message": {"content": "no"}, "done": "yes"},
        {"model": 5, "new": {}},
    ],
)
def test_what_is_odd_or_new_is_no_error(odd):
    assert text_of(play(text("a"), odd, text("b"))).replace("no", "") == "ab"


def test_a_gateway_may_send_the_objects_as_events_and_nothing_follows_the_end():
    decoding = OllamaDecoder()
    events = []
    for each in answer(text("Hi")):
        events += decoding.feed(SSEvent(event="message", data=json.dumps(each)))
    assert events == play(text("Hi"))
    assert decoding.done
    assert decoding.feed_object(text("more")) == decoding.close() == []
    with pytest.raises(BackendError, match="not JSON"):
        OllamaDecoder().feed(SSEvent(event="message", data="{"))


MODEL = "qwen3:8b"
A = reply(text("a"))
ABLE = Reply(body=shown("completion", "tools", "thinking", "vision"))
AWAKE_NOW = Reply(body=running(MODEL, 16_384))
ASLEEP = Reply(body={"models": []})
MISSING = Reply(status=404, body="404 page not found")
LOADING = Progress("loading")


@asynccontextmanager
async def talking(*script, show=ABLE, ps=AWAKE_NOW, others=None, **options) -> AsyncIterator:
    others = {"/api/show": show, "/api/ps": ps} if others is None else others
    async with Provider(script, others=others) as provider, HTTPClient() as http:
        url = provider.url.removesuffix("/v1")
        yield provider, backend_of("ollama", url=url, http=http, model=MODEL, **options)


def refusal(words: str, status: int = 400) -> Reply:
    return API["ollama"].refusing(status, words=words)


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
    assert show.body == {"model": MODEL}
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
        assert len(provider.requests) == 1
        assert backend.capabilities.context == 65_536


async def test_a_missing_server_is_reported_once():
    async with HTTPClient() as http:
        error = await failure(backend_of("ollama", url="http://127.0.0.1:9", http=http))
    assert (error.kind, error.retryable) == ("network", True)


async def test_a_model_without_tools_gets_none_and_the_user_is_notified_once_a_chat():
    async with talking(*[A] * 4, show=Reply(body=shown("completion"))) as (provider, backend):
        notices = [
            notes((await ask(backend, asking(tools=tools, cache_key=chat)))[1])
            for chat, tools in (("one", [TOOL]), ("one", [TOOL]), ("two", []), ("two", [TOOL]))
        ]
        assert sent(provider, "tools") == [None] * 4
    assert [len(each) for each in notices] == [1, 0, 0, 1]
    assert "not support tools" in notices[0][0]


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
        ({"context": 100_000}, {"num_ctx": 100_000}, 100_000),
        ({"extra_payload": OWN}, OWN["options"], 9_999),
        ({"show": HOSTED}, {}, 262_144),
        ({"extra_payload": {"options": 5}}, {"num_ctx": 65_536}, 65_536),
        ({"ps": Reply(body=running(MODEL, 200_000))}, {"num_ctx": 131_072}, 131_072),
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
