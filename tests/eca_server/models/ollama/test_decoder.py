"""The stream of Ollama's own API, as objects and as bytes."""

import itertools
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.sse import SSEvent
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
    Usage,
)
from eca_server.models.history import Origin, ReasoningPart, TextPart, ToolCallPart
from eca_server.models.ollama.decoder import OllamaDecoder
from tests.eca_server.models.ollama.scripted import (
    answer,
    call,
    calls,
    done,
    message,
    text,
    thinking,
)
from tests.eca_server.models.reading import (
    check_grammar,
    new_keys,
    odd_values,
    only,
    read,
    text_of,
    thoughts_of,
)

US = Origin(api="ollama", provider="p", model="m")
START = Started(model="qwen3:8b")
COUNTED = Usage(input=26, output=7)


def decoder(**options) -> OllamaDecoder:
    return OllamaDecoder(new_key=new_keys(), **options)


def play(objects, **options) -> list:
    decoding = decoder(**options)
    fed = [decoding.feed_object(each) for each in objects]
    return [*itertools.chain(*fed), *decoding.close()]


def failure(objects, **options) -> BackendError:
    with pytest.raises(BackendError) as caught:
        play(objects, **options)
    return caught.value


def test_a_plain_answer_is_started_text_counts_and_finished():
    assert play(answer(text("Hel"), text("lo"))) == [
        START,
        TextDelta("Hel"),
        TextDelta("lo"),
        COUNTED,
        Finished(reason="stop", raw_reason="stop"),
    ]


def test_thinking_is_one_block_before_the_text():
    assert play(answer(thinking("Hm"), thinking("m"), text("So"), text("!"))) == [
        START,
        ReasoningStarted("reasoning_1"),
        ReasoningDelta("reasoning_1", "Hm"),
        ReasoningDelta("reasoning_1", "m"),
        ReasoningFinished(key="reasoning_1"),
        TextDelta("So"),
        TextDelta("!"),
        COUNTED,
        Finished(reason="stop", raw_reason="stop"),
    ]


def test_thinking_between_tags_is_thinking_where_the_server_does_not_mark_it():
    events = play(answer(text("<th"), text("ink>Hm"), text("</think>\n\nSo <think>")))
    assert thoughts_of(events) == "Hm"
    assert text_of(events) == "So <think>"


def test_every_call_counts_in_whichever_object_it_is():
    first, second = call("f", {"n": 2**70}), call("g", {"b": 1, "a": 2}, id="call_x")
    events = play(answer(calls(first), calls(second, call("h")), reason="stop"))
    assert events[1:4] == [
        ToolCallStarted(key="k1", name="f"),
        ToolCallArguments("k1", '{"n":1180591620717411303424}'),
        ToolCallFinished(key="k1", raw='{"n":1180591620717411303424}', arguments={"n": 2**70}),
    ]
    begun = [e for e in events if isinstance(e, ToolCallStarted)]
    assert [(e.name, e.provider_id) for e in begun] == [("f", None), ("g", "call_x"), ("h", None)]
    ended = [e for e in events if isinstance(e, ToolCallFinished)]
    assert [e.raw for e in ended][1:] == ['{"b":1,"a":2}', "{}"]
    assert events[-1] == Finished(reason="tool_calls", raw_reason="stop")


@pytest.mark.parametrize(
    ("given_", "arguments"),
    [('{"n": 1}', {"n": 1}), ("", {}), ("{bad", None), ([1], None), (None, {})],
)
def test_arguments_may_be_text_or_nothing_and_are_never_repaired(given_, arguments):
    function = {"name": "f", "arguments": given_}
    [ended] = only(ToolCallFinished, play(answer(calls({"function": function}))))
    assert ended.arguments == arguments
    assert (ended.error is None) == (arguments is not None)


def test_thinking_ends_where_a_call_begins():
    events = play(answer(thinking("Hm"), calls(call("f"))))
    assert events[3] == ReasoningFinished(key="reasoning_1")
    assert isinstance(events[4], ToolCallStarted)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [("stop", "stop"), (None, "stop"), ("length", "length"), ("load", "other"), (5, "stop")],
)
def test_a_done_reason_has_its_meaning(raw, reason):
    result = raw if isinstance(raw, str) else None
    assert play(answer(text("x"), reason=raw))[-1] == Finished(reason=reason, raw_reason=result)


def test_an_answer_that_fills_the_context_says_so():
    full = {"prompt_eval_count": 4_000, "eval_count": 95}
    finished = Finished(reason="context_window", raw_reason="length")
    assert play(answer(text("x"), reason="length", counts=full), context=4_096)[-1] == finished
    assert play(answer(text("x"), reason="length", counts=full))[-1].reason == "length"
    assert play(answer(text("x"), reason="length"), context=4_096)[-1].reason == "length"


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (None, None),
        ({"eval_count": 3}, Usage(output=3)),
        ({"prompt_eval_count": 3}, Usage(input=3)),
        ({"eval_count": True, "prompt_eval_count": "x"}, None),
    ],
)
def test_a_count_that_is_missing_is_unknown(counts, usage):
    events = play(answer(text("x"), counts=counts))
    assert next((e for e in events if isinstance(e, Usage)), None) == usage


@pytest.mark.parametrize(
    ("words", "kind", "retryable"),
    [
        ("an error was encountered while running the model", "unknown", False),
        ("the input length exceeds the context length", "context_overflow", False),
    ],
)
def test_an_error_in_the_stream_is_raised_and_what_came_before_stays(words, kind, retryable):
    decoding = decoder()
    assert decoding.feed_object(text("Hi"))[-1] == TextDelta("Hi")
    with pytest.raises(BackendError) as caught:
        decoding.feed_object({"error": words})
    assert (caught.value.kind, caught.value.retryable) == (kind, retryable)
    assert words in caught.value.message


@pytest.mark.parametrize(
    "value", [1, None, "x", [1], message(tool_calls=[1]), message(tool_calls=[{"function": {}}])]
)
def test_what_cannot_be_read_is_a_protocol_error(value):
    assert failure([text("x"), value]).kind == "protocol"


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
    assert text_of(play([text("a"), odd, *answer(text("b"))])).replace("no", "") == "ab"


def test_nothing_follows_the_end():
    decoding = decoder()
    for each in answer(text("x")):
        decoding.feed_object(each)
    assert decoding.done
    assert decoding.feed_object(text("more")) == []
    assert decoding.close() == []


def test_a_gateway_may_send_the_objects_as_events():
    decoding = decoder()
    events = [
        e
        for each in answer(text("Hi"))
        for e in decoding.feed(SSEvent(event="message", data=json.dumps(each)))
    ]
    assert events == play(answer(text("Hi")))
    with pytest.raises(BackendError, match="not JSON"):
        decoder().feed(SSEvent(event="message", data="{"))


def test_an_answer_that_was_not_streamed_is_the_same_one():
    whole = done()
    whole["message"] |= {"content": "Hi", "thinking": "Hm", "tool_calls": [call("f")]}
    streamed = play([thinking("Hm"), text("Hi"), calls(call("f")), done()])
    assert play([whole]) == streamed


KEYS = (
    *("message", "content", "thinking", "tool_calls", "function", "name", "arguments"),
    *("done", "done_reason", "error", "model"),
)


@given(odd_values(KEYS, st.integers() | st.text(max_size=3)))
def test_whatever_comes_is_events_or_an_error(value):
    decoding = decoder()
    with suppress(BackendError):
        decoding.feed_object(value)
        decoding.feed_object({"message": value, "done": False})
        decoding.feed_object({"message": {"tool_calls": [value]}, "done": True})
        decoding.close()


STREAM = answer(
    thinking("Hm\u2028"),
    thinking("m"),
    text("a\u0085"),
    text("b\u2028c\u000b"),
    calls(call("f", {"n": 1}), call("f", {"n": 1})),
)


words = st.text("ab <>{}", max_size=4)
objects = st.lists(
    st.builds(text, words)
    | st.builds(thinking, words)
    | st.builds(
        lambda names: calls(*(call(name, {"n": 1}) for name in names)),
        st.lists(st.sampled_from(["f", "g"]), min_size=1, max_size=3),
    ),
    max_size=6,
)


@given(objects, st.sampled_from(["stop", "length", None]))
def test_the_events_of_every_answer_keep_their_order(made, reason):
    events = play(answer(*made, reason=reason), may_be_empty=True)
    check_grammar(events)
    thinks = False
    for event in events:
        assert not (thinks and isinstance(event, TextDelta | ReasoningStarted))
        thinks = isinstance(event, ReasoningStarted | ReasoningDelta)
    parts = read(events).message(US).parts
    content = "".join(p.text for p in parts if isinstance(p, TextPart | ReasoningPart))
    wrote = "".join(
        each["message"].get("thinking", "") + each["message"]["content"] for each in made
    )
    tags = ("<think>", "</think>")
    assert content == wrote or any(tag in wrote for tag in tags)
    assert sum(isinstance(p, ToolCallPart) for p in parts) == sum(
        len(each["message"].get("tool_calls", ())) for each in made
    )
