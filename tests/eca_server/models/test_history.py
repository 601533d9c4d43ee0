"""The repair of any history, interrupted or not, into one that a strict server accepts."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.history import (
    BlockPart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    repair,
)
from tests.eca_server.models.histories import OURS, histories


@given(histories)
def test_a_repaired_history_keeps_every_rule(history):
    repaired = repair(history)
    assert repaired[0].role == "user"
    assert repaired[-1].role in ("user", "tool")
    ids: set[str] = set()
    expected: list[str] = []
    for before, message in zip((None, *repaired), repaired, strict=False):
        assert message.parts
        assert before is None or before.role != message.role
        assert all(part.text.strip() for part in message.parts if isinstance(part, TextPart))
        made = [part for part in message.parts if isinstance(part, ToolCallPart)]
        given_ = [part for part in message.parts if isinstance(part, ToolResultPart)]
        assert [part.call_id for part in given_] == expected
        expected = [part.id for part in made]
        assert not set(expected) & ids
        assert len(set(expected)) == len(expected)
        ids |= set(expected)
        assert all(json.loads(part.raw) == part.arguments for part in made)
        assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", part.name) for part in made)
        if message.role != "assistant":
            assert not made
        if message.role != "tool":
            assert not given_
    assert expected == []


@given(histories)
def test_a_repair_of_a_repaired_history_changes_nothing(history):
    repaired = repair(history)
    assert repair(repaired) == repaired


@given(
    st.lists(
        st.tuples(st.text("ab", min_size=1, max_size=3), st.booleans()), min_size=1, max_size=5
    )
)
def test_a_valid_history_is_left_alone(exchanges):
    history: list[Message] = []
    for number, (text, calls_tool) in enumerate(exchanges):
        history.append(Message(role="user", parts=(TextPart(text),)))
        parts: tuple = (ReasoningPart(text="hm"), TextPart(text))
        if calls_tool:
            call = ToolCallPart(id=f"c{number}", name="f", raw='{"n": 1}', arguments={"n": 1})
            result = ToolResultPart(call_id=call.id, parts=(TextPart("r"),))
            history.append(Message(role="assistant", parts=(*parts, call), origin=OURS))
            history.append(Message(role="tool", parts=(result,)))
        history.append(Message(role="assistant", parts=parts, origin=OURS))
    history.append(Message(role="user", parts=(TextPart("last"),)))
    assert repair(history) == tuple(history)


def test_an_interrupted_answer_keeps_its_text_and_nothing_unfinished():
    call = ToolCallPart(id="a", name="f", raw="{}", arguments={})
    parts = (ReasoningPart(text="hm"), TextPart("Hel"), call)
    user = Message(role="user", parts=(TextPart("x"),))
    stopped = Message(role="assistant", parts=parts, origin=OURS, interrupted=True)
    assert repair([user, stopped, user])[1].parts == (TextPart("Hel"),)
    whole = Message(role="assistant", parts=parts, origin=OURS)
    _, answer, results, _ = repair([user, whole, user])
    assert answer.parts == parts
    assert results.parts[0].is_error


def test_a_whole_answer_loses_nothing_to_an_interrupted_one_before_it():
    user = Message(role="user", parts=(TextPart("x"),))
    cut = Message(role="assistant", parts=(TextPart("Hel"),), interrupted=True)
    whole = Message(role="assistant", parts=(TextPart("Hello"), BlockPart(raw={})))
    repaired = repair([user, cut, whole, user])
    assert repaired[1].parts == (*cut.parts, *whole.parts)
    assert repair(repaired) == repaired
