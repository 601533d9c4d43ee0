"""The events of Responses, decoded, in every spelling of servers."""

import base64
import itertools
import json

import pytest

from eca_protocol.sse import SSEvent
from eca_server.models.answer import Answer
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
from tests.eca_server.models.openai_responses.scripted import (
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
from tests.eca_server.models.reading import new_keys, only, text_of


def play(events, **options) -> list:
    decoder = ResponsesDecoder(new_key=new_keys(), **options)
    fed = [decoder.feed_object(event) for event in events]
    return [*itertools.chain(*fed), *decoder.close()]


def failure(events, **options) -> BackendError:
    with pytest.raises(BackendError) as caught:
        play(events, **options)
    return caught.value


def without(events, *kinds) -> list[dict]:
    return [event for event in events if event["type"].removeprefix("response.") not in kinds]


def test_a_whole_answer_in_the_order_of_its_events():
    events = play(
        answer(
            reasoning("Think", "more"),
            message("Hel", "lo", phase="commentary"),
            call("read", '{"path": "a"}'),
        ),
        request_id="req_1",
    )
    reasoned = {
        "type": "reasoning",
        "id": "rs_0",
        "summary": [
            {"type": "summary_text", "text": "Think"},
            {"type": "summary_text", "text": "more"},
        ],
        "encrypted_content": "gAAA",
    }
    assert events == [
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
    delta = {"type": f"response.{kind}.delta", "content_index": 0}
    done = {"type": "reasoning", "id": "r", "content": [{"type": "reasoning_text", "text": "ab"}]}
    events = play(
        [
            {**delta, "output_index": 0, "item_id": "r", "delta": "a"},
            {**delta, "output_index": 0, "item_id": "r", "delta": "b"},
            {"type": "response.output_item.done", "output_index": 0, "item": done},
            *answer()[2:],
        ],
        may_be_empty=True,
    )
    assert [event.text for event in only(ReasoningDelta, events)] == ["a", "b"]
    assert only(ReasoningFinished, events)[0].opaque == done


@pytest.mark.parametrize("left_out", ["reasoning_summary_text.delta", "nothing"])
def test_parts_of_a_reasoning_that_are_empty_leave_no_trace(left_out):
    events = play(without(answer(reasoning("", "a", "", "b"), message("x")), left_out))
    assert "".join(event.text for event in only(ReasoningDelta, events)) == "a\n\nb"


def test_two_messages_of_one_answer_are_separate():
    events = play(answer(message("one"), reasoning(), message("two"), message("three")))
    assert text_of(events) == "one\n\ntwo\n\nthree"
    assert len(only(Block, events)) == 3


def test_a_call_is_known_by_its_call_id_and_not_by_its_items():
    [started] = only(ToolCallStarted, play(answer(call("f", "{}", call_id="call_1"))))
    assert (started.key, started.provider_id) == ("k1", "call_1")


def test_calls_that_are_written_at_once_are_distinguished_by_their_place():
    first, second = call("f", '{"n":1}', call_id="a")(0), call("g", '{"n":2}', call_id="b")(1)
    whole = answer(call("f", '{"n":1}', call_id="a"), call("g", '{"n":2}', call_id="b"))
    mixed = [event for pair in zip(first, second, strict=True) for event in pair]
    events = play([*whole[:2], *mixed, whole[-1]])
    assert [(each.key, each.arguments) for each in only(ToolCallFinished, events)] == [
        ("k1", {"n": 1}),
        ("k2", {"n": 2}),
    ]


def test_items_are_distinguished_though_each_event_gives_them_another_id():
    events = answer(message("a", "b"), call("f", '{"n": 1}'))
    for number, event in enumerate(events):
        if "item_id" in event:
            event["item_id"] = f"other_{number}"
        if "item" in event:
            event["item"] = {**event["item"], "id": f"another_{number}"}
    assert text_of(play(events)) == "ab"
    assert len(only(ToolCallFinished, play(events))) == 1


@pytest.mark.parametrize("repeated", [True, False])
def test_items_are_distinguished_though_all_have_the_same_place(repeated):
    events = [
        {**event, "output_index": 0} if "output_index" in event else event
        for event in answer(message("a"), call("f", "{}"), message("b"))
    ]
    if not repeated:
        events[-1]["response"]["output"] = []
    emitted = play(events)
    assert text_of(emitted) == "a\n\nb"
    assert len(only(ToolCallFinished, emitted)) == 1


def test_items_without_a_place_are_known_by_their_id():
    events = [
        {name: value for name, value in event.items() if name != "output_index"}
        for event in answer(message("a"), message("b"))
    ]
    assert text_of(play(events)) == "a\n\nb"


@pytest.mark.parametrize("kept", ["done", "terminal", "both"])
def test_what_was_never_streamed_is_taken_from_the_whole_items(kept):
    items = (
        reasoning("why"),
        message("ab", cites=[citation("http://u", "U", 0, 2)]),
        call("f", '{"n":1}'),
    )
    events = answer(*items)
    streamed = [event for event in events if event["type"] == "response.output_item.done"]
    result = {
        "done": [events[0], *streamed, {**events[-1], "response": response("completed")}],
        "terminal": [events[0], events[-1]],
        "both": [*streamed, events[-1]],
    }[kept]
    answered = play(result)
    assert text_of(answered) == "ab"
    assert [event.text for event in only(ReasoningDelta, answered)] == ["why"]
    assert only(Citation, answered) == [Citation(url="http://u", title="U", span=(0, 2))]
    assert only(ToolCallFinished, answered)[0].arguments == {"n": 1}
    assert answered[-1].reason == "tool_calls"


def test_the_end_of_a_text_that_was_not_streamed_is_added():
    events = answer(message("ab", "cd"))
    [second] = [event for event in events if event.get("delta") == "cd"]
    events.remove(second)
    assert text_of(play(events)) == "abcd"


def test_deltas_of_items_that_were_never_begun():
    events = without(answer(message("a"), refusal("n"), call("f", '{"n":1}')), "output_item.added")
    emitted = play(events)
    assert text_of(emitted) == "a"
    assert [event.text for event in only(RefusalDelta, emitted)] == ["n"]
    started = [type(e) for e in emitted if isinstance(e, ToolCallStarted | ToolCallArguments)]
    assert started == [ToolCallStarted, ToolCallArguments]


@pytest.mark.parametrize(
    ("raw", "words"),
    [("{bad", "not valid JSON"), ("[1]", "expected a JSON object"), ('{"n": NaN}', "not valid")],
)
def test_arguments_that_are_no_object_are_reported_to_the_model(raw, words):
    [finished] = only(ToolCallFinished, play(answer(call("f", raw))))
    assert finished.arguments is None
    assert words in finished.error


def test_arguments_are_read_exactly_and_their_absence_is_none():
    [finished] = only(ToolCallFinished, play(answer(call("f", '{"n": 1180591620717411303424}'))))
    assert finished.arguments == {"n": 2**70}
    [finished] = only(ToolCallFinished, play(answer(call("f", ""))))
    assert finished.arguments == {}


@pytest.mark.parametrize(
    ("reason", "ours"),
    [("max_output_tokens", "length"), ("content_filter", "content_filter"), ("steered", "other")],
)
def test_an_incomplete_answer_ends_with_its_reason(reason, ours):
    events = play(cut(message("so far"), reason=reason))
    assert text_of(events) == "so far"
    assert events[-1] == Finished(reason=ours, raw_reason=reason)


def test_a_call_that_was_cut_is_not_run_and_the_model_is_informed():
    [finished] = only(ToolCallFinished, play(cut(call("f", '{"path": "a', cut=True))))
    assert finished.arguments is None
    assert "cut off" in finished.error


def test_a_call_whose_end_never_came_is_closed():
    events = without(cut(call("f", '{"path": "a', cut=True)), "output_item.done")
    events[-1]["response"]["output"] = []
    [finished] = only(ToolCallFinished, play(events))
    assert (finished.arguments, finished.raw) == (None, '{"path": "a')


def test_reasoning_whose_end_never_came_is_closed_and_nothing_of_it_is_sent_back():
    events = without(cut(reasoning("hm")), "output_item.done")
    events[-1]["response"]["output"] = []
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


def test_pages_that_are_opened_are_reported():
    item = {"type": "web_search_call", "id": "ws", "action": {"type": "open_page", "url": "u"}}
    assert only(ServerTool, play(answer(other(item), message("x"))))[-1].urls == ("u",)


def test_a_source_is_cited_once_and_its_span_counts_the_whole_text():
    cites = [citation("http://u", "U", 0, 3), citation("http://u", "U", 3, 4)]
    events = play(answer(message("one"), message("two.", cites=cites)))
    assert only(Citation, events) == [Citation(url="http://u", title="U", span=(5, 8))]


def test_annotations_that_name_no_page_are_passed_over():
    file = {"type": "file_citation", "file_id": "f", "filename": "f", "index": 0}
    assert only(Citation, play(answer(message("x", cites=[file])))) == []


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
    expected = play(events)
    for numbers in (itertools.repeat(0), itertools.count(9, -1), itertools.repeat(None)):
        renumbered = [
            {**event, "sequence_number": number}
            for event, number in zip(events, numbers, strict=False)
        ]
        assert play(renumbered) == expected


def test_an_answer_that_is_no_stream_is_read_all_the_same():
    streamed = answer(reasoning("why"), message("ab"), call("f", '{"n":1}'))
    whole = streamed[-1]["response"]
    read, expected = Answer(), Answer()
    for event in play([whole]):
        read.feed(event)
    for event in play(streamed):
        expected.feed(event)
    assert read.text == expected.text == "ab"
    assert (read.usage, read.finished) == (expected.usage, expected.finished)
    assert [call.arguments for call in read.calls] == [{"n": 1}]
    late = play([*streamed[:2], whole])
    assert len(only(Started, late)) == 1
    assert text_of(late) == "ab"


@pytest.mark.parametrize(
    ("event", "kind", "words"),
    [
        ({"error": {"code": "rate_limit_exceeded", "message": "slow"}}, "rate_limit", "slow"),
        ({"error": {"code": "server_error", "message": "oops"}}, "overloaded", "oops"),
        ({"error": {"code": "invalid_prompt", "message": "no"}}, "content_filter", "no"),
        ({"error": {"code": "bio_policy", "message": "no"}}, "content_filter", "no"),
        ({"error": {"code": "invalid_base64_image", "message": "b"}}, "invalid_image", "b"),
        ({"error": {"code": "image_too_large", "message": "b"}}, "invalid_image", "b"),
        (
            {"error": {"code": "context_length_exceeded", "message": "full"}},
            "context_overflow",
            "full",
        ),
        ({"error": None}, "unknown", "failed"),
    ],
)
def test_a_failed_answer_is_an_error_of_its_class(event, kind, words):
    last = {"type": "response.failed", "response": response("failed", **event)}
    error = failure([*answer(message("x"))[:-1], last])
    assert error.kind == kind
    assert words in error.message


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "server_error", "message": "oops", "param": None},
        {"type": "error", "error": {"type": "server_error", "code": None, "message": "oops"}},
        {"error": {"code": "server_error", "message": "oops"}},
    ],
)
def test_an_error_may_be_anywhere_in_the_stream(event):
    error = failure([*answer(message("x"))[:4], event])
    assert (error.kind, error.message, error.retryable) == ("overloaded", "oops", True)


def test_an_error_without_a_message_is_reported_by_its_code():
    error = failure([{"type": "error", "code": "server_error", "message": ""}])
    assert (error.kind, error.message) == ("overloaded", "server_error")


def test_an_empty_answer_is_an_error_but_behind_results():
    assert failure(answer()).kind == "empty_response"
    assert failure(answer(reasoning())).kind == "empty_response"
    assert play(answer(), may_be_empty=True)[-1] == Finished(reason="stop")


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
    assert read_usage({"input_tokens": 5, "input_tokens_details": None, "cost": 0.5}) == Usage(
        input=5, cost=0.5
    )
    assert read_usage({"input_tokens": 5, "input_tokens_details": {"cached_tokens": 9}}).input == 0
