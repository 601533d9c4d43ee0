"""The part of a history that is sent: from its last summary on, repaired for a strict server."""

import json
import re

import attrs
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol import json as strict_json
from eca_server.models import history as h
from tests.eca_server.models.histories import histories, model, tool, tool_call, tool_result, user
from tests.eca_server.models.reading import only


@given(histories)
def test_a_repaired_history_keeps_every_rule(history):
    repaired = h.repair(history)
    check(repaired)
    assert h.repair(repaired) == repaired


def check(repaired):
    assert repaired[0].role == "user"
    assert repaired[-1].role in ("user", "tool")
    ids: set[str] = set()
    expected: list[str] = []
    for before, message in zip((None, *repaired), repaired, strict=False):
        assert message.parts
        assert before is None or before.role != message.role
        assert all(part.text.strip() for part in message.parts if isinstance(part, h.TextPart))
        made = [part for part in message.parts if isinstance(part, h.ToolCallPart)]
        results = [part for part in message.parts if isinstance(part, h.ToolResultPart)]
        assert [part.call_id for part in results] == expected
        expected = [part.id for part in made]
        assert not set(expected) & ids
        assert len(set(expected)) == len(expected)
        ids |= set(expected)
        assert all(json.loads(part.raw) == part.arguments for part in made)
        assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", part.name) for part in made)
        if message.role != "assistant":
            assert not made
        if message.role != "tool":
            assert not results
    assert expected == []


exchanges = st.lists(
    st.tuples(st.text("ab", min_size=1, max_size=3), st.booleans()), min_size=1, max_size=5
)


@given(exchanges)
def test_a_valid_history_is_left_alone(exchanges):
    history: list[h.Message] = []
    for number, (text, calls_tool) in enumerate(exchanges):
        parts = h.ReasoningPart(text="hm"), text
        call = tool_call(f"c{number}", raw='{"n": 1}', arguments={"n": 1})
        called = [model(*parts, call), tool(tool_result(call.id))] if calls_tool else []
        history += [user(text), *called, model(*parts)]
    history.append(user("last"))
    assert h.repair(history) == tuple(history)


def test_half_a_character_in_arguments_is_not_sent_back():
    raw = '{"a": "\\\\ud83d \\ud83d\\ude00 \\ud83d"}'
    call = tool_call(raw=raw, arguments=strict_json.loads(raw.encode()))
    repaired = h.repair([user(), model(call), tool(tool_result())])
    [sent] = repaired[1].parts
    assert sent.raw == '{"a":"\\\\ud83d \N{GRINNING FACE} \ufffd"}'


def test_an_interrupted_answer_keeps_its_text_and_nothing_unfinished():
    whole = model(h.ReasoningPart(text="hm"), "Hel", tool_call())
    stopped = attrs.evolve(whole, interrupted=True)
    assert h.repair([user(), stopped, user()])[1].parts == (h.TextPart("Hel"),)
    _, answer, results, _ = h.repair([user(), whole, user()])
    assert answer.parts == whole.parts
    assert results.parts[0].is_error


def test_a_whole_answer_loses_nothing_to_an_interrupted_one_before_it():
    cut, whole = model("Hel", interrupted=True), model("Hello", h.BlockPart(raw={}))
    repaired = h.repair([user(), cut, whole, user()])
    assert repaired[1].parts == (*cut.parts, *whole.parts)
    assert h.repair(repaired) == repaired


markers = st.builds(
    lambda summary, rest: user(h.CompactionPart(summary), *rest),
    st.sampled_from(["it was about {} and {0}", "short"]),
    st.sampled_from([(), ("the prompt",)]),
)


@given(histories, markers, histories)
def test_nothing_before_the_last_summary_is_sent(before, marker, after):
    effective = h.effective_history([*before, marker, *after])
    assert effective == h.effective_history([marker, *after])
    summary, *rest = marker.parts
    first, *retained = effective[0].parts
    assert summary.summary in first.text
    assert retained == rest
    assert effective[1:] == h.effective_history(after) == tuple(after)
    repaired = h.repair(effective)
    check(repaired)
    assert not any(only(h.CompactionPart, message.parts) for message in repaired)


def test_of_two_summaries_the_last_counts():
    first, second = user(h.CompactionPart("first")), user(h.CompactionPart("second"), "prompt")
    effective = h.effective_history([user("a"), first, user("b"), second, user("c")])
    assert [part.text.count("second") for part in effective[0].parts] == [1, 0]
    assert effective[1:] == (user("c"),)


def test_the_result_of_a_call_that_was_summarized_is_not_sent():
    marker, result = user(h.CompactionPart("s")), tool(tool_result())
    [sent] = h.repair(h.effective_history([user(), model(tool_call()), marker, result, user("b")]))
    assert [part.text for part in sent.parts][1:] == ["b"]
