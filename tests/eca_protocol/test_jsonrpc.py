"""The classification of decoded JSON values, and the replies to invalid ones."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eca_protocol.errors import RemoteProtocolError
from eca_protocol.jsonrpc import (
    ErrorCode,
    ErrorResponse,
    Message,
    Notification,
    Request,
    Response,
    classify,
)

V = {"jsonrpc": "2.0"}
INTERNAL = ErrorCode.INTERNAL_ERROR
NO = {"code": 5, "message": "no"}

MESSAGES: list[tuple[dict[str, Any], Message]] = [
    ({**V, "method": "m"}, Notification("m")),
    ({**V, "method": "m", "params": None}, Notification("m")),
    ({**V, "method": "m", "params": {}}, Notification("m", {})),
    ({**V, "method": "m", "params": [1]}, Notification("m", [1])),
    ({**V, "method": "", "extra": 1}, Notification("")),
    ({**V, "id": 1, "method": "m"}, Request(1, "m")),
    ({**V, "id": 0, "method": "m", "params": {"a": 1}}, Request(0, "m", {"a": 1})),
    ({**V, "id": -7, "method": "m"}, Request(-7, "m")),
    ({**V, "id": 2**70, "method": "m"}, Request(2**70, "m")),
    ({**V, "id": "1", "method": "m"}, Request("1", "m")),
    ({**V, "id": "", "method": "m"}, Request("", "m")),
    ({**V, "id": 1, "method": "m", "result": 2}, Request(1, "m")),
    ({**V, "id": 1, "result": None}, Response(1, None)),
    ({**V, "id": "a", "result": [False]}, Response("a", [False])),
    ({**V, "id": 1, "result": 0, "error": None}, Response(1, 0)),
    ({**V, "id": 1, "error": NO}, ErrorResponse(1, 5, "no")),
    ({**V, "id": 1, "error": NO | {"data": [1]}}, ErrorResponse(1, 5, "no", [1])),
    ({**V, "id": None, "error": NO}, ErrorResponse(None, 5, "no")),
    ({**V, "error": NO}, ErrorResponse(None, 5, "no")),
    ({**V, "id": 1, "result": 2, "error": NO}, ErrorResponse(1, 5, "no")),
]


@pytest.mark.requirement("BASE-13", "W-2b")
@pytest.mark.parametrize(("value", "message"), MESSAGES)
def test_a_message_is_read_as_what_it_is(value, message):
    assert repr(classify(value)) == repr(message)  # 1, 1.0 and True have the same value


FAULTS: list[tuple[Any, int | str | None, str]] = [
    ([], None, "batches are not supported"),
    ([{**V, "id": 1, "method": "m"}], None, "batches are not supported"),
    (None, None, "got null"),
    (True, None, "got a boolean"),
    (7, None, "got a number"),
    (1.5, None, "got a number"),
    ("m", None, "got a string"),
    ({}, None, "expected a method, a result or an error"),
    ({**V, "id": 3}, None, "expected a method, a result or an error"),
    ({"id": 3, "method": "m"}, 3, 'jsonrpc: expected "2.0", got nothing'),
    ({"jsonrpc": "1.0", "id": 3, "method": "m"}, 3, 'got "1.0"'),
    ({"jsonrpc": 2.0, "id": "x", "method": "m"}, "x", "got a number"),
    ({"jsonrpc": "1.0", "method": "m"}, None, 'got "1.0"'),
    ({"jsonrpc": "1.0", "id": 3, "result": 1}, None, 'got "1.0"'),
    ({**V, "id": None, "method": "m"}, None, "id: expected an integer or a string, got null"),
    ({**V, "id": True, "method": "m"}, None, "got a boolean"),
    ({**V, "id": 1.0, "method": "m"}, None, "got a number"),
    ({**V, "id": [1], "method": "m"}, None, "got an array"),
    ({**V, "id": {}, "method": "m"}, None, "got an object"),
    ({**V, "id": 3, "method": 4}, 3, "method: expected a string, got a number"),
    ({**V, "id": 3, "method": None}, 3, "method: expected a string, got null"),
    ({**V, "method": ["m"]}, None, "method: expected a string, got an array"),
    ({**V, "id": 3, "method": "m", "params": "p"}, 3, "params: expected an object"),
    ({**V, "id": 3, "method": "m", "params": 0}, 3, "got a number"),
    ({**V, "method": "m", "params": False}, None, "got a boolean"),
    ({**V, "id": True, "result": 1}, None, "id: expected the integer or string of a request"),
    ({**V, "result": 1}, None, "got null"),
    ({**V, "id": 1, "error": None}, None, "got none of these keys"),
]


@pytest.mark.requirement("BASE-20", "BASE-21", "BASE-22", "BASE-28")
@pytest.mark.parametrize(("value", "request_id", "text"), FAULTS)
def test_what_is_no_message_says_which_reply_it_deserves(value, request_id, text):
    with pytest.raises(RemoteProtocolError) as caught:
        classify(value)
    fault = caught.value
    assert (fault.code, fault.request_id) == (ErrorCode.INVALID_REQUEST, request_id)
    assert not fault.fatal
    assert text in fault.message


@pytest.mark.parametrize(
    ("error", "code", "text", "data"),
    [
        ({"message": "no"}, INTERNAL, "no", None),
        ({"code": None, "message": "no"}, INTERNAL, "no", None),
        ({"code": "E1", "message": "no"}, INTERNAL, "no", {"code": "E1"}),
        ({"code": True, "message": "no"}, INTERNAL, "no", {"code": True}),
        ({"code": "E1", "message": "no", "data": 0}, INTERNAL, "no", 0),
        ({"code": 5}, 5, "the answer is an error without a message", None),
        ("down", INTERNAL, "down", None),
        (7, INTERNAL, "the answer is an error without a message", None),
    ],
)
def test_an_error_without_a_proper_code_or_message_is_still_an_error(error, code, text, data):
    assert classify({**V, "id": 1, "error": error}) == ErrorResponse(1, code, text, data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
keys = {"code": json_values, "message": json_values, "data": json_values}
members = {
    "jsonrpc": st.just("2.0") | json_values,
    "id": st.integers() | st.text(max_size=3) | json_values,
    "method": st.text(max_size=5) | json_values,
    "params": json_values,
    "result": json_values,
    "error": st.fixed_dictionaries({}, optional=keys) | json_values,
}
almost_messages = st.fixed_dictionaries({}, optional=members)


@pytest.mark.requirement("BASE-24")
@given(json_values | almost_messages)
@example({"jsonrpc": {}, "method": {}})
def test_any_json_value_is_a_message_or_an_error_with_its_reply(value):
    read: Message | RemoteProtocolError
    try:
        read = classify(value)
    except RemoteProtocolError as fault:
        read = fault
    if isinstance(read, RemoteProtocolError):
        assert read.code == ErrorCode.INVALID_REQUEST
        assert read.request_id is None or type(read.request_id) in {int, str}
        assert not read.fatal
    else:
        assert isinstance(read, Request | Notification | Response | ErrorResponse)


ids = st.integers() | st.text(max_size=5)
params = st.none() | st.dictionaries(st.text(max_size=5), json_values) | st.lists(json_values)
messages = st.one_of(
    st.builds(Request, ids, st.text(max_size=5), params),
    st.builds(Notification, st.text(max_size=5), params),
    st.builds(Response, ids, json_values),
    st.builds(ErrorResponse, st.none() | ids, st.integers(), st.text(max_size=5), json_values),
)


@pytest.mark.requirement("W-2a", "BASE-16", "BASE-19")
@given(messages)
def test_a_message_is_written_as_it_is_read(message):
    written = message.to_json()
    assert written["jsonrpc"] == "2.0"
    assert ("result" in written) + ("error" in written) + ("method" in written) == 1
    assert ("id" in written) is not isinstance(message, Notification)
    assert repr(classify(written)) == repr(message)  # NaN differs from itself, its repr does not
