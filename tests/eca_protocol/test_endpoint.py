"""The endpoint of a connection, and ECA's lifecycle: every input in every state."""

import contextlib
from typing import Any, Literal

import pytest

from eca_protocol.endpoint import (
    Dialect,
    Endpoint,
    Event,
    Method,
    NotificationReceived,
    Reply,
    RequestCancelled,
    RequestReceived,
    Table,
    Verdict,
)
from eca_protocol.errors import LocalProtocolError, RemoteProtocolError, RPCError
from eca_protocol.jsonrpc import ErrorCode, ErrorResponse, Id
from eca_protocol.lifecycle import TRANSITIONS, LifecycleGate, State
from tests.eca_protocol.wire import cancel, notification, request, success

ADD = Method(name="add", kind="request", direction="client_to_server")
LOG = Method(name="log", kind="notification", direction="both")
TABLE = Table([ADD, LOG, Method(name="ask", kind="request", direction="server_to_client")])
QUIET = Dialect(
    cancel_method="notifications/cancelled",
    cancel_key="requestId",
    answers_cancelled=False,
    answers_invalid=False,
)
INVALID, UNKNOWN = ErrorCode.INVALID_REQUEST, ErrorCode.METHOD_NOT_FOUND


def server(**options: Any) -> Endpoint:
    return Endpoint("server", TABLE, **options)


def running(*ids: Id, **options: Any) -> Endpoint:
    """Return a server in which these requests run."""
    end = server(**options)
    for each in ids:
        end.receive(request(each))
    return end


def refusal(event: Event | None) -> tuple[Id | None, int]:
    assert isinstance(event, Reply)
    return event.message.id, event.message.code


def test_a_table_has_a_method_once_and_says_what_each_side_is_sent():
    with pytest.raises(LocalProtocolError, match="add"):
        Table([ADD, ADD])
    assert set(TABLE.received_by("server")) == {"add", "log"}
    assert set(TABLE.received_by("client")) == {"log", "ask"}
    assert [method.name for method in TABLE] == ["add", "log", "ask"]
    assert len(TABLE) == 3
    assert "add" in TABLE
    assert TABLE.get("nothing") is None


class TestTheirRequests:
    @pytest.mark.requirement("BASE-17", "W-2c")
    def test_a_request_is_owed_one_answer_and_its_id_is_free_after_it(self):
        end = server()
        received = RequestReceived(1, ADD, {"a": 1})
        assert end.receive(request(1, params={"a": 1})) == received
        assert dict(end.running_requests) == {1: "add"}
        assert refusal(end.receive(request(1))) == (1, INVALID)
        assert end.respond(1, 3).to_json() == success(1, 3)
        assert not end.running_requests
        with pytest.raises(LocalProtocolError, match="was answered"):
            end.respond(1, 4)
        with pytest.raises(LocalProtocolError, match="was answered"):
            end.refuse(1, -1, "no")
        assert isinstance(end.receive(request(1)), RequestReceived)
        assert end.refuse(1, 5, "no", [1]) == ErrorResponse(1, 5, "no", [1])
        assert not end.running_requests

    def test_ids_are_distinguished_by_their_type(self):
        ids: list[Id] = [1, "1", 0, "", "0", -1, 2**64]
        end = running(*ids)
        assert list(end.running_requests) == ids
        for request_id in ids:
            answered = end.respond(request_id, None).id
            assert (type(answered), answered) == (type(request_id), request_id)

    @pytest.mark.requirement("W-4c", "W-4d", "BASE-25")
    @pytest.mark.parametrize("method", ["nothing", "ask", "$/nothing", "x" * 10_000])
    def test_what_we_do_not_serve_is_refused_or_as_a_notification_ignored(self, method):
        event = server().receive(request(1, method))
        assert refusal(event) == (1, UNKNOWN)
        assert isinstance(event, Reply)
        assert len(event.message.message) < 300
        assert server().receive(notification(method)) is None

    def test_more_requests_than_the_limit_are_refused(self):
        end = running(1, 2, max_running=2)
        assert refusal(end.receive(request(3))) == (3, ErrorCode.INTERNAL_ERROR)
        end.respond(1, None)
        assert isinstance(end.receive(request(3)), RequestReceived)


@pytest.mark.requirement("BASE-31")
@pytest.mark.parametrize(
    "params",
    [
        *({"id": each} for each in (2, "1", 1.0, True, None, [1], {})),
        *(None, [], [1], {}, {"requestId": 1}),
    ],
)
def test_a_cancel_that_names_no_running_request_is_ignored(params):
    end = running(1)
    assert end.receive(notification("$/cancelRequest", params)) is None
    assert 1 in end.running_requests


@pytest.mark.requirement("BASE-23")
def test_a_bad_message_and_an_error_below_messages_are_answered_unless_a_dialect_tolerates_them():
    assert refusal(server().receive([])) == (None, INVALID)
    assert refusal(server().receive({"id": 4, "method": "add"})) == (4, INVALID)
    fault = RemoteProtocolError("bad JSON", code=ErrorCode.PARSE_ERROR)
    assert server().reply_to_error(fault) == Reply(ErrorResponse(None, -32700, "bad JSON"))
    end = server(dialect=QUIET)
    assert end.receive([]) is None
    assert end.reply_to_error(RemoteProtocolError("noise")) is None


@pytest.mark.requirement("BASE-1", "BASE-30")
@pytest.mark.parametrize("answered", [99, "1", 0, -1, "", None])
def test_an_answer_to_an_unknown_id_is_ignored(answered):
    end = running(99)
    call = end.call("ask")
    error = {"code": 5, "message": "no"}
    assert end.receive({"jsonrpc": "2.0", "id": answered, "error": error}) is None
    assert answered is None or end.receive(success(answered)) is None
    assert list(end.pending_calls) == [call.id]
    assert 99 in end.running_requests, "their request"


def test_close_names_the_calls_that_are_lost_and_ends_everything():
    end = running(1)
    calls = [end.call("ask"), end.call("ask")]
    assert end.close() == tuple(call.id for call in calls)
    assert end.closed
    assert not end.running_requests
    assert end.receive(request(2)) is None
    assert end.receive([]) is None
    assert end.reply_to_error(RemoteProtocolError("late")) is None
    assert end.close() == ()
    assert end.abandon(calls[0].id) is None
    with pytest.raises(LocalProtocolError, match="closed"):
        end.call("ask")
    with pytest.raises(LocalProtocolError):
        end.respond(1, None)


class TwoSteps:
    """A gate with every verdict that opens when `add` is answered."""

    def __init__(self) -> None:
        self.open = False
        self.begun = False

    def admit(self, method: str, kind: Literal["request", "notification"]) -> Verdict:
        if self.open:
            return Verdict.ADMIT
        if method == "add" and not self.begun:
            self.begun = True
            return Verdict.ADMIT
        if method == "refused":
            raise RPCError(-32002, "not yet")
        return Verdict.DROP if method == "dropped" else Verdict.HOLD

    def record_answer(self, method: str, *, success: bool) -> bool:
        was, self.open = self.open, True
        return not was


class TestGate:
    @pytest.mark.requirement("W-10c")
    def test_what_is_held_is_released_in_its_order(self):
        end = running("first", gate=TwoSteps())
        assert end.receive(request(1)) is None
        assert end.receive(notification(params=[1])) is None
        assert end.receive(request(2, "nothing")) is None
        assert end.receive(request(3, "log")) is None
        assert end.take_released() == []
        assert list(end.running_requests) == ["first", 1, 2, 3]
        assert refusal(end.receive(request(1))) == (1, INVALID)
        end.respond("first", None)
        one, two, three, four = end.take_released()
        assert one == RequestReceived(1, ADD, None)
        assert two == NotificationReceived(LOG, [1])
        assert refusal(three) == (2, UNKNOWN)
        assert four == NotificationReceived(LOG, None, 3)
        assert end.take_released() == []
        assert list(end.running_requests) == [1, 3]

    def test_a_held_request_that_was_cancelled_or_refused_is_never_run(self):
        end = running("first", 1, 2, gate=TwoSteps())
        event = end.receive(cancel(1))
        assert isinstance(event, RequestCancelled)
        assert event.reply is not None
        end.refuse(2, -1, "no")
        end.receive(request(1, params=["new"]))
        end.receive(cancel("first"))
        assert end.take_released() == [RequestReceived(1, ADD, ["new"])]

    def test_what_the_gate_refuses_or_drops_is_answered_if_it_is_a_request(self):
        end = server(gate=TwoSteps())
        for method, code in (("refused", -32002), ("dropped", INVALID)):
            assert refusal(end.receive(request(1, method))) == (1, code)
            assert end.receive(notification(method)) is None
        assert not end.running_requests

    def test_only_so_many_notifications_are_held(self):
        end = running("first", gate=TwoSteps(), max_running=3)
        for number in range(10):
            end.receive(notification(params=[number]))
        end.respond("first", None)
        assert end.take_released() == [NotificationReceived(LOG, [each]) for each in range(3)]

    def test_nothing_is_released_after_close(self):
        end = running("first", 1, gate=TwoSteps())
        end.respond("first", None)
        end.close()
        assert end.take_released() == []


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
LIFECYCLE = {
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
    for state, cells in LIFECYCLE.items()
    for method, cell in zip(INPUTS, cells.split(), strict=True)
    for outcome, _, following in [cell.partition(">")]
]


def gate_in(state: State) -> LifecycleGate:
    gate = LifecycleGate()
    gate.state = state
    return gate


def test_the_table_has_a_row_for_every_state():
    assert set(LIFECYCLE) == set(State) == set(TRANSITIONS)


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
