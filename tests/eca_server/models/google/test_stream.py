"""Gemini's streams as bytes: any chunks, any line ends, truncated, or no stream at all.

The grammar of events is checked for any answer.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.backend import BackendError
from eca_server.models.events import ServerTool
from eca_server.models.google.decoder import MODEL_ERRORS, GeminiDecoder
from eca_server.models.history import Origin
from tests.eca_server.models.google.scripted import (
    SIGNATURE,
    answer,
    as_bytes,
    call,
    grounding,
    picture,
    text_part,
    thought,
)
from tests.eca_server.models.reading import (
    check_grammar,
    decode,
    new_keys,
    odd_values,
    only,
    read,
    text_of,
    thoughts_of,
)

SIGNED = {"thoughtSignature": SIGNATURE}
EVENTS = answer(
    thought("Hm\u2028m"),
    thought("so", **SIGNED),
    text_part("a\u0085b\u2028c"),
    text_part("\u000bd"),
    picture(b"png"),
    call("f", {"n": 1}, signed=True),
    text_part("", **SIGNED),
    groundingMetadata=grounding("http://u", text="b"),
)


def wire(newline="\n") -> bytes:
    lines = ["\ufeff: comment", "retry: 5", ""]
    for number, event in enumerate(EVENTS):
        data = json.dumps(event, ensure_ascii=False)
        lines += [f"data:{data}" if number % 2 else f"data: {data}", "", ""]
    return newline.join(lines).encode()


WHOLE, _ = decode(GeminiDecoder(new_key=new_keys()), [as_bytes(EVENTS)])


@pytest.mark.parametrize("as_array", [True, False])
def test_an_answer_that_is_no_stream_is_the_same_answer(as_array):
    whole = EVENTS
    if not as_array:
        parts = [part for event in EVENTS for part in event["candidates"][0]["content"]["parts"]]
        last = EVENTS[-1]
        candidate = {**last["candidates"][0], "content": {"parts": parts}}
        whole = {**last, "candidates": [candidate]}
    body = json.dumps(whole).encode()
    events, error = decode(
        GeminiDecoder(new_key=new_keys()), [body], content_type="application/json"
    )
    assert error is None
    assert read(events).message(ORIGIN) == read(WHOLE).message(ORIGIN)


ORIGIN = Origin("a", "p", "m")


def check(events) -> None:
    check_grammar(events)
    tools = [(event.key, event.phase) for event in only(ServerTool, events)]
    begun = [key for key, phase in tools if phase == "started"]
    assert sorted(begun) == sorted(key for key, phase in tools if phase == "finished")


KEYS = (
    *("candidates", "content", "parts", "text", "thought", "thoughtSignature", "functionCall"),
    *("name", "args", "id", "inlineData", "mimeType", "data", "finishReason", "finishMessage"),
    *("groundingMetadata", "groundingChunks", "groundingSupports", "segment", "web", "uri"),
    *("groundingChunkIndices", "webSearchQueries", "citationMetadata", "citations", "index"),
    *("promptFeedback", "blockReason", "usageMetadata", "promptTokenCount", "executableCode"),
    *("codeExecutionResult", "toolCall", "toolResponse", "error", "responseId"),
)
WORDS = ("STOP", "SAFETY", "image/png", "AAAA", "x")
json_values = odd_values(KEYS, st.sampled_from(WORDS), leaves=8)
odd_objects = st.dictionaries(st.sampled_from(KEYS), json_values, max_size=4)
odd_candidates = st.builds(
    lambda parts, others: {**others, "content": {"parts": parts}},
    st.lists(odd_objects | json_values, max_size=3),
    odd_objects,
)
odd_responses = st.builds(
    lambda candidates, others: {**others, "candidates": candidates},
    st.lists(odd_candidates | json_values, max_size=2),
    odd_objects,
)


@given(st.lists(odd_responses | json_values, max_size=5))
def test_no_json_whatever_makes_the_decoder_raise_anything_but_a_backend_error(values):
    decoder = GeminiDecoder(may_be_empty=True)
    events: list = []
    try:
        for value in values:
            events += decoder.feed_object(value)
        events += decoder.close()
    except BackendError:
        return
    check(events)


texts = st.text(max_size=3)
signatures = st.sampled_from([{}, {}, SIGNED])
parts = st.one_of(
    st.builds(lambda text, signed: text_part(text, **signed), texts, signatures),
    st.builds(lambda text, signed: thought(text, **signed), texts, signatures),
    st.builds(lambda signed: picture(b"p", **signed), signatures),
    st.sampled_from(
        [
            call("f", {"n": 1}),
            call("g", signed=True),
            {"executableCode": {"code": "1"}},
            {"codeExecutionResult": {"output": "1"}},
            {"somethingNew": 1},
        ]
    ),
)
endings = st.sampled_from(["STOP", "MAX_TOKENS", "SAFETY", "OTHER", *sorted(MODEL_ERRORS)])


@given(st.lists(parts, max_size=6), endings)
def test_every_answer_keeps_the_grammar_however_its_parts_are_sent(made, ending):
    decoder = GeminiDecoder(may_be_empty=True)
    events = [event for each in answer(*made, finish=ending) for event in decoder.feed_object(each)]
    try:
        events += decoder.close()
    except BackendError:
        assert ending in {"SAFETY", *MODEL_ERRORS}
        return
    check(events)
    shown = [part["text"] for part in made if "text" in part and "thought" not in part]
    thoughts = [part["text"] for part in made if "thought" in part]
    assert text_of(events) == "".join(shown)
    assert thoughts_of(events) == "".join(thoughts)
