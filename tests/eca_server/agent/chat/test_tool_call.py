"""The automaton of a tool call: its table, and any sequence of inputs (W-30, W-34)."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.errors import LocalProtocolError
from eca_protocol.messages import (
    ChatContent,
    ChatToolCalledContent,
    ChatToolCallRejectedContent,
    ChatToolCallRunContent,
    FileChangeDetails,
    JsonOutputsDetails,
)
from eca_protocol.server.calls import TRANSITIONS, CallInput, CallState, Naming
from eca_server.agent.chat.tool_call import ToolCall
from eca_server.agent.tools.tool import ToolOutput
from eca_server.models.history import TextPart

NAMING = Naming(id="1", name="eca_read_file", server="eca", origin="native")
DONE = ToolOutput(parts=(TextPart("done"),))
ENDS = {CallState.CALLED, CallState.REJECTED}
USER = {CallInput.APPROVE, CallInput.REJECT}

DIFF = FileChangeDetails(path="/p/a", diff="+a", lines_added=1, lines_removed=0)


def give(call: ToolCall, given: CallInput) -> bool:
    """Return whether the call accepted the input."""
    match given:
        case CallInput.ANNOUNCE:
            call.announce({"a": 1}, manual_approval=True, summary="Doing it", details=DIFF)
        case CallInput.ASK:
            call.ask()
        case CallInput.DENY:
            call.deny("no")
        case CallInput.FAULT:
            call.fault("cannot")
        case CallInput.START:
            call.start()
        case CallInput.APPROVE:
            return call.approve()
        case CallInput.REJECT:
            return call.reject()
        case CallInput.DONE:
            call.finish(DONE)
        case CallInput.STOP:
            call.stop()
    return True


def test_every_open_state_can_be_stopped_and_every_end_is_an_end():
    assert set(TRANSITIONS) == set(CallState)
    for state, row in TRANSITIONS.items():
        assert row[CallInput.STOP] in ENDS
        if state in ENDS:
            assert row == {CallInput.STOP: state}


def test_the_table_says_what_the_rulings_say():
    run, waiting, running = CallState.RUN, CallState.WAITING, CallState.RUNNING
    assert TRANSITIONS[CallState.PREPARING][CallInput.STOP] is CallState.REJECTED
    assert TRANSITIONS[run][CallInput.DENY] is CallState.REJECTED
    assert TRANSITIONS[run][CallInput.FAULT] is CallState.CALLED
    assert TRANSITIONS[waiting][CallInput.REJECT] is CallState.REJECTED
    assert TRANSITIONS[waiting][CallInput.STOP] is CallState.REJECTED
    assert TRANSITIONS[running][CallInput.STOP] is CallState.CALLED
    for state, row in TRANSITIONS.items():
        assert (CallInput.APPROVE in row) is (state is waiting)
        assert (CallInput.REJECT in row) is (state is waiting)
        assert (CallInput.DONE in row) is (state is running)


@pytest.mark.requirement("TOOL-3", "TOOL-5", "TOOL-6")
@given(st.lists(st.sampled_from(CallInput), max_size=12))
def test_any_sequence_closes_the_call_once_and_in_order(inputs):
    trio.run(play, inputs)


async def play(inputs: list[CallInput]) -> None:
    said: list[ChatContent] = []
    call = ToolCall(said.append, NAMING)
    call.prepare("")
    for each in inputs:
        before, length = call.state, len(said)
        try:
            taken = give(call, each)
        except LocalProtocolError:
            taken = False
            assert each not in USER, "what the client sends is never a fault"
        if not taken:
            assert each not in TRANSITIONS[before]
            assert (call.state, len(said)) == (before, length)
        else:
            assert call.state is TRANSITIONS[before][each]
        assert call.decided.is_set() or call.is_open
        assert (call.result is not None) is not call.is_open
    call.stop()
    kinds = [each.type for each in said]
    assert kinds in (
        ["toolCallPrepare", "toolCallRejected"],
        ["toolCallPrepare", "toolCallRun", "toolCallRejected"],
        ["toolCallPrepare", "toolCallRun", "toolCalled"],
        ["toolCallPrepare", "toolCallRun", "toolCallRunning", "toolCalled"],
    )
    assert call.result_part().call_id == "1"


async def test_what_is_shown_at_run_is_shown_to_the_end():
    said: list[ChatContent] = []
    call = ToolCall(said.append, NAMING)
    for each in (CallInput.ANNOUNCE, CallInput.START, CallInput.DONE):
        give(call, each)
    for content in said:
        assert getattr(content, "details", None) == DIFF
        assert getattr(content, "summary", None) == "Doing it"


async def test_a_decision_that_comes_early_is_not_stored_for_later():
    said: list[ChatContent] = []
    call = ToolCall(said.append, NAMING)
    assert not call.approve()
    give(call, CallInput.ANNOUNCE)
    assert not call.reject()
    call.ask()
    assert call.state is CallState.WAITING
    assert call.reject()
    assert not call.approve()
    assert [type(each) for each in said] == [ChatToolCallRunContent, ChatToolCallRejectedContent]


async def test_of_a_call_that_never_began_on_the_wire_nothing_is_sent_by_a_stop():
    said: list[ChatContent] = []
    call = ToolCall(said.append, NAMING)
    call.stop()
    assert said == []
    assert call.result_part().is_error


async def test_a_result_says_how_long_it_took(autojump_clock):
    said: list[ChatContent] = []
    call = ToolCall(said.append, NAMING)
    give(call, CallInput.ANNOUNCE)
    give(call, CallInput.START)
    await trio.sleep(2)
    call.stop()
    assert isinstance(said[-1], ChatToolCalledContent)
    assert said[-1].total_time_ms == 2000
    assert said[-1].error


DEEP = "[" * 60 + "1" + "]" * 60


@pytest.mark.requirement("TOOL-12")
@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (['{"a":[1]}', " [] "], ('{\n  "a": [\n    1\n  ]\n}', "[]")),
        ([DEEP], (DEEP,)),
        (["{}", "told"], None),
        (["{broken"], None),
        (["1"], None),
        ([], None),
    ],
)
async def test_what_a_server_s_tool_says_in_json_is_laid_out(texts, shown):
    told: list[ChatContent] = []
    call = ToolCall(told.append, Naming(id="1", name="list", server="git", origin="mcp"))
    call.announce({}, manual_approval=False)
    call.start()
    call.finish(ToolOutput(parts=tuple(map(TextPart, texts))))
    assert isinstance(told[-1], ChatToolCalledContent)
    assert told[-1].details == (None if shown is None else JsonOutputsDetails(jsons=shown))
