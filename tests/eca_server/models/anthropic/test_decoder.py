"""The stream of the Messages API: its blocks, and the rules for every answer."""

import itertools
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.sse import SSEvent
from eca_server.models.anthropic.decoder import MessagesDecoder
from eca_server.models.backend import BackendError
from eca_server.models.events import (
    Block,
    Citation,
    Finished,
    Progress,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    RefusalDelta,
    ServerTool,
    Started,
    TextDelta,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    Usage,
)
from eca_server.models.history import Origin, ReasoningPart, TextPart
from tests.eca_server.models.anthropic.scripted import (
    USAGE,
    answer,
    block,
    citation,
    redacted,
    search,
    search_result,
    started,
    text,
    thinking,
    tool_use,
    wire,
)
from tests.eca_server.models.reading import (
    calls_of,
    check_grammar,
    decode,
    new_keys,
    odd_values,
    only,
    read,
)

US = Origin(api="anthropic", provider="p", model="m")
START = Started(response_id="msg_1", model="claude-test")


def decoder(**options) -> MessagesDecoder:
    return MessagesDecoder(new_key=new_keys(), **options)


def play(events, **options) -> list:
    """Return our events for a stream of these events, without the counts."""
    decoding = decoder(**options)
    given_ = [decoding.feed(SSEvent(event=e["type"], data=json.dumps(e))) for e in events]
    every = [*itertools.chain(*given_), *decoding.close()]
    return [event for event in every if not isinstance(event, Usage | Progress)]


def failure(events, **options) -> BackendError:
    with pytest.raises(BackendError) as caught:
        play(events, **options)
    return caught.value


def test_a_plain_answer_is_started_text_counts_and_finished():
    decoding = decoder(request_id="req_1")
    events = [
        event
        for e in answer(text("Hel", "lo"))
        for event in decoding.feed(SSEvent(event=e["type"], data=json.dumps(e)))
    ]
    assert events == [
        Started(response_id="msg_1", model="claude-test", request_id="req_1"),
        Usage(input=10, cache_read=30, cache_write=20, output=1),
        Progress("ping"),
        TextDelta("Hel"),
        TextDelta("lo"),
        Usage(input=10, cache_read=30, cache_write=20, output=5),
        Finished(reason="stop", raw_reason="end_turn"),
    ]
    assert decoding.done
    assert decoding.close() == []


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("stop", "stop"),
        ("max_tokens", "length"),
        ("pause_turn", "pause"),
        ("model_context_window_exceeded", "context_window"),
        ("tool_use", "other"),
        ("compaction", "other"),
    ],
)
def test_a_stop_reason_has_its_meaning(raw, reason):
    assert play(answer(text("x"), stop=raw))[-1] == Finished(reason=reason, raw_reason=raw)


class TestThinking:
    def test_it_keeps_its_signature(self):
        assert play(answer(thinking("Hm", "m"), text("x")))[1:5] == [
            ReasoningStarted("reasoning_1"),
            ReasoningDelta("reasoning_1", "Hm"),
            ReasoningDelta("reasoning_1", "m"),
            ReasoningFinished(key="reasoning_1", opaque={"signature": "c2ln"}),
        ]

    def test_without_text_it_still_has_its_signature(self):
        assert play(answer(thinking(), text("x")))[1:3] == [
            ReasoningStarted("reasoning_1"),
            ReasoningFinished(key="reasoning_1", opaque={"signature": "c2ln"}),
        ]

    def test_redacted_it_is_data_and_no_text(self):
        assert play(answer(redacted("ZGF0YQ=="), text("x")))[1:3] == [
            ReasoningStarted("reasoning_1"),
            ReasoningFinished(key="reasoning_1", opaque={"data": "ZGF0YQ=="}, redacted=True),
        ]

    def test_of_a_server_that_signs_nothing_it_ends_all_the_same(self):
        events = play(answer(thinking("Hm", signature=""), text("x")))
        assert ReasoningFinished(key="reasoning_1", opaque={"signature": ""}) in events

    def test_blocks_around_a_call_are_two(self):
        events = play(answer(thinking("a"), tool_use("f", "{}"), thinking("b"), stop="tool_use"))
        keys = [event.key for event in events if isinstance(event, ReasoningFinished)]
        assert keys == ["reasoning_1", "reasoning_2"]


class TestCalls:
    @pytest.mark.parametrize(
        ("item", "arguments", "raw"),
        [
            (tool_use("f", "", '{"n"', ": 1}"), {"n": 1}, '{"n": 1}'),
            (tool_use("f"), {}, ""),
            (tool_use("f", ""), {}, ""),
            (tool_use("f", arguments={"n": 1}), {"n": 1}, '{"n":1}'),
            (tool_use("f", '{"n": 2}', arguments={"n": 1}), {"n": 2}, '{"n": 2}'),
            (tool_use("f", '{"n": ' + "1" * 40 + "}"), {"n": int("1" * 40)}, None),
        ],
    )
    def test_arguments_are_the_pieces_or_else_what_the_start_says(self, item, arguments, raw):
        events = play(answer(item, stop="tool_use"))
        assert calls_of(events) == [("f", arguments)]
        [call] = only(ToolCallFinished, events)
        assert raw in (None, call.raw)
        assert "".join(e.text for e in only(ToolCallArguments, events)) == call.raw

    def test_their_order_is_the_models_even_if_one_has_no_arguments(self):
        items = [tool_use("a", call_id="1"), tool_use("b", '{"n": 1}', call_id="2")]
        events = play(answer(*items, stop="tool_use"))
        assert calls_of(events) == [("a", {}), ("b", {"n": 1})]
        assert [e.provider_id for e in events if isinstance(e, ToolCallStarted)] == ["1", "2"]

    @pytest.mark.parametrize("pieces", [['{"n": 1'], [""], []])
    @pytest.mark.parametrize("stop", ["max_tokens", "model_context_window_exceeded"])
    def test_one_that_a_limit_cut_is_not_run(self, pieces, stop):
        events = play(answer(tool_use("f", *pieces), stop=stop))
        [call] = only(ToolCallFinished, events)
        assert call.arguments is None
        assert "cut off by the output limit" in call.error

    def test_one_that_was_whole_before_the_limit_is_whole(self):
        items = [tool_use("a"), tool_use("b", '{"n": 1}'), text("and")]
        assert [done for _, done in calls_of(play(answer(*items, stop="max_tokens")))] == [
            {},
            {"n": 1},
        ]

    def test_one_without_arguments_is_whole_when_the_answer_continues(self):
        events = play(answer(tool_use("f"), text("and"), stop="max_tokens"))
        assert calls_of(events) == [("f", {})]

    @pytest.mark.parametrize("raw", ["{bad", "[1]", '{"n": NaN}', "[" * 100_000])
    def test_unreadable_arguments_are_reported_to_the_model(self, raw):
        [call] = only(ToolCallFinished, play(answer(tool_use("f", raw), stop="tool_use")))
        assert call.arguments is None
        assert call.error.startswith("the arguments")

    @pytest.mark.parametrize("stop", ["end_turn", "stop", "pause_turn", "something_new"])
    def test_they_run_whatever_the_stop_reason_says(self, stop):
        assert play(answer(tool_use("f"), stop=stop))[-1].reason == "tool_calls"

    def test_who_called_comes_back_with_the_call(self):
        caller = {"type": "code_execution_20260120", "tool_id": "srv"}
        start = {"type": "tool_use", "id": "1", "name": "f", "input": {}, "caller": caller}
        events = play(answer(block(start), stop="tool_use"))
        [call] = only(ToolCallFinished, events)
        assert call.opaque == {"caller": caller}


class TestSearch:
    CITED = citation("https://a.example", "A")

    def test_it_is_sent_and_stored_as_it_came(self):
        items = [
            search("q"),
            search_result("https://a.example"),
            text("Says A.", cites=[self.CITED]),
        ]
        events = play(answer(*items))
        called = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search"}
        result = search_result("https://a.example")(0)[0]["content_block"]
        assert events[1:-1] == [
            ServerTool(key="srvtoolu_1", kind="web_search", phase="started", query="q"),
            Block(raw={**called, "input": {"query": "q"}}, position=0),
            ServerTool(
                key="srvtoolu_1",
                kind="web_search",
                phase="finished",
                urls=("https://a.example",),
                raw=result,
            ),
            TextDelta("Says A."),
            Citation(url="https://a.example", title="A", quoted="quoted words"),
            Block(raw={"type": "text", "text": "Says A.", "citations": [self.CITED]}, position=1),
        ]

    def test_a_page_is_cited_once(self):
        items = [text("a", cites=[self.CITED, self.CITED]), text("b", cites=[self.CITED])]
        assert sum(isinstance(event, Citation) for event in play(answer(*items))) == 1

    def test_one_that_failed_is_a_result_too(self):
        error = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
        failed = {"type": "web_search_tool_result", "tool_use_id": "s", "content": error}
        [tool] = [e for e in play(answer(block(failed), text("x"))) if isinstance(e, ServerTool)]
        assert (tool.raw, tool.urls) == (failed, ())

    def test_one_whose_query_was_cut_does_not_go_back(self):
        start = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
        cut = block(start, {"type": "input_json_delta", "partial_json": '{"query": "q'})
        assert play(answer(cut, stop="max_tokens")) == [
            START,
            Finished(reason="length", raw_reason="max_tokens"),
        ]

    def test_texts_side_by_side_go_back_side_by_side(self):
        events = play(answer(text("a"), text("b")))
        assert Block(raw={"type": "text", "text": "b"}, position=0) in events


def test_a_block_of_an_unknown_kind_goes_back_if_it_came_whole():
    new = {"type": "new_kind", "x": 1}
    assert Block(raw=new, position=0) in play(answer(block(new), text("x")))
    grown = block(new, {"type": "new_delta", "y": 2})
    assert play(answer(grown, text("x"))) == play(answer(text("x")))


def test_pings_and_what_is_new_are_passed_over():
    plain = answer(text("x"))
    new = [{"type": "ping"}, {"type": "new_event", "x": 1}, {"type": "ping"}]
    noisy = [each for event in plain for each in (event, *new)]
    noisy = [*new, *noisy[: -len(new)]]
    assert play(noisy) == play(plain)
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta", "z": 1}}
    assert play([*plain[:3], delta, *plain[3:]]) == play(plain)


class TestCounts:
    def counted(self, *usages) -> Usage:
        deltas = [
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
            for usage in usages[1:]
        ]
        events = [started(usages[0]), *text("x")(0), *deltas, {"type": "message_stop"}]
        decoding = decoder()
        given_ = [decoding.feed_object(event) for event in events]
        counts = [e for e in itertools.chain(*given_) if isinstance(e, Usage)]
        return counts[-1] if counts else None

    def test_none_are_unknown(self):
        assert self.counted(None, None) is None

    def test_the_last_one_known_counts_and_nothing_is_added(self):
        first = {"input_tokens": 7, "cache_read_input_tokens": 5, "output_tokens": 1}
        last = {"input_tokens": 8, "cache_read_input_tokens": None, "output_tokens": 9}
        details = {"output_tokens_details": {"thinking_tokens": 4}}
        assert self.counted(first, {"output_tokens": 3}, {**last, **details}) == Usage(
            input=8, cache_read=5, output=9, reasoning=4
        )

    def test_of_a_server_that_counts_at_the_end_only_they_are_the_end(self):
        assert self.counted(None, {"input_tokens": 2, "output_tokens": 3}) == Usage(
            input=2, output=3
        )


class TestEnds:
    def test_a_refusal_is_reported_with_its_reason(self):
        details = {"type": "refusal", "category": "bio", "explanation": "Too close to it."}
        events = play(answer(text("Well"), stop="refusal", stop_details=details))
        assert events[-2:] == [
            RefusalDelta("The model refused to answer (bio). Too close to it."),
            Finished(reason="refusal", raw_reason="refusal"),
        ]
        unexplained = play(answer(stop="refusal", stop_details=None))
        assert unexplained[-2] == RefusalDelta("The model refused to answer.")

    def test_a_stop_reason_without_message_stop_is_an_end(self):
        assert play(answer(text("x"))[:-1]) == play(answer(text("x")))

    def test_message_stop_without_a_reason_is_an_end(self):
        events = [started(), *text("x")(0), {"type": "message_stop"}]
        assert play(events)[-1] == Finished(reason="other")

    def test_done_as_other_apis_say_it_is_an_end_only_behind_a_reason(self):
        decoding = decoder()
        for event in answer(text("x"))[:-1]:
            decoding.feed_object(event)
        done = SSEvent(event="message", data="[DONE]")
        assert decoding.feed(done)[-1].reason == "stop"
        assert decoding.feed(done) == []
        with pytest.raises(BackendError, match="broke off"):
            decoder().feed(done)

    def test_unclosed_blocks_are_ended(self):
        events = [e for e in answer(thinking("a"), text("x")) if e["type"] != "content_block_stop"]
        kinds = [type(event) for event in play(events)]
        assert kinds.count(ReasoningFinished) == kinds.count(ReasoningStarted) == 1
        assert kinds[-1] is Finished


def error_event(kind: str, message: str = "?") -> dict:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


@pytest.mark.parametrize(
    ("value", "kind", "retryable"),
    [
        (error_event("overloaded_error", "Overloaded"), "overloaded", True),
        (error_event("rate_limit_error"), "rate_limit", True),
        (error_event("api_error"), "overloaded", True),
        (error_event("timeout_error"), "timeout", True),
        (error_event("authentication_error"), "auth", False),
        (error_event("permission_error"), "permission", False),
        (error_event("billing_error"), "quota", False),
        (error_event("request_too_large"), "request_too_large", False),
        (
            error_event("invalid_request_error", "prompt is too long: 5 > 4"),
            "context_overflow",
            False,
        ),
        ({"error": {"message": "input is too long"}}, "context_overflow", False),
        ({"type": "error"}, "unknown", False),
        ([1], "protocol", False),
        ({"type": "content_block_start", "index": 0, "content_block": 5}, "protocol", False),
        ({"type": "content_block_delta", "index": 9, "delta": {}}, "protocol", False),
    ],
)
def test_an_error_inside_a_stream_is_of_its_class(value, kind, retryable):
    decoding = decoder()
    decoding.feed_object(started())
    with pytest.raises(BackendError) as caught:
        decoding.feed(SSEvent(event="message", data=json.dumps(value)))
    assert (caught.value.kind, caught.value.retryable) == (kind, retryable)


def test_what_is_no_json_is_reported_with_its_beginning():
    with pytest.raises(BackendError, match=r"not JSON in the stream.*<html>"):
        decoder().feed(SSEvent(event="message", data="<html>"))


KEYS = ("type", "index", "delta", "content_block", "message", "usage", "text", "content")
KINDS = ("content_block_start", "content_block_delta", "message_delta", "message", "text")


@given(odd_values(KEYS, st.integers() | st.text(max_size=5) | st.sampled_from(KINDS)))
def test_whatever_comes_is_events_or_an_error(value):
    decoding = decoder()
    with suppress(BackendError):
        decoding.feed_object(value)
        decoding.feed_object({"type": "content_block_delta", "index": 0, "delta": value})
        decoding.close()


ITEMS = [
    thinking("Hm\u2028", "m"),
    redacted(),
    thinking(),
    text("a\u0085", "b\u2028c\u000b"),
    search("q"),
    search_result("https://a.example"),
    text("cited", cites=[citation("https://a.example", "A")]),
    tool_use("f", "", '{"n"', ":1}", call_id="1"),
    tool_use("g", call_id="2"),
]
STREAM = answer(*ITEMS, stop="tool_use")


def bytes_of(newline="\n") -> bytes:
    lines = ["\ufeff: comment", "retry: 5", ""]
    for event in STREAM:
        lines += [f"event: {event['type']}", "data:" + json.dumps(event, ensure_ascii=False), ""]
    return newline.join([*lines, ""]).encode()


def test_an_answer_that_was_not_streamed_is_the_same_one():
    content = [
        {"type": "thinking", "thinking": "Hm", "signature": "s"},
        {"type": "text", "text": "a", "citations": None},
        {"type": "tool_use", "id": "1", "name": "f", "input": {"n": 1}},
    ]
    whole = {**started()["message"], "content": content, "stop_reason": "tool_use", "usage": USAGE}
    body = json.dumps(whole).encode()
    events, error = decode(decoder(), [body], content_type="application/json")
    assert error is None
    items = [thinking("Hm", signature="s"), text("a"), tool_use("f", '{"n":1}', call_id="1")]
    streamed, _ = decode(decoder(), [wire(answer(*items, stop="tool_use"))])
    assert [e for e in events if not isinstance(e, Usage)] == [
        e for e in streamed if not isinstance(e, Usage | Progress)
    ]


pieces = st.lists(st.text("ab {}", min_size=1, max_size=4), max_size=3)
items = st.lists(
    st.builds(lambda p: text(*p), pieces)
    | st.builds(lambda p, s: thinking(*p, signature=s), pieces, st.sampled_from(["", "s"]))
    | st.builds(lambda p: tool_use("f", *p), pieces)
    | st.sampled_from(
        [redacted(), search("q"), search_result("u"), text("c", cites=[citation("u", "t")])]
    ),
    max_size=6,
)


@given(items, st.sampled_from(["end_turn", "tool_use", "max_tokens", "refusal", "new"]))
def test_the_rules_of_events_hold_for_every_answer(blocks, stop):
    events = play(answer(*blocks, stop=stop), may_be_empty=True)
    check_grammar(events)


@given(items)
def test_what_is_stored_of_an_answer_is_what_came(blocks):
    parts = read(play(answer(*blocks), may_be_empty=True)).message(US).parts
    content = [
        delta
        for number, item in enumerate(blocks)
        for event in item(number)
        if (delta := event.get("delta"))
    ]
    assert "".join(part.text for part in parts if isinstance(part, TextPart)) == "".join(
        delta["text"] for delta in content if delta["type"] == "text_delta"
    )
    assert "".join(part.text for part in parts if isinstance(part, ReasoningPart)) == "".join(
        delta["thinking"] for delta in content if delta["type"] == "thinking_delta"
    )
