"""ECA's lifecycle: every input in every state, for both sides."""

from __future__ import annotations

import contextlib
from typing import Literal

import pytest

from eca_protocol.endpoint import Verdict
from eca_protocol.errors import LocalProtocolError, RPCError
from eca_protocol.jsonrpc import ErrorCode
from eca_protocol.lifecycle import TRANSITIONS, LifecycleGate, State

Kind = Literal["request", "notification"]

NOT_YET, INVALID = ErrorCode.SERVER_NOT_INITIALIZED, ErrorCode.INVALID_REQUEST
ADMIT, HOLD, DROP = Verdict.ADMIT, Verdict.HOLD, Verdict.DROP

INPUTS: dict[str, Kind] = {
    "initialize": "request",
    "initialized": "notification",
    "shutdown": "request",
    "exit": "notification",
    "chat/prompt": "request",
    "chat/promptStop": "notification",
}

# In the order of INPUTS: the verdict or refusal, and the state that follows if it is a new one.
TABLE = {
    State.NEW: "admit>initializing drop not_yet admit>exited not_yet drop",
    State.INITIALIZING: "invalid hold hold admit>exited hold hold",
    State.ANSWERED: "invalid admit>ready admit>shutdown admit>exited admit admit",
    State.READY: "invalid drop admit>shutdown admit>exited admit admit",
    State.SHUTDOWN: "invalid drop invalid admit>exited invalid drop",
    State.EXITED: "drop drop drop drop drop drop",
}
OUTCOMES = {"admit": ADMIT, "hold": HOLD, "drop": DROP, "not_yet": NOT_YET, "invalid": INVALID}
ROWS = [
    (state, method, OUTCOMES[outcome], State(following or state.value))
    for state, cells in TABLE.items()
    for method, cell in zip(INPUTS, cells.split(), strict=True)
    for outcome, _, following in [cell.partition(">")]
]


def gate_in(state: State) -> LifecycleGate:
    gate = LifecycleGate()
    gate.state = state
    return gate


def test_the_table_has_a_row_for_every_state():
    assert set(TABLE) == set(State) == set(TRANSITIONS)


@pytest.mark.requirement("LIFE-1", "LIFE-2", "LIFE-12", "LIFE-22")
@pytest.mark.parametrize(("state", "method", "expected", "following"), ROWS)
def test_a_client_may_send_exactly_what_a_server_admits(state, method, expected, following):
    server, client = gate_in(state), gate_in(state)
    if isinstance(expected, int):
        with pytest.raises(RPCError) as caught:
            server.admit(method, INPUTS[method])
        assert caught.value.code == expected
    else:
        assert server.admit(method, INPUTS[method]) is expected
    if expected is ADMIT:
        client.check_sending(method, INPUTS[method])
    else:
        with pytest.raises(LocalProtocolError, match=method):
            client.check_sending(method, INPUTS[method])
    assert server.state is client.state is following


@pytest.mark.requirement("LIFE-4")
@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("success", [True, False])
def test_only_the_awaited_answer_of_initialize_moves_on(state, success):
    gate = gate_in(state)
    assert not gate.record_answer("chat/prompt", success=success)
    assert gate.state is state
    moved = gate.record_answer("initialize", success=success)
    assert moved is (state is State.INITIALIZING)
    following = State.ANSWERED if success else State.NEW
    assert gate.state is (following if moved else state)


@pytest.mark.parametrize("state", State)
def test_initialize_without_an_id_never_begins_what_no_answer_could_end(state):
    gate = gate_in(state)
    with contextlib.suppress(RPCError):
        gate.admit("initialize", "notification")
    assert gate.state is state


def test_only_an_admitted_shutdown_counts_as_one():
    gate = LifecycleGate()
    with pytest.raises(RPCError):
        gate.admit("shutdown", "request")
    gate.admit("exit", "notification")
    assert not gate.was_shut_down
    gate = gate_in(State.READY)
    gate.admit("shutdown", "request")
    gate.admit("exit", "notification")
    assert gate.was_shut_down


def test_a_message_after_the_end_is_refused_in_plain_words():
    gate = LifecycleGate()
    with pytest.raises(LocalProtocolError, match="the connection is in the state 'new'"):
        gate.check_sending("chat/stop", "notification")
    gate.check_sending("exit", "notification")
    with pytest.raises(LocalProtocolError, match="may not be sent: the connection has ended"):
        gate.check_sending("chat/prompt", "request")
