"""The endpoint of a connection, with a table of three methods and two dialects."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from eca_protocol.endpoint import (
    LSP_DIALECT,
    CallAnswered,
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
from eca_protocol.errors import LocalProtocolError, RemoteProtocolError, RequestFailed, RPCError
from eca_protocol.jsonrpc import ErrorCode, ErrorResponse, Id

TABLE = Table(
    [
        Method(name="add", kind="request", direction="client_to_server"),
        Method(name="log", kind="notification", direction="both"),
        Method(name="ask", kind="request", direction="server_to_client"),
    ]
)
QUIET = Dialect(
    cancel_method="notifications/cancelled",
    cancel_key="requestId",
    answers_cancelled=False,
    answers_invalid=False,
)


def server(**options: Any) -> Endpoint:
    return Endpoint("server", TABLE, **options)


def request(request_id: Any, method: str = "add", params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification(method: str = "log", params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def cancel(request_id: Any) -> dict[str, Any]:
    return notification("$/cancelRequest", {"id": request_id})


def refusal(event: Event | None) -> tuple[Id | None, int]:
    assert isinstance(event, Reply)
    return event.message.id, event.message.code


class TestTable:
    def test_a_method_is_in_a_table_once(self):
        with pytest.raises(LocalProtocolError, match="add"):
            Table([TABLE["add"], TABLE["add"]])

    def test_each_side_is_sent_the_methods_of_the_other(self):
        assert set(TABLE.received_by("server")) == {"add", "log"}
        assert set(TABLE.received_by("client")) == {"log", "ask"}
        assert [method.name for method in TABLE] == ["add", "log", "ask"]
        assert len(TABLE) == 3
        assert "add" in TABLE
        assert TABLE.get("nothing") is None


class TestTheirRequests:
    @pytest.mark.requirement("BASE-17")
    def test_a_request_is_owed_one_answer(self):
        end = server()
        assert end.receive(request(1, params={"a": 1})) == RequestReceived(
            1, TABLE["add"], {"a": 1}
        )
        assert dict(end.running_requests) == {1: "add"}
        assert end.respond(1, 3).to_json() == {"jsonrpc": "2.0", "id": 1, "result": 3}
        assert not end.running_requests
        with pytest.raises(LocalProtocolError, match="was answered"):
            end.respond(1, 4)
        with pytest.raises(LocalProtocolError, match="was answered"):
            end.refuse(1, -1, "no")

    def test_a_refusal_is_an_answer(self):
        end = server()
        end.receive(request("a"))
        assert end.refuse("a", 5, "no", [1]) == ErrorResponse("a", 5, "no", [1])
        assert not end.running_requests

    @pytest.mark.requirement("W-2c")
    def test_a_request_with_a_pending_id_is_refused_and_the_first_continues(self):
        end = server()
        end.receive(request(1))
        assert refusal(end.receive(request(1))) == (1, ErrorCode.INVALID_REQUEST)
        assert end.respond(1, None).id == 1

    def test_an_id_may_be_used_again_after_its_answer(self):
        end = server()
        for _ in range(3):
            assert isinstance(end.receive(request(1)), RequestReceived)
            end.respond(1, None)

    def test_ids_are_distinguished_by_their_type(self):
        end = server()
        ids: list[Id] = [1, "1", 0, "", "0", -1, 2**64]
        for request_id in ids:
            assert isinstance(end.receive(request(request_id)), RequestReceived)
        assert list(end.running_requests) == ids
        for request_id in ids:
            answered = end.respond(request_id, None).id
            assert (type(answered), answered) == (type(request_id), request_id)

    @pytest.mark.requirement("W-4d", "BASE-25")
    @pytest.mark.parametrize("method", ["nothing", "ask", "$/nothing", "x" * 10_000])
    def test_a_request_we_do_not_serve_is_refused(self, method):
        event = server().receive(request(1, method))
        assert refusal(event) == (1, ErrorCode.METHOD_NOT_FOUND)
        assert isinstance(event, Reply)
        assert len(event.message.message) < 300

    def test_more_requests_than_the_bound_are_refused(self):
        end = server(max_running=2)
        end.receive(request(1))
        end.receive(request(2))
        assert refusal(end.receive(request(3))) == (3, ErrorCode.INTERNAL_ERROR)
        end.respond(1, None)
        assert isinstance(end.receive(request(3)), RequestReceived)


class TestTheirNotifications:
    @pytest.mark.requirement("BASE-18")
    def test_a_notification_is_run(self):
        assert server().receive(notification(params=[1])) == NotificationReceived(TABLE["log"], [1])

    @pytest.mark.requirement("W-4c")
    @pytest.mark.parametrize("method", ["nothing", "ask", "$/nothing"])
    def test_a_notification_we_do_not_know_is_ignored(self, method):
        assert server().receive(notification(method)) is None

    @pytest.mark.requirement("W-4a")
    def test_a_request_without_an_id_is_run_and_owed_nothing(self):
        end = server()
        assert end.receive(notification("add")) == RequestReceived(None, TABLE["add"], None)
        assert not end.running_requests

    @pytest.mark.requirement("W-4b")
    def test_a_notification_with_an_id_is_run_and_answered(self):
        end = server()
        assert end.receive(request(7, "log")) == NotificationReceived(TABLE["log"], None, 7)
        assert end.respond(7, None).id == 7


class TestCancel:
    def test_a_running_request_is_cancelled_and_answered(self):
        end = server()
        end.receive(request(1))
        event = end.receive(cancel(1))
        assert isinstance(event, RequestCancelled)
        assert event.id == 1
        assert event.reply is not None
        assert event.reply.code == ErrorCode.REQUEST_CANCELLED
        assert end.receive(cancel(1)) is None
        with pytest.raises(LocalProtocolError):
            end.respond(1, None)

    @pytest.mark.requirement("BASE-31")
    @pytest.mark.parametrize("request_id", [2, "1", 1.0, True, None, [1], {}])
    def test_a_cancel_that_names_no_running_request_is_ignored(self, request_id):
        end = server()
        end.receive(request(1))
        assert end.receive(cancel(request_id)) is None
        assert 1 in end.running_requests

    @pytest.mark.parametrize("params", [None, [], [1], {}, {"requestId": 1}])
    def test_a_cancel_without_its_key_is_ignored(self, params):
        end = server()
        end.receive(request(1))
        assert end.receive(notification("$/cancelRequest", params)) is None

    def test_another_dialect_spells_cancel_differently_and_answers_nothing(self):
        end = server(dialect=QUIET)
        end.receive(request(1))
        assert end.receive(cancel(1)) is None
        gone = end.receive(notification("notifications/cancelled", {"requestId": 1}))
        assert gone == RequestCancelled(1, None)
        assert not end.running_requests

    def test_a_dialect_without_cancel_has_none(self):
        end = server(dialect=Dialect())
        end.receive(request(1))
        assert end.receive(cancel(1)) is None
        assert end.abandon(end.call("ask").id) is None


class TestFaults:
    def test_a_bad_message_is_answered(self):
        assert refusal(server().receive([])) == (None, ErrorCode.INVALID_REQUEST)
        assert refusal(server().receive({"id": 4, "method": "add"})) == (
            4,
            ErrorCode.INVALID_REQUEST,
        )

    @pytest.mark.requirement("BASE-23")
    def test_an_error_below_messages_is_answered_with_its_code(self):
        fault = RemoteProtocolError("bad JSON", code=ErrorCode.PARSE_ERROR)
        assert server().reply_to_error(fault) == Reply(ErrorResponse(None, -32700, "bad JSON"))

    def test_a_dialect_may_tolerate_noise(self):
        end = server(dialect=QUIET)
        assert end.receive([]) is None
        assert end.reply_to_error(RemoteProtocolError("noise")) is None


class TestOurCalls:
    @pytest.mark.requirement("BASE-29")
    def test_an_answer_finds_its_call(self):
        end = server()
        first, second = end.call("ask", [1]), end.call("ask")
        assert first.params == [1]
        assert first.id != second.id
        answer = {"jsonrpc": "2.0", "id": second.id, "result": {"x": 1}}
        assert end.receive(answer) == CallAnswered(second.id, "ask", {"x": 1})
        assert list(end.pending_calls) == [first.id]
        assert end.receive(answer) is None

    def test_an_error_finds_its_call(self):
        end = server()
        call = end.call("ask")
        error = {"code": 5, "message": "no", "data": [1]}
        event = end.receive({"jsonrpc": "2.0", "id": call.id, "error": error})
        assert isinstance(event, CallAnswered)
        assert isinstance(event.error, RequestFailed)
        assert (event.error.code, event.error.message, event.error.data) == (5, "no", [1])
        assert event.error.method == "ask"
        assert not end.pending_calls

    @pytest.mark.requirement("BASE-30")
    @pytest.mark.parametrize("answered", [99, "1", 0, -1, ""])
    @pytest.mark.parametrize("outcome", [{"result": 1}, {"error": {"code": 1, "message": "m"}}])
    def test_an_answer_to_an_unknown_id_is_ignored(self, answered, outcome):
        end = server()
        call = end.call("ask")
        assert end.receive({"jsonrpc": "2.0", "id": answered, **outcome}) is None
        assert list(end.pending_calls) == [call.id]

    def test_an_error_with_id_null_ends_no_call(self):
        end = server()
        end.call("ask")
        assert (
            end.receive({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "m"}})
            is None
        )
        assert len(end.pending_calls) == 1

    @pytest.mark.requirement("BASE-1")
    def test_their_answers_never_touch_their_requests(self):
        end = server()
        end.receive(request(1))
        assert end.receive({"jsonrpc": "2.0", "id": 1, "result": None}) is None
        assert 1 in end.running_requests

    def test_an_abandoned_call_says_so_and_its_late_answer_is_ignored(self):
        end = server(dialect=QUIET)
        call = end.call("ask")
        cancellation = end.abandon(call.id)
        assert cancellation is not None
        assert cancellation.to_json() == notification(
            "notifications/cancelled", {"requestId": call.id}
        )
        assert end.abandon(call.id) is None
        assert end.receive({"jsonrpc": "2.0", "id": call.id, "result": 1}) is None


class TestClose:
    def test_close_names_the_calls_that_are_lost_and_ends_everything(self):
        end = server()
        end.receive(request(1))
        calls = [end.call("ask"), end.call("ask")]
        assert end.close() == tuple(call.id for call in calls)
        assert end.closed
        assert not end.running_requests
        assert end.receive(request(2)) is None
        assert end.receive([]) is None
        assert end.reply_to_error(RemoteProtocolError("late")) is None
        assert end.close() == ()
        with pytest.raises(LocalProtocolError, match="closed"):
            end.call("ask")
        with pytest.raises(LocalProtocolError):
            end.respond(1, None)

    def test_what_is_abandoned_after_close_is_not_written(self):
        end = server()
        call = end.call("ask")
        end.close()
        assert end.abandon(call.id) is None


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
        end = server(gate=TwoSteps())
        assert isinstance(end.receive(request("first")), RequestReceived)
        assert end.receive(request(1)) is None
        assert end.receive(notification(params=[1])) is None
        assert end.receive(request(2, "nothing")) is None
        assert end.receive(request(3, "log")) is None
        assert end.take_released() == []
        assert list(end.running_requests) == ["first", 1, 2, 3]
        end.respond("first", None)
        one, two, three, four = end.take_released()
        assert one == RequestReceived(1, TABLE["add"], None)
        assert two == NotificationReceived(TABLE["log"], [1])
        assert refusal(three) == (2, ErrorCode.METHOD_NOT_FOUND)
        assert four == NotificationReceived(TABLE["log"], None, 3)
        assert end.take_released() == []
        assert list(end.running_requests) == [1, 3]

    def test_a_held_id_is_pending(self):
        end = server(gate=TwoSteps())
        end.receive(request("first"))
        end.receive(request(1))
        assert refusal(end.receive(request(1))) == (1, ErrorCode.INVALID_REQUEST)

    def test_a_held_request_that_was_cancelled_is_never_run(self):
        end = server(gate=TwoSteps())
        end.receive(request("first"))
        end.receive(request(1, params=["old"]))
        event = end.receive(cancel(1))
        assert isinstance(event, RequestCancelled)
        assert event.reply is not None
        end.receive(request(1, params=["new"]))
        end.respond("first", None)
        assert end.take_released() == [RequestReceived(1, TABLE["add"], ["new"])]

    def test_a_held_request_that_was_refused_is_never_run(self):
        end = server(gate=TwoSteps())
        end.receive(request("first"))
        end.receive(request(1))
        end.refuse(1, -1, "no")
        end.respond("first", None)
        assert end.take_released() == []

    def test_cancelling_what_is_waited_for_releases_too(self):
        end = server(gate=TwoSteps())
        end.receive(request("first"))
        end.receive(request(1))
        end.receive(cancel("first"))
        assert end.take_released() == [RequestReceived(1, TABLE["add"], None)]

    def test_what_the_gate_refuses_is_answered_if_it_is_a_request(self):
        end = server(gate=TwoSteps())
        assert refusal(end.receive(request(1, "refused"))) == (1, -32002)
        assert end.receive(notification("refused")) is None

    def test_what_the_gate_drops_is_answered_if_it_is_a_request(self):
        end = server(gate=TwoSteps())
        assert refusal(end.receive(request(1, "dropped"))) == (1, ErrorCode.INVALID_REQUEST)
        assert end.receive(notification("dropped")) is None
        assert not end.running_requests

    def test_only_so_many_notifications_are_held(self):
        end = server(gate=TwoSteps(), max_running=3)
        end.receive(request("first"))
        for number in range(10):
            end.receive(notification(params=[number]))
        end.respond("first", None)
        assert [event.params for event in end.take_released()] == [[0], [1], [2]]  # type: ignore[union-attr]

    def test_nothing_is_released_after_close(self):
        end = server(gate=TwoSteps())
        end.receive(request("first"))
        end.receive(request(1))
        end.respond("first", None)
        end.close()
        assert end.take_released() == []


def test_the_dialect_of_eca_is_the_one_of_lsp():
    assert Dialect(cancel_method="$/cancelRequest", cancel_key="id") == LSP_DIALECT
