"""The dialects of Chat Completions, and their common rules.

Known problems with tests here: usage in any place; reasoning in any field or in tags; errors
inside a stream; nulls in any field. Tool calls are in `test_tool_calls`.
"""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.sse import SSEvent
from eca_server.models.answer_body import AnswerBody
from eca_server.models.backend import BackendError
from eca_server.models.events import (
    Citation,
    Finished,
    Image,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    RefusalDelta,
    TextDelta,
)
from eca_server.models.openai_chat.decoder import ChatDecoder
from tests.eca_server.models.openai_chat.scripted import STOP, decoder, delta, fragment, play
from tests.eca_server.models.reading import calls_of, decode, only, text_of, thoughts_of


def test_done_alone_or_a_finish_reason_alone_ends_an_answer_that_has_content():
    assert play(delta(content="x"))[-1] == Finished(reason="other")
    assert play(delta(content="x"), delta(""))[-1] == Finished(reason="other")
    assert play(delta(content="x"), STOP, done=False)[-1].reason == "stop"


DETAILS = [{"type": "reasoning.text", "index": 0, "text": "Hm"}]
THINKING = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]


@pytest.mark.parametrize(
    ("fields", "opaque"),
    [
        ({"reasoning_content": "Hm"}, {"field": "reasoning_content"}),
        ({"reasoning": "Hm"}, {"field": "reasoning"}),
        ({"reasoning_text": "Hm"}, {"field": "reasoning_text"}),
        ({"reasoning_content": "Hm", "reasoning": "Hm"}, {"field": "reasoning_content"}),
        ({"content": THINKING}, {"field": "content"}),
        (
            {"reasoning": "Hm", "reasoning_details": DETAILS},
            {"field": "reasoning", "details": DETAILS},
        ),
    ],
)
def test_reasoning_is_one_block_with_its_text_once_whatever_the_field(fields, opaque):
    assert play(delta(**fields), delta(content="Hi"), STOP)[1:-1] == [
        ReasoningStarted("reasoning_1"),
        ReasoningDelta("reasoning_1", "Hm"),
        ReasoningFinished(key="reasoning_1", opaque=opaque),
        TextDelta("Hi"),
    ]


def test_details_of_reasoning_grow_by_index_and_come_back_whole():
    def details(**fields):
        return delta(reasoning_details=[{"type": "reasoning.text", "index": 0, **fields}])

    encrypted = {"type": "reasoning.encrypted", "data": "x", "index": 1}
    events = play(
        details(text="H", format="f"),
        details(text="m"),
        details(signature="s"),
        delta(content="Hi"),
        delta(reasoning_details=[encrypted]),
        STOP,
    )
    whole = {**DETAILS[0], "format": "f", "signature": "s"}
    finished = [event.opaque["details"] for event in only(ReasoningFinished, events)]
    assert finished == [[whole], [encrypted]]
    assert thoughts_of(events) == "Hm"


OWN_TAGS = ("[th]", "[/th]")


@pytest.mark.parametrize(
    ("texts", "options", "thoughts", "visible"),
    [
        (["<th", "ink>", "Hm", "</thi", "nk>", "\n\n", "Hi"], {}, "Hm", "Hi"),
        (["\n <think>Hm</think>Hi"], {}, "Hm", "Hi"),
        (["<think>Hm"], {}, "Hm", ""),
        (["<thin"], {}, "", "<thin"),
        (["Hm</think>Hi"], {"think_tags": "open"}, "Hm", "Hi"),
        (["Hm</think>Hi"], {}, "", "Hm</think>Hi"),
        (["see `<think>x</think>`"], {}, "", "see `<think>x</think>`"),
        (["<think>a</think>b<think>c</think>"], {}, "a", "b<think>c</think>"),
        (["<think>Hm</think>Hi"], {"think_tags": "off"}, "", "<think>Hm</think>Hi"),
        (["<think></think>Hi"], {}, "", "Hi"),
        (["[th", "]Hm[/th", "]Hi"], {"tags": OWN_TAGS, "think_tags": "off"}, "Hm", "Hi"),
        (["<think>Hm"], {"tags": OWN_TAGS}, "", "<think>Hm"),
    ],
)
def test_tags_are_reasoning_only_at_the_very_start(texts, options, thoughts, visible):
    events = play(*[delta(content=text) for text in texts], STOP, **options)
    assert (thoughts_of(events), text_of(events)) == (thoughts, visible)


@given(st.lists(st.integers(0, 40)))
def test_tags_may_be_cut_anywhere(cuts):
    text = "<think>a < b </th</think>\n\nif a < b: `</think>`"
    marks = sorted({0, len(text), *cuts})
    pieces = [text[start:end] for start, end in itertools.pairwise(marks)]
    events = play(*[delta(content=piece) for piece in pieces], STOP)
    assert thoughts_of(events) == "a < b </th"
    assert text_of(events) == "if a < b: `</think>`"


def test_an_event_named_error_is_one_whatever_is_in_it():
    with pytest.raises(BackendError, match="too long"):
        decoder().feed(SSEvent(event="error", data='{"message": "prompt is too long"}'))


def test_nulls_and_absences_are_nothing():
    nulls = delta(content=None, tool_calls=None, refusal=None, reasoning_details=None)
    odd = {"choices": [None, {"delta": None}, {}]}
    assert text_of(play({"choices": None}, odd, nulls, delta(content="x"), STOP)) == "x"


def test_choices_that_share_an_answer_are_merged():
    call = {"delta": {"tool_calls": [fragment("{}", "f", index=0, id="a")]}, "index": 1}
    events = play({"choices": [{"delta": {"content": "x"}, "index": 0}, call]}, STOP)
    assert (text_of(events), calls_of(events)) == ("x", [("f", {})])


def test_a_whole_message_is_an_answer_unless_it_repeats_one():
    whole = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
    assert text_of(play(whole)) == text_of(play(delta(content="Hi"), whole)) == "Hi"


def test_refusals_citations_and_images_are_events_of_their_own():
    source = {"url": "http://a", "title": "A", "start_index": 0, "end_index": 2}
    events = play(
        delta(content="x"),
        delta(annotations=[{"type": "url_citation", "url_citation": source}]),
        {"citations": ["http://a", "http://b"], "choices": []},
        delta(images=[{"image_url": {"url": "data:image/png;base64,aGk="}}]),
        delta(refusal="No."),
        STOP,
    )
    first, second = only(Citation, events)
    assert first == Citation(url="http://a", title="A", span=(0, 2))
    assert second.url == "http://b"
    assert Image(media_type="image/png", data=b"hi") in events
    assert RefusalDelta("No.") in events
    assert events[-1].reason == "refusal"


def test_bytes_that_are_not_unicode_are_replaced_and_end_nothing():
    body = json.dumps(delta(content="aXb")).encode().replace(b"X", b"\xff")
    events, error = decode(ChatDecoder(), [b"data: " + body + b"\n\n", b"data: [DONE]\n\n"])
    assert (text_of(events), error) == ("a\ufffdb", None)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html><script src='/a.js?key=hidden'>\n</script></html>", "<script src='/a.js?key=***"),
        (b"<html>" + b"<br>" * 9000, "<html><br><br>"),
    ],
)
def test_a_page_in_place_of_an_answer_is_reported_by_its_type_and_its_beginning(body, words):
    page = AnswerBody(content_type="text/html; charset=utf-8", decoder=ChatDecoder())
    with pytest.raises(BackendError) as caught:
        list(itertools.chain(page.feed(body), page.close()))
    result = caught.value.message
    assert result.startswith("expected an answer in JSON, got text/html; charset=utf-8: ")
    assert words in result
    assert "hidden" not in result
    assert len(result) < 300
