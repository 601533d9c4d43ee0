"""Peculiarities of Responses: items that go back, its events in every spelling, and Azure."""

import base64
import hashlib
import itertools
import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.sse import SSEvent
from eca_protocol.testing.provider import Reply
from eca_server.models import events as ev
from eca_server.models.backend import Request
from eca_server.models.history import CitationPart, ImagePart, Message
from eca_server.models.openai_responses.decoder import ResponsesDecoder
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
from tests.eca_server.models.openai_responses.scripted import (
    answer,
    call,
    citation,
    cut,
    message,
    other,
    reasoning,
    refusal,
    reply,
    response,
    search,
)
from tests.eca_server.models.reading import (
    PICTURE_DATA,
    TOOL,
    ask,
    check_grammar,
    holds,
    notes,
    only,
    read,
    talking,
    text_of,
    write,
)
from tests.eca_server.models.test_streams import check_answer

play = API["openai-responses"].play


def sent(*history: Message, **options) -> list[dict]:
    return write("openai-responses", *history, **options)["input"]


def replayed(*items, follow) -> list[dict]:
    """Return the input items for an answer made of these items, and of what follows."""
    return sent(user(), read(play(answer(*items))).message(OURS), follow)[1:]


def test_items_go_back_in_their_order_with_what_the_model_wants_of_them():
    odd = {"type": "program", "id": "p", "code": "1"}
    cites = [citation("http://u", "U", 0, 1)]
    items = replayed(
        reasoning("why", encrypted="gAAA"),
        message("I look.", phase="commentary"),
        search("q", "http://u"),
        other(odd),
        message("\n\nb", cites=cites),
        reasoning(encrypted="gBBB"),
        call("read", '{"path": "a"}', call_id="call_theirs"),
        follow=tool(tool_result("k1", "text")),
    )
    summary = [{"type": "summary_text", "text": "why"}]
    searched = items.pop(2)
    assert (searched["type"], searched["action"]["queries"]) == ("web_search_call", ["q"])
    assistant_message = {"type": "message", "role": "assistant"}
    called = {"type": "function_call", "name": "read", "arguments": '{"path": "a"}'}
    assert items == [
        {"type": "reasoning", "id": "rs_0", "summary": summary, "encrypted_content": "gAAA"},
        {**assistant_message, "phase": "commentary", "content": "I look."},
        odd,
        {**assistant_message, "content": "\n\nb"},
        {"type": "reasoning", "id": "rs_5", "summary": [], "encrypted_content": "gBBB"},
        {**called, "call_id": "call_theirs"},
        {"type": "function_call_output", "call_id": "call_theirs", "output": "text"},
    ]


def test_reasoning_without_its_secret_does_not_go_back():
    items = replayed(reasoning("x", encrypted=None), message("a"), follow=user())
    assert [item.get("type") for item in items] == ["message", None]


@pytest.mark.parametrize(
    ("theirs", "sent_as"),
    [
        (("same", "same"), ["same", "b"]),
        (("x" * 65, "x" * 64), ["a", "x" * 64]),
        (("b", ""), ["b", f"call_{hashlib.sha256(b'b').hexdigest()[:24]}"]),
    ],
)
def test_calls_have_their_own_ids_if_these_are_short_and_differ(theirs, sent_as):
    made = [tool_call(k, provider_id=theirs_) for k, theirs_ in zip("ab", theirs, strict=True)]
    items = sent(user(), model(*made), tool(*map(tool_result, "ab")))
    assert [item["call_id"] for item in items[1:]] == [*sent_as, *sent_as]


def test_openai_takes_a_picture_from_a_tool_in_its_output():
    made, result = model(tool_call(), origin=THEIRS), tool(tool_result("c", "a", PICTURE))
    url = f"data:image/png;base64,{PICTURE_DATA}"
    [output] = sent(user(), made, result, server="openai")[2:]
    assert output["output"] == [
        {"type": "input_text", "text": "a"},
        {"type": "input_image", "image_url": url, "detail": "auto"},
    ]


def test_a_server_gets_the_fields_that_it_is_known_to_take():
    always = {"model", "input", "stream", "store"}
    unknown = write("openai-responses", user(), cache_key="chat")
    openai = write("openai-responses", user(), cache_key="chat", server="openai")
    assert unknown.keys() == always
    assert openai.keys() == always | {"truncation", "stream_options", "prompt_cache_key"}
    assert openai["truncation"] == "disabled"
    assert openai["stream_options"] == {"include_obfuscation": False}


def test_searching_is_offered_beside_the_tools():
    payload = write("openai-responses", user(), tools=[TOOL], web_search=True)
    assert [tool["type"] for tool in payload["tools"]] == ["function", "web_search"]


def test_a_chat_has_one_key_in_the_cache_and_another_chat_another():
    def key(chat: str) -> str:
        payload = write("openai-responses", user(), cache_key=chat, server="openai")
        return payload["prompt_cache_key"]

    assert key("a") == key("a") != key("b")
    assert len(key("a" * 1000)) <= 64


def without(events, *kinds) -> list[dict]:
    return [event for event in events if event["type"].removeprefix("response.") not in kinds]


def silent(events) -> list[dict]:
    """Return the events with a last one that repeats nothing."""
    return [*events[:-1], {**events[-1], "response": {**events[-1]["response"], "output": []}}]


X = message("x")
PROGRAM = {"type": "program", "id": "p", "code": "1"}
PLAIN = {"type": "message"}
FILE_CITED = {"type": "file_citation", "file_id": "f", "filename": "f", "index": 0}
CITED = [citation("http://u", "U", 0, 3), citation("http://u", "U", 3, 4)]
DRAWN = {
    "type": "image_generation_call",
    "id": "ig",
    "status": "completed",
    "output_format": "webp",
    "result": base64.b64encode(b"picture").decode(),
}
OPEN_REASONING = {
    "type": "reasoning",
    "id": "r",
    "content": [{"type": "reasoning_text", "text": "ab"}],
}


def open_weights(kind: str) -> list[dict]:
    """Return reasoning as servers with open weights send it."""
    place = {"output_index": 0, "item_id": "r"}
    delta = {"type": f"response.{kind}.delta", "content_index": 0, **place}
    end = {"type": "response.output_item.done", "output_index": 0, "item": OPEN_REASONING}
    return [{**delta, "delta": "a"}, {**delta, "delta": "b"}, end, *answer(X)[2:]]


ODD = [
    {"type": "response.audio.delta", "delta": "..."},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "late"},
    {"type": "response.new_thing.delta", "output_index": 99, "delta": "?"},
    {"type": "keepalive", "sequence_number": 3},
]
BETWEEN = [
    each
    for event in answer(message("a"), other(PROGRAM), message("b"))
    for each in (event, {**event, "type": "response.output_text.delta", "delta": 5})
    if each is event or event["type"] == "response.output_item.added"
]
WHOLE = answer(message("ab"), call("f", '{"n":1}'))

ANSWERS = {
    "reasoning of open weights": (
        open_weights("reasoning_text"),
        {"thoughts": ["a", "b"], "opaques": [OPEN_REASONING]},
    ),
    "and in its other spelling": (open_weights("reasoning"), {"thoughts": ["a", "b"]}),
    "empty parts of a reasoning": (
        answer(reasoning("", "a", "", "b"), X),
        {"thoughts": ["a", "\n\nb"]},
    ),
    "and without deltas": (
        without(answer(reasoning("", "a", "", "b"), X), "reasoning_summary_text.delta"),
        {"thoughts": ["a\n\nb"]},
    ),
    "a message with its phase": (
        answer(message("a", phase="commentary")),
        {"blocks": [{"type": "message", "phase": "commentary"}]},
    ),
    "messages are separate": (
        answer(message("one"), reasoning(), message("two"), message("three")),
        {"text": "one\n\ntwo\n\nthree", "blocks": [PLAIN] * 3},
    ),
    "the end of a text that was not streamed": (
        [event for event in answer(message("ab", "cd")) if event.get("delta") != "cd"],
        {"text": "abcd"},
    ),
    "cut at its limit": (cut(message("so far")), {"text": "so far", "reason": "length"}),
    "filtered": (cut(X, reason="content_filter"), {"reason": "content_filter"}),
    "cut for a new reason": (cut(X, reason="steered"), {"reason": "other"}),
    "reasoning whose end never came": (
        silent(without(cut(reasoning("hm"), X), "output_item.done")),
        {"opaques": [None]},
    ),
    "a refusal": (answer(refusal("I ", "won't.")), {"refusal": "I won't.", "reason": "refusal"}),
    "a web search": (
        answer(search("q", "http://a", "http://b"), X),
        {"tools": [("web_search", "started"), ("web_search", "finished")]},
    ),
    "a source is cited once": (
        answer(message("one"), message("two.", cites=[FILE_CITED, *CITED])),
        {"citations": [CitationPart(url="http://u", title="U")]},
    ),
    "what is unknown": (
        [*BETWEEN[:-1], *ODD, BETWEEN[-1]],
        {"text": "a\n\nb", "blocks": [PLAIN, PROGRAM, PLAIN]},
    ),
    "a picture of the model": (
        answer(other(DRAWN)),
        {"images": [ImagePart(media_type="image/webp", data=b"picture")], "blocks": [DRAWN]},
    ),
    "a whole answer behind the start of a stream": (
        [*WHOLE[:2], WHOLE[-1]["response"]],
        {"text": "ab", "calls": [("f", {"n": 1})]},
    ),
    **{
        f"an item that waits for us: {kind}": (
            answer(other({"type": kind, "id": "x", "call_id": "c", "status": "completed"}), X),
            {"blocks": [PLAIN]},
        )
        for kind in ("custom_tool_call", "computer_call", "mcp_approval_request")
    },
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_holds_what_came(name):
    events, expected = ANSWERS[name]
    emitted = play(events)
    holds(emitted, **expected)
    assert len(only(ev.Started, emitted)) == 1


def test_calls_that_are_written_at_once_are_distinguished_by_their_place():
    items = call("f", '{"n":1}', call_id="a"), call("g", '{"n":2}', call_id="b")
    pairs = zip(items[0](0), items[1](1), strict=True)
    whole = answer(*items)
    events = play([*whole[:2], *itertools.chain(*pairs), whole[-1]])
    started = [(each.key, each.provider_id) for each in only(ev.ToolCallStarted, events)]
    assert started == [("k1", "a"), ("k2", "b")], "not the ids of the items"
    finished = [(each.key, each.arguments) for each in only(ev.ToolCallFinished, events)]
    assert finished == [("k1", {"n": 1}), ("k2", {"n": 2})]


def with_other_ids(events) -> list[dict]:
    for number, event in enumerate(events):
        if "item_id" in event:
            event["item_id"] = f"other_{number}"
        if "item" in event:
            event["item"] = {**event["item"], "id": f"another_{number}"}
    return events


def at_one_place(events) -> list[dict]:
    return [event | ({"output_index": 0} if "output_index" in event else {}) for event in events]


def no_place(events) -> list[dict]:
    return [{k: v for k, v in event.items() if k != "output_index"} for event in events]


def no_beginning(events) -> list[dict]:
    return without(events, "output_item.added")


@pytest.mark.parametrize("changed", [with_other_ids, at_one_place, no_place, no_beginning])
@pytest.mark.parametrize("repeated", [True, False])
def test_items_are_distinguished_whatever_their_events_say(changed, repeated):
    events = changed(answer(message("a", "b"), call("f", "{}"), refusal("n"), message("c")))
    emitted = play(events if repeated else silent(events))
    holds(emitted, text="ab\n\nc", refusal="n", calls=[("f", {})])
    assert len(only(ev.ToolCallStarted, emitted)) == 1


def test_a_state_of_the_answer_is_progress():
    queued = {"type": "response.queued", "response": response("queued")}
    events = play([*answer(X)[:-1], queued, answer(X)[-1]])
    assert only(ev.Progress, events) == [ev.Progress("queued")]


def test_the_name_of_an_event_replaces_its_type():
    decoder = ResponsesDecoder()
    events = []
    for event in answer(message("a")):
        data = json.dumps({name: value for name, value in event.items() if name != "type"})
        events += decoder.feed(SSEvent(event=event["type"], data=data))
    assert text_of(events) == "a"


texts = st.text(max_size=5)
items = st.one_of(
    st.builds(lambda pieces: message(*pieces), st.lists(texts, max_size=3)),
    st.builds(lambda parts: reasoning(*parts), st.lists(texts, max_size=3)),
    st.builds(lambda raw: call("f", raw), st.sampled_from(["", "{}", '{"a":1}', "{x", "[]"])),
    st.builds(refusal, texts),
    st.just(search("q")),
    st.just(lambda place: other({"type": "odd", "id": f"o{place}"})(place)),
)
LEFT_OUT = (
    "output_item.added",
    "output_item.done",
    "output_text.delta",
    "function_call_arguments.delta",
    "reasoning_summary_text.delta",
)


@given(
    st.lists(items, max_size=4),
    st.sampled_from([answer, cut]),
    st.sets(st.sampled_from(LEFT_OUT)),
    st.booleans(),
)
def test_every_answer_keeps_the_grammar_and_is_whole_whatever_its_stream_leaves_out(
    made, ending, left_out, repeated
):
    stream = ending(*made) if repeated else silent(ending(*made))
    if not repeated or len(made) > 1:  # without it, items without deltas have no place
        left_out -= {"output_item.done"}
    events = play(without(stream, *left_out), may_be_empty=True)
    check_grammar(events)
    check_answer(events)
    answered, expected = read(events), read(play(stream, may_be_empty=True))
    assert answered.message(OURS) == expected.message(OURS)
    assert answered.finished == expected.finished


HI = reply(message("Hi"))
talking = partial(talking, "openai-responses")


def refused(words: str) -> Reply:
    return API["openai-responses"].refusing(400, words=words)


@pytest.mark.parametrize(
    "field", [{"reasoning": {"summary": "x"}}, {"reasoning": "summary"}, {"include": ["a"]}]
)
async def test_a_refused_field_of_the_configuration_is_dropped_too(field):
    [name] = field

    def script(request):
        is_sent = request.body.get(name)
        return refused(f"Unsupported parameter: {name} summary") if is_sent else HI

    async with talking(script, extra_payload=field) as (server, backend):
        await ask(backend)
    assert len(server.requests) == 2


async def test_tools_of_the_configuration_are_added_to_ours():
    extra = {"tools": [{"type": "web_search", "search_context_size": "low"}], "seed": 1}
    async with talking([HI], extra_payload=extra, web_search=True) as (server, backend):
        await ask(backend)
        assert [each.name for each in await backend.models()] == ["scripted"]
    assert server.other_requests[0].target == "/v1/models"
    body = server.requests[0].body
    assert body["tools"] == [{"type": "web_search"}, *extra["tools"]]
    assert body["seed"] == 1


async def test_earlier_answers_have_a_type_once_a_server_demands_it():
    text = "Cannot determine type of 'item'"  # of llama.cpp
    typed = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "a"}],
    }

    def script(request):
        return HI if typed in request.body["input"] else refused(text)

    history = Request(messages=[user(), model("a"), user()])
    async with talking(script) as (server, backend):
        for _ in range(2):
            result, events = await ask(backend, history)
            assert (result.text, notes(events)) == ("Hi", [])
    assert len(server.requests) == 3
    async with talking([HI], server="llama-cpp") as (server, backend):
        await ask(backend, history)
    assert server.requests[0].body["input"][1] == typed
