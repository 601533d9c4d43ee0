"""Responses as bytes: any chunks, any line ends, truncated, or no stream at all.

The grammar of events is checked for any answer.
"""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eca_server.models.backend import BackendError
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
from tests.eca_server.models.reading import check_grammar, decode, new_keys, odd_values, read

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


WHOLE, _ = decode(ResponsesDecoder(new_key=new_keys()), [as_bytes(EVENTS)])


def test_one_json_object_in_place_of_a_stream_is_the_same_answer():
    events, error = decode(
        ResponsesDecoder(new_key=new_keys()), [json.dumps(EVENTS[-1]["response"]).encode()]
    )
    assert error is None
    assert read(events).message(ORIGIN) == read(WHOLE).message(ORIGIN)


ORIGIN = Origin("a", "p", "m")


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
json_values = odd_values(KEYS, st.text(max_size=3) | st.sampled_from(KINDS), leaves=16)
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
    decoder = ResponsesDecoder(new_key=new_keys(), may_be_empty=True)
    return [event for value in values for event in decoder.feed_object(value)]
