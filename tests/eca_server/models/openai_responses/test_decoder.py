"""The events of Responses, decoded, in every spelling of servers."""

import base64
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.sse import SSEvent
from eca_server.models.backend import BackendError
from eca_server.models.events import (
    Block,
    Citation,
    Finished,
    Image,
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
from eca_server.models.openai_responses.decoder import ResponsesDecoder, read_usage
from tests.eca_server.models.histories import OURS
from tests.eca_server.models.openai_responses.scripted import (
    EVERYTHING,
    USAGE,
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
    new_keys,
    only,
    play_objects,
    read,
    text_of,
    thoughts_of,
)
from tests.eca_server.models.test_streams import check_answer


def play(events, **options) -> list:
    return play_objects(ResponsesDecoder(new_key=new_keys(), **options), events)


def failure(events) -> BackendError:
    with pytest.raises(BackendError) as caught:
        play(events)
    return caught.value


def without(events, *kinds) -> list[dict]:
    return [event for event in events if event["type"].removeprefix("response.") not in kinds]


def silent(events) -> list[dict]:
    """Return the events with a last one that repeats nothing."""
    return [*events[:-1], {**events[-1], "response": {**events[-1]["response"], "output": []}}]


def test_a_whole_answer_in_the_order_of_its_events():
    thought, said = reasoning("Think", "more"), message("Hel", "lo", phase="commentary")
    called = call("read", '{"path": "a"}')
    summary = [{"type": "summary_text", "text": text} for text in ("Think", "more")]
    reasoned = {"type": "reasoning", "id": "rs_0", "summary": summary, "encrypted_content": "gAAA"}
    assert play(answer(thought, said, called), request_id="req_1") == [
        Started(response_id="resp_1", model="gpt-test", request_id="req_1"),
        ReasoningStarted("reasoning_1"),
        ReasoningDelta("reasoning_1", "Th"),
        ReasoningDelta("reasoning_1", "ink"),
        ReasoningDelta("reasoning_1", "\n\nmo"),
        ReasoningDelta("reasoning_1", "re"),
        ReasoningFinished(key="reasoning_1", opaque=reasoned),
        TextDelta("Hel"),
        TextDelta("lo"),
        Block(raw={"type": "message", "phase": "commentary"}, position=0),
        ToolCallStarted(key="k1", name="read", provider_id="call_theirs"),
        ToolCallArguments("k1", '{"path'),
        ToolCallArguments("k1", '": "a"}'),
        ToolCallFinished(key="k1", raw='{"path": "a"}', arguments={"path": "a"}),
        Usage(input=30, cache_read=60, cache_write=10, output=20, reasoning=5),
        Finished(reason="tool_calls"),
    ]


@pytest.mark.parametrize("encrypted", ["gAAA", None])
def test_reasoning_without_text_is_begun_ended_and_stored_as_it_is_when_done(encrypted):
    events = play(answer(reasoning(encrypted=encrypted), message("x")))
    [finished] = only(ReasoningFinished, events)
    assert finished.opaque.get("encrypted_content") == encrypted
    assert only(ReasoningDelta, events) == []


@pytest.mark.parametrize("kind", ["reasoning_text", "reasoning"])
def test_servers_with_open_weights_send_the_reasoning_itself(kind):
    place = {"output_index": 0, "item_id": "r"}
    delta = {"type": f"response.{kind}.delta", "content_index": 0, **place}
    done = {"type": "reasoning", "id": "r", "content": [{"type": "reasoning_text", "text": "ab"}]}
    end = {"type": "response.output_item.done", "output_index": 0, "item": done}
    deltas = [{**delta, "delta": "a"}, {**delta, "delta": "b"}]
    events = play([*deltas, end, *answer()[2:]], may_be_empty=True)
    assert [event.text for event in only(ReasoningDelta, events)] == ["a", "b"]
    assert only(ReasoningFinished, events)[0].opaque == done


@pytest.mark.parametrize("left_out", ["reasoning_summary_text.delta", "nothing"])
def test_parts_of_a_reasoning_that_are_empty_leave_no_trace(left_out):
    events = play(without(answer(reasoning("", "a", "", "b"), message("x")), left_out))
    assert thoughts_of(events) == "a\n\nb"


def test_two_messages_of_one_answer_are_separate():
    events = play(answer(message("one"), reasoning(), message("two"), message("three")))
    assert text_of(events) == "one\n\ntwo\n\nthree"
    assert len(only(Block, events)) == 3


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
    assert text_of(emitted) == "ab\n\nc"
    assert [event.text for event in only(RefusalDelta, emitted)] == ["n"]
    assert len(only(ToolCallStarted, emitted)) == len(only(ToolCallFinished, emitted)) == 1


@pytest.mark.parametrize("kept", ["done", "terminal", "both"])
def test_what_was_never_streamed_is_taken_from_the_whole_items(kept):
    said = message("ab", cites=[citation("http://u", "U", 0, 2)])
    events = answer(reasoning("why"), said, call("f", '{"n":1}'))
    streamed = [event for event in events if event["type"] == "response.output_item.done"]
    answered = play(
        {
            "done": [events[0], *streamed, silent(events)[-1]],
            "terminal": [events[0], events[-1]],
            "both": [*streamed, events[-1]],
        }[kept]
    )
    assert text_of(answered) == "ab"
    assert [event.text for event in only(ReasoningDelta, answered)] == ["why"]
    assert only(Citation, answered) == [Citation(url="http://u", title="U", span=(0, 2))]
    assert only(ToolCallFinished, answered)[0].arguments == {"n": 1}
    assert answered[-1].reason == "tool_calls"


def test_the_end_of_a_text_that_was_not_streamed_is_added():
    events = [event for event in answer(message("ab", "cd")) if event.get("delta") != "cd"]
    assert text_of(play(events)) == "abcd"


@pytest.mark.parametrize(
    ("raw", "arguments", "words"),
    [
        ("{bad", None, "not valid JSON"),
        ("[1]", None, "expected a JSON object"),
        ('{"n": NaN}', None, "not valid"),
        ('{"n": 1180591620717411303424}', {"n": 2**70}, None),
        ("", {}, None),
    ],
)
def test_arguments_are_read_exactly_or_reported_to_the_model(raw, arguments, words):
    [finished] = only(ToolCallFinished, play(answer(call("f", raw))))
    assert finished.arguments == arguments
    assert (words or "") in (finished.error or "")
    assert (words is None) == (finished.error is None)


@pytest.mark.parametrize(
    ("reason", "ours"),
    [("max_output_tokens", "length"), ("content_filter", "content_filter"), ("steered", "other")],
)
def test_an_incomplete_answer_ends_with_its_reason(reason, ours):
    events = play(cut(message("so far"), reason=reason))
    assert text_of(events) == "so far"
    assert events[-1] == Finished(reason=ours, raw_reason=reason)


@pytest.mark.parametrize("has_end", [True, False])
def test_a_call_that_was_cut_is_not_run_and_the_model_is_informed(has_end):
    events = cut(call("f", '{"path": "a', cut=True))
    [finished] = only(
        ToolCallFinished, play(events if has_end else silent(without(events, "output_item.done")))
    )
    assert (finished.arguments, finished.raw) == (None, '{"path": "a')
    assert "cut off" in finished.error


def test_reasoning_whose_end_never_came_is_closed_and_nothing_of_it_is_sent_back():
    events = silent(without(cut(reasoning("hm")), "output_item.done"))
    [finished] = only(ReasoningFinished, play(events))
    assert finished.opaque is None


def test_a_refusal_ends_as_one():
    events = play(answer(refusal("I ", "won't.")))
    assert "".join(event.text for event in only(RefusalDelta, events)) == "I won't."
    assert events[-1] == Finished(reason="refusal")


def test_a_web_search_is_shown_and_stored_as_it_is():
    events = play(answer(search("weather", "http://a", "http://b"), message("Rain")))
    started, finished = only(ServerTool, events)
    assert (started.phase, started.kind) == ("started", "web_search")
    assert (finished.query, finished.urls) == ("weather", ("http://a", "http://b"))
    assert finished.raw["type"] == "web_search_call"
    item = {"type": "web_search_call", "id": "ws", "action": {"type": "open_page", "url": "u"}}
    assert only(ServerTool, play(answer(other(item), message("x"))))[-1].urls == ("u",)


def test_a_source_is_cited_once_and_its_span_counts_the_whole_text():
    cites = [citation("http://u", "U", 0, 3), citation("http://u", "U", 3, 4)]
    file = {"type": "file_citation", "file_id": "f", "filename": "f", "index": 0}
    events = play(answer(message("one"), message("two.", cites=[file, *cites])))
    assert only(Citation, events) == [Citation(url="http://u", title="U", span=(5, 8))]


def test_unknown_events_are_passed_over_and_unknown_items_stored_as_they_are():
    item = {"type": "program", "id": "p", "code": "1"}
    events = answer(message("a"), other(item), message("b"))
    odd = [
        {"type": "response.audio.delta", "delta": "..."},
        {"type": "response.output_text.delta", "output_index": 1, "delta": 5},
        {"type": "response.new_thing.delta", "output_index": 99, "delta": "?"},
        {"type": "keepalive", "sequence_number": 3},
        {"type": "response.queued", "response": response("queued")},
    ]
    emitted = play([*events[:-1], *odd, events[-1]])
    assert text_of(emitted) == "a\n\nb"
    assert item in [block.raw for block in only(Block, emitted)]
    assert only(Progress, emitted) == [Progress("queued")]


@pytest.mark.parametrize("kind", ["custom_tool_call", "computer_call", "mcp_approval_request"])
def test_items_that_wait_for_an_answer_of_ours_are_not_stored(kind):
    item = {"type": kind, "id": "x", "call_id": "c", "status": "completed"}
    assert only(Block, play(answer(other(item)), may_be_empty=True)) == []


def test_a_picture_of_the_model_is_shown_and_stored():
    item = {
        "type": "image_generation_call",
        "id": "ig",
        "status": "completed",
        "output_format": "webp",
        "result": base64.b64encode(b"picture").decode(),
    }
    events = play(answer(other(item)))
    assert only(Image, events) == [Image(media_type="image/webp", data=b"picture")]
    assert only(Block, events)[0].raw == item
    assert failure(answer(other({**item, "result": "a"}))).kind == "protocol"


def test_sequence_numbers_do_not_count():
    events = answer(message("a", "b"))
    for numbers in (itertools.repeat(0), itertools.count(9, -1), itertools.repeat(None)):
        numbered = zip(events, numbers, strict=False)
        renumbered = [{**event, "sequence_number": number} for event, number in numbered]
        assert play(renumbered) == play(events)


def test_a_whole_answer_behind_the_start_of_a_stream_is_no_second_one():
    streamed = answer(message("ab"), call("f", '{"n":1}'))
    late = play([*streamed[:2], streamed[-1]["response"]])
    assert len(only(Started, late)) == 1
    assert text_of(late) == "ab"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("rate_limit_exceeded", "rate_limit"),
        ("server_error", "overloaded"),
        ("invalid_prompt", "content_filter"),
        ("bio_policy", "content_filter"),
        ("invalid_base64_image", "invalid_image"),
        ("image_too_large", "invalid_image"),
        ("context_length_exceeded", "context_overflow"),
        (None, "unknown"),
    ],
)
def test_a_failed_answer_is_an_error_of_its_class(code, kind):
    fault = {"code": code, "message": "oops"} if code else None
    last = {"type": "response.failed", "response": response("failed", error=fault)}
    error = failure([*answer(message("x"))[:-1], last])
    assert error.kind == kind
    assert ("oops" if code else "failed") in error.message


SERVER_ERROR = {"code": "server_error", "message": "oops"}


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", **SERVER_ERROR, "param": None},
        {"type": "error", "error": {"type": "server_error", "code": None, "message": "oops"}},
        {"error": SERVER_ERROR},
    ],
)
def test_an_error_may_be_anywhere_in_the_stream(event):
    error = failure([*answer(message("x"))[:4], event])
    assert (error.kind, error.message, error.retryable) == ("overloaded", "oops", True)


def test_an_error_without_a_message_is_reported_by_its_code():
    error = failure([{"type": "error", "code": "server_error", "message": ""}])
    assert (error.kind, error.message) == ("overloaded", "server_error")


def test_reasoning_alone_is_an_empty_answer():
    assert failure(answer(reasoning())).kind == "empty_response"


@pytest.mark.parametrize("data", ["{", "5", "[]", '{"choices": []}'])
def test_what_is_no_event_is_a_protocol_error(data):
    with pytest.raises(BackendError) as caught:
        ResponsesDecoder().feed(SSEvent(event="message", data=data))
    assert caught.value.kind == "protocol"


def test_the_name_of_an_event_replaces_its_type():
    decoder = ResponsesDecoder()
    events = []
    for event in answer(message("a")):
        data = json.dumps({name: value for name, value in event.items() if name != "type"})
        events += decoder.feed(SSEvent(event=event["type"], data=data))
    assert text_of(events) == "a"


def test_done_marks_are_passed_over_behind_the_end_and_no_end_before_it():
    decoder = ResponsesDecoder()
    for event in answer(message("a")):
        decoder.feed_object(event)
    assert decoder.feed(SSEvent(event="message", data="[DONE]")) == []
    assert decoder.feed_object(response("completed")) == []
    with pytest.raises(BackendError, match="broke off"):
        ResponsesDecoder().feed(SSEvent(event="message", data="[DONE]"))


def test_token_counts_are_disjoint_and_unknown_ones_none():
    assert read_usage(USAGE).input == 30
    assert read_usage({}) == Usage()
    priced = {"input_tokens": 5, "input_tokens_details": None, "cost": 0.5}
    assert read_usage(priced) == Usage(input=5, cost=0.5)
    assert read_usage({"input_tokens": 5, "input_tokens_details": {"cached_tokens": 9}}).input == 0


NAMES = ("output_index", "item_id", "content_index", "summary_index", "id", "call_id", "type")


@pytest.mark.parametrize("name", NAMES)
def test_members_of_the_wrong_type_end_no_answer_in_another_way(name):
    def bent(value, odd):
        if isinstance(value, list):
            return [bent(member, odd) for member in value]
        if isinstance(value, dict):
            return {k: odd if k == name else bent(member, odd) for k, member in value.items()}
        return value

    for odd in (None, [], {}, "x", 1.5, True):
        stream = [
            {**bent({**event, "type": None}, odd), "type": event["type"]} for event in EVERYTHING
        ]
        check_grammar(play(stream, may_be_empty=True))


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
    events = play(without(stream, *left_out), may_be_empty=True)
    check_grammar(events)
    check_answer(events)
    answered, expected = read(events), read(play(stream, may_be_empty=True))
    assert answered.message(OURS) == expected.message(OURS)
    assert answered.finished == expected.finished
