"""Chat Completions as bytes: any chunks, any line ends, truncated, or no stream at all.

The grammar of events is checked for any answer.
"""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.answer_body import AnswerBody
from eca_server.models.backend import BackendError
from eca_server.models.events import ToolCallFinished
from eca_server.models.history import Origin, ToolCallPart
from eca_server.models.openai_chat.decoder import ChatDecoder
from tests.eca_server.models.openai_chat.scripted import delta, fragment, play, tool
from tests.eca_server.models.reading import check_grammar, decode, odd_values, read, text_of

STREAM = [
    delta(role="assistant", content=""),
    delta(reasoning_content="Hm\u2028m"),
    delta(content="a\u0085b\u2028c"),
    tool(fragment(name="f", index=0, id="a")),
    tool(fragment('{"n"', index=0)),
    tool(fragment(":1}", index=0)),
    delta("tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
]


def wire(newline="\n", *, last_blank=True) -> bytes:
    lines = ["\ufeff: comment", "retry: 5", ""]
    for number, chunk in enumerate(STREAM):
        data = json.dumps(chunk, ensure_ascii=False)
        lines += [f"id: {number}", f"data:{data}" if number % 2 else f"data: {data}", "", ""]
    lines += ["data: [DONE]", *([""] if last_blank else [])]
    return newline.join([*lines, ""]).encode()


def test_bytes_that_are_not_unicode_are_replaced_and_end_nothing():
    body = json.dumps(delta(content="aXb")).encode().replace(b"X", b"\xff")
    pieces = [b"data: " + body + b"\n\n", b"data: [DONE]\n\n"]
    events, error = decode(ChatDecoder(), pieces)
    assert (text_of(events), error) == ("a\ufffdb", None)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html><h1>Sign in</h1></html>", "Sign in"),
        (b"<html><script src='/a.js?key=hidden'>\n</script></html>", "<script src='/a.js?key=***"),
        (b"<html>" + b"<br>" * 9000, "<html><br><br>"),
    ],
    ids=["words", "tags alone", "long"],
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


def test_one_json_object_in_place_of_a_stream_is_the_same_answer():
    message = tool(fragment('{"n":1}', "f", index=0, id="a"))["choices"][0]["delta"] | {
        "content": "Hi"
    }
    whole = {"id": "r", "choices": [{"message": message, "finish_reason": "tool_calls"}]}
    events, error = decode(ChatDecoder(), [b" \n", json.dumps(whole).encode()])
    assert error is None
    calls = [event.arguments for event in events if isinstance(event, ToolCallFinished)]
    assert (text_of(events), calls) == ("Hi", [{"n": 1}])


KEYS = (
    *("choices", "delta", "content", "tool_calls", "function", "index", "id", "name"),
    *("arguments", "usage", "error", "message", "finish_reason", "reasoning_details"),
    *("annotations", "images", "citations", "x_groq", "text", "type", "prompt_tokens"),
)


@given(st.lists(odd_values(KEYS, st.integers() | st.text(max_size=8)), max_size=4))
def test_no_json_whatever_makes_the_decoder_raise_anything_but_a_backend_error(chunks):
    try:
        events = play(*chunks)
    except BackendError:
        return
    check_grammar(events)


pieces = st.one_of(
    st.builds(lambda text: delta(content=text), st.text(min_size=1, max_size=5)),
    st.builds(lambda text: delta(reasoning=text), st.text(min_size=1, max_size=5)),
    st.builds(
        lambda at, text: tool(fragment(text, f"f{at}", index=at, id=f"i{at}")),
        st.integers(0, 2),
        st.sampled_from(["", "{", "}", '{"a":1}', "x"]),
    ),
    st.just({"usage": {"prompt_tokens": 1}}),
)


@given(st.lists(pieces, min_size=1), st.sampled_from(["stop", "length", "tool_calls", "odd"]))
def test_every_answer_keeps_the_grammar_of_events(chunks, reason):
    events = play(*chunks, delta(reason), may_be_empty=True)
    check_grammar(events)
    answer = read(events)
    message = answer.message(Origin("a", "p", "m"))
    assert answer.text == text_of(events)
    assert not answer.open_calls
    assert not answer.open_reasonings
    calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
    assert [call.id for call in calls] == [call.key for call in answer.calls]
