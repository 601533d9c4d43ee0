"""Any interleaving of requests, answers, cancellations and close on one side of a connection."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from eca_protocol.endpoint import (
    Endpoint,
    Event,
    NotificationReceived,
    Reply,
    RequestCancelled,
    RequestReceived,
)
from eca_protocol.errors import LocalProtocolError
from eca_protocol.jsonrpc import ErrorCode, Id
from tests.eca_protocol.wire import TABLE, cancel, request


def refusal(event: Event | None) -> tuple[Id | None, int]:
    assert isinstance(event, Reply)
    return event.message.id, event.message.code


ids = st.sampled_from([0, 1, "1", -1, "a"])


class Conversation(RuleBasedStateMachine):
    """A state machine whose invariant is exactly one answer per request."""

    def __init__(self) -> None:
        super().__init__()
        self.end = Endpoint("server", TABLE)
        self.running: set[tuple[type, Id]] = set()
        self.refused = self.requests = self.answers = 0
        self.lost = 0
        self.calls: set[Id] = set()

    @rule(request_id=ids, method=st.sampled_from(["add", "log", "nothing"]))
    def a_request_comes(self, request_id: Id, method: str) -> None:
        event = self.end.receive(request(request_id, method))
        if self.end.closed:
            assert event is None
            return
        self.requests += 1
        key = (type(request_id), request_id)
        if key in self.running:
            assert refusal(event) == (request_id, ErrorCode.INVALID_REQUEST)
        elif method == "nothing":
            assert refusal(event) == (request_id, ErrorCode.METHOD_NOT_FOUND)
        else:
            assert isinstance(event, RequestReceived | NotificationReceived)
            self.running.add(key)
            return
        self.answers += 1

    @rule(request_id=ids, well=st.booleans())
    def a_handler_ends(self, request_id: Id, well: bool) -> None:
        key = (type(request_id), request_id)
        try:
            if well:
                answer: Any = self.end.respond(request_id, None)
            else:
                answer = self.end.refuse(request_id, -1, "no")
        except LocalProtocolError:
            assert key not in self.running
        else:
            assert (type(answer.id), answer.id) == key
            self.running.remove(key)
            self.answers += 1

    @rule(request_id=ids)
    def a_cancel_comes(self, request_id: Id) -> None:
        event = self.end.receive(cancel(request_id))
        key = (type(request_id), request_id)
        if key not in self.running:
            assert event is None
            return
        assert isinstance(event, RequestCancelled)
        assert event.reply is not None
        self.running.remove(key)
        self.answers += 1

    @precondition(lambda self: not self.end.closed)
    @rule()
    def we_call(self) -> None:
        call = self.end.call("ask").id
        assert call not in self.calls
        self.calls.add(call)

    @rule(answered=st.integers(0, 5), well=st.booleans())
    def an_answer_comes(self, answered: int, well: bool) -> None:
        outcome: dict[str, Any] = {"result": 1} if well else {"error": {"code": 1, "message": ""}}
        event = self.end.receive({"jsonrpc": "2.0", "id": answered, **outcome})
        assert (event is not None) is (answered in self.calls)
        self.calls.discard(answered)

    @rule(call=st.integers(1, 5))
    def we_abandon(self, call: int) -> None:
        cancellation = self.end.abandon(call)
        assert (cancellation is not None) is (call in self.calls)
        self.calls.discard(call)

    @precondition(lambda self: self.requests > 3)
    @rule()
    def we_close(self) -> None:
        assert set(self.end.close()) == self.calls
        self.lost += len(self.running)
        self.running.clear()
        self.calls.clear()

    @invariant()
    def every_request_has_its_one_answer_or_is_still_running(self) -> None:
        assert self.requests == self.answers + len(self.running) + self.lost
        assert {(type(key), key) for key in self.end.running_requests} == self.running
        assert set(self.end.pending_calls) == self.calls


TestConversation = pytest.mark.requirement("BASE-17")(Conversation.TestCase)
