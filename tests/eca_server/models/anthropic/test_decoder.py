"""The stream of the Messages API: its blocks, and the rules for every answer."""

import pytest

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
    TextDelta,
    ToolCallArguments,
    ToolCallFinished,
    Usage,
)
from tests.eca_server.models.anthropic.scripted import (
    answer,
    block,
    citation,
    redacted,
    search,
    search_result,
    text,
    thinking,
    tool_use,
)
from tests.eca_server.models.reading import calls_of, holds, new_keys, only, play_objects


def decoder(**options) -> MessagesDecoder:
    return MessagesDecoder(new_key=new_keys(), **options)


def play_events(events) -> list:
    """Return our events for a stream of these events, without the counts."""
    uncounted = play_objects(decoder(), events)
    return [event for event in uncounted if not isinstance(event, Usage | Progress)]


def play(*items, **fields) -> list:
    return play_events(answer(*items, **fields))


def test_each_thought_keeps_its_signature_or_its_data():
    thoughts = [thinking("Hm", "m"), thinking(), redacted("ZGF0YQ=="), thinking("a", signature="")]
    events = play(*thoughts[:3], tool_use("f", "{}"), thoughts[3], text("x"))
    assert events[1:8] == [
        ReasoningStarted("reasoning_1"),
        ReasoningDelta("reasoning_1", "Hm"),
        ReasoningDelta("reasoning_1", "m"),
        ReasoningFinished(key="reasoning_1", opaque={"signature": "c2ln"}),
        ReasoningStarted("reasoning_2"),
        ReasoningFinished(key="reasoning_2", opaque={"signature": "c2ln"}),
        ReasoningStarted("reasoning_3"),
    ]
    assert only(ReasoningFinished, events)[2:] == [
        ReasoningFinished(key="reasoning_3", opaque={"data": "ZGF0YQ=="}, redacted=True),
        ReasoningFinished(key="reasoning_4", opaque={"signature": ""}),
    ]


@pytest.mark.parametrize(
    ("item", "arguments", "raw"),
    [
        (tool_use("f"), {}, ""),
        (tool_use("f", arguments={"n": 1}), {"n": 1}, '{"n":1}'),
        (tool_use("f", '{"n": 2}', arguments={"n": 1}), {"n": 2}, '{"n": 2}'),
    ],
)
def test_arguments_are_the_pieces_or_else_what_the_start_says(item, arguments, raw):
    events = play(item, stop="tool_use")
    assert calls_of(events) == [("f", arguments)]
    [call] = only(ToolCallFinished, events)
    assert raw == call.raw
    assert "".join(e.text for e in only(ToolCallArguments, events)) == call.raw


CITED = citation("https://a.example", "A")


def test_a_search_is_sent_and_stored_as_it_came():
    events = play(search("q"), search_result(CITED["url"]), text("Says A.", cites=[CITED]))
    called = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search"}
    result = search_result(CITED["url"])(0)[0]["content_block"]
    tool = {"key": "srvtoolu_1", "kind": "web_search"}
    assert events[1:-1] == [
        ServerTool(**tool, phase="started", query="q"),
        Block(raw={**called, "input": {"query": "q"}}, position=0),
        ServerTool(**tool, phase="finished", urls=(CITED["url"],), raw=result),
        TextDelta("Says A."),
        Citation(url=CITED["url"], title="A", quoted="quoted words"),
        Block(raw={"type": "text", "text": "Says A.", "citations": [CITED]}, position=1),
    ]


CALLER = {"caller": {"type": "code_execution_20260120", "tool_id": "srv"}}
ERROR = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
FAILED = {"type": "web_search_tool_result", "tool_use_id": "s", "content": ERROR}
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
NEW = {"type": "new_kind", "x": 1}
A, B = text("a"), text("b")
TWO_CALLS = [tool_use("a"), tool_use("b", '{"n": 1}')]
BOTH = {"calls": [("a", {}), ("b", {"n": 1})]}

ANSWERS = {
    "calls in the model's order": (answer(*TWO_CALLS, stop="tool_use"), BOTH),
    "calls that were whole before the limit": (answer(*TWO_CALLS, A, stop="max_tokens"), BOTH),
    "who called": (
        answer(block({"type": "tool_use", "id": "1", "name": "f", "input": {}, **CALLER})),
        {"call_opaques": [CALLER]},
    ),
    "a page that is cited often": (
        answer(text("a", cites=[CITED, CITED]), text("b", cites=[CITED])),
        {"citations": [Citation(url=CITED["url"], title="A", quoted="quoted words")]},
    ),
    "a search that failed": (
        answer(block(FAILED), A),
        {"tools": [("web_search", "finished")], "urls": [()]},
    ),
    "a search whose query was cut": (
        answer(block(SEARCH, {"type": "input_json_delta", "partial_json": '{"query": "q'}), A),
        {"tools": [], "blocks": [], "text": "a"},
    ),
    "texts side by side": (answer(A, B), {"blocks": [{"type": "text", "text": "b"}]}),
    "an unknown block": (answer(block(NEW), A), {"blocks": [NEW], "text": "a"}),
    "an unknown block with deltas": (
        answer(block(NEW, {"type": "new_delta", "y": 2}), A),
        {"blocks": [], "text": "a"},
    ),
    "a reason without message_stop": (answer(A)[:-1], {"text": "a", "reason": "stop"}),
    "message_stop without a reason": ([*answer(A)[:-2], answer(A)[-1]], {"reason": "other"}),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_holds_what_came(name):
    events, expected = ANSWERS[name]
    holds(play_events(events), **expected)


def test_pings_and_what_is_new_are_passed_over():
    plain = answer(text("x"))
    new = [{"type": "ping"}, {"type": "new_event", "x": 1}, {"type": "ping"}]
    noisy = [*new, *(each for event in plain[:-1] for each in (event, *new)), plain[-1]]
    assert play_events(noisy) == play_events(plain)
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta", "z": 1}}
    assert play_events([*plain[:3], delta, *plain[3:]]) == play_events(plain)


def test_a_refusal_is_reported_with_its_reason():
    details = {"type": "refusal", "category": "bio", "explanation": "Too close to it."}
    assert play(text("Well"), stop="refusal", stop_details=details)[-2:] == [
        RefusalDelta("The model refused to answer (bio). Too close to it."),
        Finished(reason="refusal", raw_reason="refusal"),
    ]
    unexplained = play(stop="refusal", stop_details=None)
    assert unexplained[-2] == RefusalDelta("The model refused to answer.")


def test_done_as_other_apis_say_it_is_an_end_only_behind_a_reason():
    decoding = decoder()
    for event in answer(text("x"))[:-1]:
        decoding.feed_object(event)
    done = SSEvent(event="message", data="[DONE]")
    assert decoding.feed(done)[-1].reason == "stop"
    assert decoding.feed(done) == []
    with pytest.raises(BackendError, match="broke off"):
        decoder().feed(done)


def test_unclosed_blocks_are_ended():
    events = [e for e in answer(thinking("a"), text("x")) if e["type"] != "content_block_stop"]
    kinds = [type(event) for event in play_events(events)]
    assert kinds.count(ReasoningFinished) == kinds.count(ReasoningStarted) == 1
    assert kinds[-1] is Finished
