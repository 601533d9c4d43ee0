"""ECP's models: made by an author, read from the wire, and written."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.ecp import messages as e
from eca_protocol.ecp.methods import ECP_CODEC, PROTOCOL_VERSION, negotiate_version
from eca_protocol.errors import DecodeError, RPCError

texts = st.none() | st.text(max_size=20)
counts = st.none() | st.integers(0, 10**12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
objects = st.dictionaries(st.text(max_size=5), values, max_size=3)
calls = st.builds(
    e.ToolCall,
    name=st.text(min_size=1, max_size=8),
    arguments=objects,
    extra=objects.map(lambda extra: {f"x-{key}": value for key, value in extra.items()}),
)
results = st.builds(
    e.Result,
    status=st.sampled_from(["done", "paused"]),
    public_output=texts,
    evaluation_context=texts,
    tool_calls=st.none() | st.lists(calls, max_size=3),
    logs=texts,
    usage=st.none()
    | st.builds(e.Usage, input_tokens=counts, output_tokens=counts, total_tokens=counts),
)


@given(results)
def test_a_result_comes_back_as_it_was_written(result):
    assert ECP_CODEC.decode_result("agent/step", e.write_step_result(result)) == result


@given(values)
def test_whatever_comes_is_a_result_or_an_error_that_says_where(raw):
    fault = None
    try:
        e.read_step_result(raw)
    except DecodeError as error:
        fault = error
    assert fault is None or (fault.path.startswith("result") and fault.expected)


DONE: dict[str, Any] = {"status": "done"}
A_CALL, NO_CALL = {"name": "a"}, {"name": "b", "arguments": None}


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ([], "result: expected an object, got an array"),
        ({}, 'result.status: expected "done" or "paused", got nothing'),
        ({"status": "over"}, 'result.status: expected "done" or "paused", got \'over\''),
        (DONE | {"public_output": 3}, "result.public_output: expected a string or null, got 3"),
        (DONE | {"private_thought": []}, "result.private_thought: expected a string or null"),
        (DONE | {"tool_calls": {}}, "result.tool_calls: expected an array or null, got an object"),
        (DONE | {"tool_calls": [3]}, "result.tool_calls[0]: expected an object, got 3"),
        (DONE | {"tool_calls": [{}]}, "result.tool_calls[0].name: expected a string that is not"),
        (
            DONE | {"tool_calls": [A_CALL, NO_CALL]},
            "result.tool_calls[1].arguments: expected an ob",
        ),
        (DONE | {"usage": {"input_tokens": True}}, "result.usage.input_tokens: expected an int"),
        (DONE | {"usage": {"total_tokens": -1}}, "result.usage.total_tokens: expected an integer"),
    ],
)
def test_a_wrong_type_is_named_with_its_place(raw, why):
    with pytest.raises(DecodeError) as caught:
        e.read_step_result(raw)
    assert str(caught.value).startswith(why)


@pytest.mark.parametrize(
    ("context", "thought", "read"),
    [
        ({"evaluation_context": "a"}, {"private_thought": "b"}, "a"),
        ({"evaluation_context": ""}, {"private_thought": "b"}, ""),
        ({"evaluation_context": None}, {"private_thought": "b"}, "b"),
        ({}, {"private_thought": "b"}, "b"),
        ({"evaluation_context": "a"}, {}, "a"),
    ],
)
def test_the_old_name_counts_where_the_new_one_says_nothing(context, thought, read):
    result = e.read_step_result(DONE | context | thought)
    assert result.evaluation_context == read
    written = e.write_step_result(result)
    assert written["private_thought"] == written["evaluation_context"] == read
    made = e.Result(**context, **thought)
    assert made.private_thought == made.evaluation_context == read
    assert made == result


NO_VERSION = {"name": "a", "capabilities": {}, "protocol_version": None}


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: e.Result(public_output=3), "public_output: expected a string or null, got 3"),
        (lambda: e.Result(tool_calls="t"), "tool_calls: expected an array"),
        (lambda: e.ToolCall(name=""), "name: expected a string that is not empty, got ''"),
        (lambda: e.InitializeParams(protocol_version="1"), "protocol_version: expected a version"),
    ],
)
def test_an_error_names_the_authors_wrong_field(make, why):
    with pytest.raises((TypeError, ValueError)) as caught:
        make()
    assert str(caught.value).startswith(why)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ({"capabilities": {}}, "result.name: expected a string that is not empty, got nothing"),
        ({"name": "a"}, "result.capabilities: expected an object, got nothing"),
        (NO_VERSION, 'result.protocol_version: expected a version like "1.0", got null'),
    ],
)
def test_an_agent_that_does_not_say_who_it_is_is_refused(raw, why):
    with pytest.raises(DecodeError) as caught:
        e.read_initialize_result(raw)
    assert str(caught.value) == why


def test_a_reset_is_answered_true_and_nothing_else():
    e.read_reset_result(True)
    for raw in (None, 1, "true", {}, False):
        with pytest.raises(DecodeError, match="expected true"):
            e.read_reset_result(raw)


def test_the_lower_minor_version_is_agreed_on_and_another_major_refused():
    assert negotiate_version(None) == negotiate_version("1.7") == PROTOCOL_VERSION
    with pytest.raises(RPCError) as caught:
        negotiate_version("2.0")
    assert caught.value.code == -32001
