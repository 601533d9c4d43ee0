"""Responses as bytes: any chunks, any line ends, truncated, or no stream at all.

The grammar of events is checked for any answer.
"""

import itertools
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eca_server.models.answer import Answer
from eca_server.models.answer_body import AnswerBody
from eca_server.models.backend import BackendError
from eca_server.models.events import (
    Finished,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    Started,
    TextDelta,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
)
from eca_server.models.history import Origin, ToolCallPart
from eca_server.models.openai_responses.decoder import ResponsesDecoder
from tests.eca_server.models.openai_responses.scripted import (
    answer,
    as_bytes,
    call,
    citation,
    cut,
    message,
    other,
    reasoning,
    refusal,
    search,
)

EVENTS = answer(
    reasoning("Hm\u2028m", "so"),
    search("q", "http://u"),
    message("a\u0085b\u2028c", "\u000bd", cites=[citation("http://u", "U", 0, 1)]),
    call("f", '{"n": 1}'),
)


def wire(newline="\n") -> bytes:
    lines = ["\ufeff: comment", "retry: 5", ""]
    for number, event in enumerate(EVENTS):
        data = json.dumps(event, ensure_ascii=False)
        named = [f"event: {event['type']}"] if number % 3 else []
        lines += [*named, f"data:{data}" if number % 2 else f"data: {data}", "", ""]
    return newline.join(lines).encode()


def decode(pieces) -> tuple[list, str | None]:
    """Return the events of these bytes, and the kind of the error at their end."""
    keys = itertools.count(1)
    decoder = ResponsesDecoder(new_key=lambda: f"k{next(keys)}")
    body = AnswerBody(content_type="", decoder=decoder)
    events: list = []
    try:
        for piece in pieces:
            events.extend(body.feed(piece))
        events.extend(body.close())
    except BackendError as error:
        return events, error.kind
    return events, None


WHOLE = decode([as_bytes(EVENTS)])


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html><title>Welcome</title></html>", "protocol"),
        (b'{"error": {"message": "quota", "code": "insufficient_quota"}}', "quota"),
        (b'{"half": ', "protocol"),
        (b"", "premature_stop"),
        (b": only comments\n\n", "premature_stop"),
        (b'data: {"choices": [{"delta": {"content": "of another API"}}]}\n\n', "protocol"),
    ],
    ids=str,
)
def test_what_is_no_answer_is_reported_as_what_it_is(body, kind):
    assert decode([body]) == ([], kind)


def test_one_json_object_in_place_of_a_stream_is_the_same_answer():
    events, error = decode([json.dumps(EVENTS[-1]["response"]).encode()])
    assert error is None
    assert read(events).message(ORIGIN) == read(WHOLE[0]).message(ORIGIN)


ORIGIN = Origin("a", "p", "m")


def read(events) -> Answer:
    answered = Answer()
    for event in events:
        answered.feed(event)
    return answered


KINDS = (
    *("response.output_item.added", "response.output_item.done", "response.completed"),
    *("response.output_text.delta", "response.output_text.annotation.added"),
    *("response.reasoning_summary_text.delta", "response.function_call_arguments.delta"),
    *("response.incomplete", "message", "reasoning", "function_call", "web_search_call"),
    *("output_text", "image_generation_call", "error"),
)
KEYS = (
    *("type", "response", "item", "output_index", "item_id", "id", "delta", "content"),
    *("summary", "text", "name", "call_id", "arguments", "action", "queries", "sources"),
    *("annotation", "url", "start_index", "end_index", "output", "usage", "input_tokens"),
    *("status", "error", "incomplete_details", "result", "annotations", "phase"),
    *("content_index", "summary_index"),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.text(max_size=3) | st.sampled_from(KINDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=16,
)
events_of_any_form = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS)}, optional={key: json_values for key in KEYS if key != "type"}
)


@given(st.lists(events_of_any_form | json_values, max_size=5))
@example([{"type": "message", "output": [{"type": [None]}]}])
def test_no_json_whatever_makes_the_decoder_raise_anything_but_a_backend_error(values):
    decoder = ResponsesDecoder(may_be_empty=True)
    events: list = []
    try:
        for value in values:
            events += decoder.feed_object(value)
        events += decoder.close()
    except BackendError:
        return
    check_grammar(events)


@pytest.mark.parametrize("odd", [None, [], {}, "x", 1.5, True])
@pytest.mark.parametrize(
    "name", ["output_index", "item_id", "content_index", "summary_index", "id", "call_id", "type"]
)
def test_members_of_the_wrong_type_end_no_answer_in_another_way(name, odd):
    def bent(value):
        if isinstance(value, list):
            return [bent(member) for member in value]
        if isinstance(value, dict):
            return {key: odd if key == name else bent(member) for key, member in value.items()}
        return value

    bare = [{key: value for key, value in event.items() if key != "type"} for event in EVENTS]
    stream = [
        {**bent(event), "type": whole["type"]} for event, whole in zip(bare, EVENTS, strict=True)
    ]
    check_grammar(decode_objects(stream))


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
    "response.output_item.added",
    "response.output_text.delta",
    "response.function_call_arguments.delta",
    "response.reasoning_summary_text.delta",
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
    stream = ending(*made)
    if not repeated:
        stream[-1]["response"]["output"] = []
    events = decode_objects([event for event in stream if event["type"] not in left_out])
    check_grammar(events)
    answered, expected = read(events), read(decode_objects(stream))
    assert not answered.open_calls
    assert not answered.open_reasonings
    assert answered.message(ORIGIN) == expected.message(ORIGIN)
    assert answered.finished == expected.finished
    calls = [part for part in answered.message(ORIGIN).parts if isinstance(part, ToolCallPart)]
    assert [call.id for call in calls] == [call.key for call in answered.calls]


def decode_objects(values) -> list:
    keys = itertools.count(1)
    decoder = ResponsesDecoder(new_key=lambda: f"k{next(keys)}", may_be_empty=True)
    return [event for value in values for event in decoder.feed_object(value)]


def check_grammar(events) -> None:
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    ends = [event for event in events if isinstance(event, Started | Finished)]
    assert len(ends) == 2
    open_blocks: set[str] = set()
    for event in events:
        match event:
            case ReasoningStarted(key):
                assert key not in open_blocks
                open_blocks.add(key)
            case ToolCallStarted():
                assert event.key not in open_blocks
                open_blocks.add(event.key)
            case ReasoningDelta(key, text) | ToolCallArguments(key, text):
                assert key in open_blocks
                assert text
            case ReasoningFinished() | ToolCallFinished():
                open_blocks.remove(event.key)
            case TextDelta(text):
                assert text
    assert not open_blocks
