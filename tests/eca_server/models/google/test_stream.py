"""Gemini's streams as bytes: any chunks, any line ends, truncated, or no stream at all.

The grammar of events is checked for any answer.
"""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.answer import Answer
from eca_server.models.answer_body import AnswerBody
from eca_server.models.backend import BackendError
from eca_server.models.events import (
    Finished,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    ServerTool,
    Started,
    TextDelta,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
)
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


def decode(pieces, content_type="") -> tuple[list, str | None]:
    """Return the events of these bytes, and the kind of the error at their end."""
    keys = itertools.count(1)
    decoder = GeminiDecoder(new_key=lambda: f"k{next(keys)}")
    body = AnswerBody(content_type=content_type, decoder=decoder)
    events: list = []
    try:
        for piece in pieces:
            events.extend(body.feed(piece))
        events.extend(body.close())
    except BackendError as error:
        return events, error.kind
    return events, None


WHOLE = decode([as_bytes(EVENTS)])


@pytest.mark.parametrize("as_array", [True, False])
def test_an_answer_that_is_no_stream_is_the_same_answer(as_array):
    whole = EVENTS
    if not as_array:
        parts = [part for event in EVENTS for part in event["candidates"][0]["content"]["parts"]]
        last = EVENTS[-1]
        candidate = {**last["candidates"][0], "content": {"parts": parts}}
        whole = {**last, "candidates": [candidate]}
    events, error = decode([json.dumps(whole).encode()], "application/json")
    assert error is None
    assert read(events).message(ORIGIN) == read(WHOLE[0]).message(ORIGIN)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html><title>Welcome</title></html>", "protocol"),
        (b'[{"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}}]', "overloaded"),
        (b'[{"candidates": [', "protocol"),
        (b"[]", "premature_stop"),
        (b"", "premature_stop"),
        (b": only comments\n\n", "premature_stop"),
        (b'data: {"choices": [{"delta": {"content": "of another API"}}]}\n\n', "protocol"),
    ],
    ids=str,
)
def test_what_is_no_answer_is_reported_as_what_it_is(body, kind):
    assert decode([body]) == ([], kind)


ORIGIN = Origin("a", "p", "m")


def read(events) -> Answer:
    answered = Answer()
    for event in events:
        answered.feed(event)
    return answered


KEYS = (
    *("candidates", "content", "parts", "text", "thought", "thoughtSignature", "functionCall"),
    *("name", "args", "id", "inlineData", "mimeType", "data", "finishReason", "finishMessage"),
    *("groundingMetadata", "groundingChunks", "groundingSupports", "segment", "web", "uri"),
    *("groundingChunkIndices", "webSearchQueries", "citationMetadata", "citations", "index"),
    *("promptFeedback", "blockReason", "usageMetadata", "promptTokenCount", "executableCode"),
    *("codeExecutionResult", "toolCall", "toolResponse", "error", "responseId"),
)
WORDS = ("STOP", "SAFETY", "image/png", "AAAA", "x")
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=8,
)
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
    check_grammar(events)


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
    check_grammar(events)
    shown = [part["text"] for part in made if "text" in part and "thought" not in part]
    thoughts = [part["text"] for part in made if "thought" in part]
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "".join(shown)
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == "".join(thoughts)


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
            case ToolCallStarted() | ServerTool(phase="started"):
                assert event.key not in open_blocks
                open_blocks.add(event.key)
            case ReasoningDelta(key, text) | ToolCallArguments(key, text):
                assert key in open_blocks
                assert text
            case ReasoningFinished() | ToolCallFinished() | ServerTool():
                open_blocks.remove(event.key)
            case TextDelta(text):
                assert text
    assert not open_blocks
