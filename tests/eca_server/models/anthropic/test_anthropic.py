"""Peculiarities of the Messages API: its requests, its stream, and its backend over HTTP."""

from functools import partial

import pytest

from eca_protocol.sse import SSEvent
from eca_protocol.testing.provider import Reply
from eca_server.models import events as ev
from eca_server.models.anthropic.backend import MAX_PAUSES
from eca_server.models.anthropic.decoder import MessagesDecoder
from eca_server.models.backend import BackendError, Request, Tool
from eca_server.models.history import (
    BlockPart,
    CitationPart,
    Message,
    ReasoningPart,
    ServerToolPart,
)
from tests.eca_server.models.anthropic.scripted import (
    answer,
    block,
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
from tests.eca_server.models.every_api import API
from tests.eca_server.models.histories import THEIRS, model, tool, tool_call, tool_result, user
from tests.eca_server.models.reading import (
    HELLO,
    TOOL,
    after,
    ask,
    backend_of,
    calls_of,
    failure,
    holds,
    only,
    payload_of,
    scripted,
    talking,
    write_history,
)
from tests.eca_server.models.reading import write as write_any

SEARCHED = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
SEARCH_RESULT = search_result("https://a.example", call_id="srv_1")(0)[0]["content_block"]
QUOTED = {"type": "text", "text": "a", "citations": [citation("https://a.example", "A")]}
THOUGHT = ReasoningPart(text="hm", opaque={"signature": "secret"})


def write(*history: Message, **options) -> dict:
    return write_any("anthropic", *(history or [user()]), **options)


def call(call_id="c1", provider_id="toolu_1", **fields):
    return tool_call(call_id, provider_id=provider_id, raw='{"n":1}', arguments={"n": 1}, **fields)


def result(call_id="c1"):
    return tool(tool_result(call_id))


def test_a_search_goes_back_as_it_came_with_its_quotations():
    result_part = ServerToolPart(kind="web_search", raw=SEARCH_RESULT)
    parts = (
        "I look. ",
        BlockPart(raw=SEARCHED),
        result_part,
        "As a",
        BlockPart(raw=QUOTED),
        " is.",
    )
    assert write_history("anthropic", user(), model(*parts), user())[1]["content"] == [
        {"type": "text", "text": "I look. "},
        SEARCHED,
        SEARCH_RESULT,
        {"type": "text", "text": "As "},
        QUOTED,
        {"type": "text", "text": " is."},
    ]


def test_of_a_call_what_this_api_knows_goes_back():
    mine = call(opaque={"caller": {"type": "direct"}, "extra_content": 1})
    [block] = write_history("anthropic", user(), model(mine), result())[1]["content"]
    assert block.keys() == {"type", "id", "name", "input", "caller"}


def test_ids_that_a_server_gives_twice_are_distinguished():
    history = [user()]
    for key in ("c1", "c2"):
        history += [model(call(key, "call_0")), result(key)]
    [_, first, one, second, two] = write_history("anthropic", *history)
    ids = [message["content"][0]["id"] for message in (first, second)]
    assert ids[0] == "call_0" != ids[1]
    assert [message["content"][0]["tool_use_id"] for message in (one, two)] == ids


def marks(payload: dict) -> list[str]:
    places = {name: payload.get(name, []) for name in ("tools", "system")}
    places |= {str(n): message["content"] for n, message in enumerate(payload["messages"])}
    return [where for where, blocks in places.items() for b in blocks if "cache_control" in b]


def test_tools_instructions_and_the_last_two_of_the_user_are_marked():
    history = [user("a"), model("b"), user("c"), model(call()), result()]
    payload = write(*history, system="s", tools=[TOOL, TOOL])
    assert marks(payload) == ["tools", "system", "2", "4"]
    assert "cache_control" not in payload["tools"][0]


def test_the_last_mark_of_a_request_is_in_the_next_one_too():
    history: list[Message] = [user("a")]
    backend = backend_of("anthropic")
    last = None
    for number in range(6):
        marked = [
            [{k: v for k, v in block.items() if k != "cache_control"} for block in m["content"]]
            for m in payload_of(backend, Request(messages=history))["messages"]
            if "cache_control" in m["content"][-1]
        ]
        assert last is None or last in marked
        last = marked[-1]
        calls = [call(f"c{number}_{n}", f"t{number}_{n}") for n in range(30)]
        history += [model(*calls), tool(*[tool_result(each.id) for each in calls])]


def test_an_answer_has_a_limit_even_if_none_is_known():
    limits = [write(output=output)["max_tokens"] for output in (None, 8_192, 128_000)]
    assert limits == [32_000, 8_192, 64_000]


def test_a_schema_is_that_of_an_object_and_else_untouched():
    properties = {"z": {"anyOf": [{"type": "string"}]}, "a": {}}
    schema = {"anyOf": [{}], "properties": properties, "$defs": {"x": 1}}
    [tool] = write(tools=[Tool(name="f", description="d", parameters=schema)])["tools"]
    del schema["anyOf"]
    assert tool["input_schema"] == {**schema, "type": "object"}
    assert list(tool["input_schema"]["properties"]) == ["z", "a"]


def test_tools_and_the_providers_search_are_offered_where_they_are_wanted():
    offered = write(tools=[TOOL], web_search=True)["tools"]
    assert [tool["name"] for tool in offered] == ["f", "web_search"]
    assert len(write(tools=[TOOL])["tools"]) == 1
    assert "tools" not in write(web_search=True)
    called = write(user("x"), model(call()), result())
    assert called["tools"], "a history with calls needs some"
    assert called["tool_choice"] == {"type": "none"}


def test_a_loop_that_began_without_thinking_continues_without():
    def thinks(*history: Message, name="claude-haiku-4-5") -> bool:
        return "thinking" in write(*history, model=name, reasoning_effort="low")

    without = [user("x"), model("a", call()), result()]
    foreign = [user("x"), model(THOUGHT, call(), origin=THEIRS), result()]
    assert thinks(user("x"), model(THOUGHT, call()), result())
    assert not thinks(*without)
    assert not thinks(*foreign)
    assert thinks(*without, model("b"), user("y"))
    assert thinks(*without, name="claude-opus-4-7")


def play_events(events) -> list:
    """Return our events for a stream of these events, without the counts."""
    counted = API["anthropic"].play(events)
    return [event for event in counted if not isinstance(event, ev.Usage | ev.Progress)]


def play(*items, **fields) -> list:
    return play_events(answer(*items, **fields))


def test_each_thought_keeps_its_signature_or_its_data():
    thoughts = [thinking("Hm", "m"), thinking(), redacted("ZGF0YQ=="), thinking("a", signature="")]
    events = play(*thoughts[:3], tool_use("f", "{}"), thoughts[3], text("x"))
    assert events[1:8] == [
        ev.ReasoningStarted("reasoning_1"),
        ev.ReasoningDelta("reasoning_1", "Hm"),
        ev.ReasoningDelta("reasoning_1", "m"),
        ev.ReasoningFinished(key="reasoning_1", opaque={"signature": "c2ln"}),
        ev.ReasoningStarted("reasoning_2"),
        ev.ReasoningFinished(key="reasoning_2", opaque={"signature": "c2ln"}),
        ev.ReasoningStarted("reasoning_3"),
    ]
    assert only(ev.ReasoningFinished, events)[2:] == [
        ev.ReasoningFinished(key="reasoning_3", opaque={"data": "ZGF0YQ=="}, redacted=True),
        ev.ReasoningFinished(key="reasoning_4", opaque={"signature": ""}),
    ]


@pytest.mark.parametrize(
    ("item", "arguments", "raw"),
    [
        (tool_use("f"), {}, ""),
        (tool_use("f", arguments={"n": 1}), {"n": 1}, '{"n":1}'),
        (tool_use("f", '{"n": 2}', arguments={"n": 1}), {"n": 2}, '{"n": 2}'),
    ],
)
def test_arguments_are_the_pieces_or_else_what_the_start_says(item, arguments, raw):
    events = play(item, stop="tool_use")
    assert calls_of(events) == [("f", arguments)]
    [call] = only(ev.ToolCallFinished, events)
    assert raw == call.raw
    assert "".join(e.text for e in only(ev.ToolCallArguments, events)) == call.raw


CITED = citation("https://a.example", "A")


def test_a_search_is_sent_and_stored_as_it_came():
    events = play(search("q"), search_result(CITED["url"]), text("Says A.", cites=[CITED]))
    called = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search"}
    result = search_result(CITED["url"])(0)[0]["content_block"]
    assert events[1:-1] == [
        ev.ServerTool(kind="web_search", phase="started"),
        BlockPart(raw={**called, "input": {"query": "q"}}),
        ev.ServerTool(kind="web_search", phase="finished", raw=result),
        ev.TextDelta("Says A."),
        CitationPart(url=CITED["url"], title="A"),
        BlockPart(raw={"type": "text", "text": "Says A.", "citations": [CITED]}),
    ]


CALLER = {"caller": {"type": "code_execution_20260120", "tool_id": "srv"}}
ERROR = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
FAILED = {"type": "web_search_tool_result", "tool_use_id": "s", "content": ERROR}
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
NEW = {"type": "new_kind", "x": 1}
A, B = text("a"), text("b")
TWO_CALLS = [tool_use("a"), tool_use("b", '{"n": 1}')]
BOTH = {"calls": [("a", {}), ("b", {"n": 1})]}

ANSWERS = {
    "calls in the model's order": (answer(*TWO_CALLS, stop="tool_use"), BOTH),
    "calls that were whole before the limit": (answer(*TWO_CALLS, A, stop="max_tokens"), BOTH),
    "who called": (
        answer(block({"type": "tool_use", "id": "1", "name": "f", "input": {}, **CALLER})),
        {"call_opaques": [CALLER]},
    ),
    "a page that is cited often": (
        answer(text("a", cites=[CITED, CITED]), text("b", cites=[CITED])),
        {"citations": [CitationPart(url=CITED["url"], title="A")]},
    ),
    "a search that failed": (answer(block(FAILED), A), {"tools": [("web_search", "finished")]}),
    "a search whose query was cut": (
        answer(block(SEARCH, {"type": "input_json_delta", "partial_json": '{"query": "q'}), A),
        {"tools": [], "blocks": [], "text": "a"},
    ),
    "texts side by side": (answer(A, B), {"blocks": [{"type": "text", "text": "b"}]}),
    "an unknown block": (answer(block(NEW), A), {"blocks": [NEW], "text": "a"}),
    "an unknown block with deltas": (
        answer(block(NEW, {"type": "new_delta", "y": 2}), A),
        {"blocks": [], "text": "a"},
    ),
    "a reason without message_stop": (answer(A)[:-1], {"text": "a", "reason": "stop"}),
    "message_stop without a reason": ([*answer(A)[:-2], answer(A)[-1]], {"reason": "other"}),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_holds_what_came(name):
    events, expected = ANSWERS[name]
    holds(play_events(events), **expected)


def test_pings_and_what_is_new_are_passed_over():
    plain = answer(text("x"))
    new = [{"type": "ping"}, {"type": "new_event", "x": 1}, {"type": "ping"}]
    noisy = [*new, *(each for event in plain[:-1] for each in (event, *new)), plain[-1]]
    assert play_events(noisy) == play_events(plain)
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta", "z": 1}}
    assert play_events([*plain[:3], delta, *plain[3:]]) == play_events(plain)


def test_a_refusal_is_reported_with_its_reason():
    details = {"type": "refusal", "category": "bio", "explanation": "Too close to it."}
    assert play(text("Well"), stop="refusal", stop_details=details)[-2:] == [
        ev.RefusalDelta("\n\nThe model refused to answer (bio). Too close to it."),
        ev.Finished(reason="refusal"),
    ]
    unexplained = play(stop="refusal", stop_details=None)
    assert unexplained[-2] == ev.RefusalDelta("The model refused to answer.")


def test_done_as_other_apis_say_it_is_an_end_only_behind_a_reason():
    decoding = MessagesDecoder()
    for event in answer(text("x"))[:-1]:
        decoding.feed_object(event)
    done = SSEvent(event="message", data="[DONE]")
    assert decoding.feed(done)[-1].reason == "stop"
    assert decoding.feed(done) == []
    with pytest.raises(BackendError, match="broke off"):
        MessagesDecoder().feed(done)


def test_unclosed_blocks_are_ended():
    events = [e for e in answer(thinking("a"), text("x")) if e["type"] != "content_block_stop"]
    kinds = [type(event) for event in play_events(events)]
    assert kinds.count(ev.ReasoningFinished) == kinds.count(ev.ReasoningStarted) == 1
    assert kinds[-1] is ev.Finished


HI = reply(text("Hi"))
talking = partial(talking, "anthropic", model="claude-opus-4-7")


def refusal(message: str) -> Reply:
    return API["anthropic"].refusing(400, words=message)


async def test_a_model_that_needs_a_beta_for_its_thinking_names_it():
    async with talking([HI, HI], model="claude-sonnet-4-20250514") as (provider, backend):
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
    assert len(only(ev.Started, events)) == 1
    assert result.finished.reason == "stop"
    assert [event.url for event in only(CitationPart, events)] == ["https://a.example"]
    assert result.usage == ev.Usage(input=20, cache_read=60, cache_write=40, output=10)
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


ZERO = "max_tokens: 32000 > 0, which is the maximum allowed number of output tokens"
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


@pytest.mark.parametrize(
    "words", [f"{OVER}: {'9' * 5000} + 1 > {'9' * 6000}", f"max_tokens: 1 > {'9' * 6000}", ZERO]
)
async def test_an_impossible_limit_in_a_refusal_is_none(words):
    async with talking([refusal(words), HI]) as (provider, backend):
        with pytest.raises(BackendError, match="max_tokens"):
            await ask(backend)
        await ask(backend)
        assert provider.requests[1].body["max_tokens"] == provider.requests[0].body["max_tokens"]


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
    steps = [wire([started()]), *[100, wire([{"type": "ping"}])] * 20]
    async with scripted(0, steps) as http:
        error = await failure(backend_of("anthropic", http=http))
    assert error.kind == "timeout"
    assert "no progress for 600 s" in error.message
