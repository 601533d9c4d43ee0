"""The events of Responses, decoded, in every spelling of servers."""

import base64
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.sse import SSEvent
from eca_server.models.events import (
    Citation,
    Image,
    Progress,
    Started,
    ToolCallFinished,
    ToolCallStarted,
)
from eca_server.models.openai_responses.decoder import ResponsesDecoder
from tests.eca_server.models.histories import OURS
from tests.eca_server.models.openai_responses.scripted import (
    answer,
    call,
    citation,
    cut,
    message,
    other,
    reasoning,
    refusal,
    response,
    search,
)
from tests.eca_server.models.reading import (
    check_grammar,
    holds,
    new_keys,
    only,
    play_objects,
    read,
    text_of,
)
from tests.eca_server.models.test_streams import check_answer


def play(events, **options) -> list:
    return play_objects(ResponsesDecoder(new_key=new_keys(), **options), events)


def without(events, *kinds) -> list[dict]:
    return [event for event in events if event["type"].removeprefix("response.") not in kinds]


def silent(events) -> list[dict]:
    """Return the events with a last one that repeats nothing."""
    return [*events[:-1], {**events[-1], "response": {**events[-1]["response"], "output": []}}]


X = message("x")
PROGRAM = {"type": "program", "id": "p", "code": "1"}
PLAIN = {"type": "message"}
OPENED = {"type": "web_search_call", "id": "ws", "action": {"type": "open_page", "url": "u"}}
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
    {"type": "response.output_text.delta", "output_index": 1, "delta": 5},
    {"type": "response.new_thing.delta", "output_index": 99, "delta": "?"},
    {"type": "keepalive", "sequence_number": 3},
]
BETWEEN = answer(message("a"), other(PROGRAM), message("b"))
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
    "cut at its limit": (
        cut(message("so far")),
        {"text": "so far", "reason": "length", "raw_reason": "max_output_tokens"},
    ),
    "filtered": (cut(X, reason="content_filter"), {"reason": "content_filter"}),
    "cut for a new reason": (
        cut(X, reason="steered"),
        {"reason": "other", "raw_reason": "steered"},
    ),
    "reasoning whose end never came": (
        silent(without(cut(reasoning("hm"), X), "output_item.done")),
        {"opaques": [None]},
    ),
    "a refusal": (answer(refusal("I ", "won't.")), {"refusal": "I won't.", "reason": "refusal"}),
    "a web search": (
        answer(search("q", "http://a", "http://b"), X),
        {
            "tools": [("web_search", "started"), ("web_search", "finished")],
            "urls": [(), ("http://a", "http://b")],
        },
    ),
    "a page that is opened": (answer(other(OPENED), X), {"urls": [(), ("u",)]}),
    "a source is cited once, its span counts the whole text": (
        answer(message("one"), message("two.", cites=[FILE_CITED, *CITED])),
        {"citations": [Citation(url="http://u", title="U", span=(5, 8))]},
    ),
    "what is unknown": (
        [*BETWEEN[:-1], *ODD, BETWEEN[-1]],
        {"text": "a\n\nb", "blocks": [PLAIN, PROGRAM, PLAIN]},
    ),
    "a picture of the model": (
        answer(other(DRAWN)),
        {"images": [Image(media_type="image/webp", data=b"picture")], "blocks": [DRAWN]},
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
    assert len(only(Started, emitted)) == 1


def test_calls_that_are_written_at_once_are_distinguished_by_their_place():
    items = call("f", '{"n":1}', call_id="a"), call("g", '{"n":2}', call_id="b")
    pairs = zip(items[0](0), items[1](1), strict=True)
    whole = answer(*items)
    events = play([*whole[:2], *itertools.chain(*pairs), whole[-1]])
    started = [(each.key, each.provider_id) for each in only(ToolCallStarted, events)]
    assert started == [("k1", "a"), ("k2", "b")], "not the ids of the items"
    finished = [(each.key, each.arguments) for each in only(ToolCallFinished, events)]
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
    assert len(only(ToolCallStarted, emitted)) == 1


def test_a_state_of_the_answer_is_progress():
    queued = {"type": "response.queued", "response": response("queued")}
    events = play([*answer(X)[:-1], queued, answer(X)[-1]])
    assert only(Progress, events) == [Progress("queued")]


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
    st.just(other({"type": "odd", "id": "o"})),
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
    left_out -= set() if repeated else {"output_item.done"}
    events = play(without(stream, *left_out), may_be_empty=True)
    check_grammar(events)
    check_answer(events)
    answered, expected = read(events), read(play(stream, may_be_empty=True))
    assert answered.message(OURS) == expected.message(OURS)
    assert answered.finished == expected.finished
