"""The effective history: it begins with the last summary, and is valid."""

from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.history import (
    CompactionPart,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    effective_history,
    repair,
)
from tests.eca_server.models.histories import histories

markers = st.builds(
    lambda summary, rest: Message(role="user", parts=(CompactionPart(summary), *rest)),
    st.sampled_from(["it was about {} and {0}", "short"]),
    st.sampled_from([(), (TextPart("the prompt"),)]),
)


def user(text: str) -> Message:
    return Message(role="user", parts=(TextPart(text),))


@given(histories, markers, histories)
def test_nothing_before_the_last_summary_is_sent(before, marker, after):
    effective = effective_history([*before, marker, *after])
    assert effective == effective_history([marker, *after])
    summary, *rest = marker.parts
    first, *retained = effective[0].parts
    assert summary.summary in first.text
    assert retained == rest
    assert effective[1:] == tuple(after)


@given(markers, histories)
def test_any_history_is_valid_from_any_summary_on(marker, after):
    repaired = repair(effective_history([marker, *after]))
    assert repaired[0].role == "user"
    assert repaired[-1].role in ("user", "tool")
    made: list[str] = []
    for message in repaired:
        assert not any(isinstance(part, CompactionPart) for part in message.parts)
        answered = [part.call_id for part in message.parts if isinstance(part, ToolResultPart)]
        assert answered == made
        made = [part.id for part in message.parts if isinstance(part, ToolCallPart)]
    assert made == []


@given(histories)
def test_a_history_without_a_summary_is_sent_whole(history):
    assert effective_history(history) == tuple(history)


def test_of_two_summaries_the_last_counts():
    first = Message(role="user", parts=(CompactionPart("first"),))
    second = Message(role="user", parts=(CompactionPart("second"), TextPart("prompt")))
    effective = effective_history([user("a"), first, user("b"), second, user("c")])
    assert [part.text.count("second") for part in effective[0].parts] == [1, 0]
    assert effective[1:] == (user("c"),)


def test_the_result_of_a_call_that_was_summarized_is_not_sent():
    call = ToolCallPart(id="a", name="f", raw="{}", arguments={})
    result = ToolResultPart(call_id="a", parts=(TextPart("r"),))
    marker = Message(role="user", parts=(CompactionPart("s"),))
    history = [
        user("a"),
        Message(role="assistant", parts=(call,)),
        marker,
        Message(role="tool", parts=(result,)),
        user("b"),
    ]
    [only] = repair(effective_history(history))
    assert [part.text for part in only.parts][1:] == ["b"]
