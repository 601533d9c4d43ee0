"""One side of a JSON-RPC connection, without I/O: one message in, at most one event out.

One table holds our calls that wait for an answer, another the other side's requests that we have
not answered. Every request is answered exactly once: its first answer removes it from the table.
`Method` and `Table` describe a protocol (ECA, ECP and MCP are three tables), a `Dialect` the
differences between protocols. Framing, decoding and timing are other modules' tasks.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias

import attrs

from eca_protocol.errors import (
    LocalProtocolError,
    RemoteProtocolError,
    RequestFailed,
    RPCError,
)
from eca_protocol.jsonrpc import (
    ErrorCode,
    ErrorResponse,
    Id,
    Notification,
    Request,
    Response,
    check_message,
    error_response,
)
from eca_protocol.revisions import EVER, Window

__all__ = [
    "LSP_DIALECT",
    "CallAnswered",
    "Dialect",
    "Direction",
    "Endpoint",
    "Event",
    "Gate",
    "Method",
    "NotificationReceived",
    "Reply",
    "RequestCancelled",
    "RequestReceived",
    "Side",
    "Table",
    "Verdict",
]

Side: TypeAlias = Literal["client", "server"]
Direction: TypeAlias = Literal["client_to_server", "server_to_client", "both"]


@attrs.frozen(kw_only=True)
class Method:
    """A row of a protocol's method table."""

    name: str
    kind: Literal["request", "notification"]
    direction: Direction
    _types: Callable[[], tuple[Any, Any]] = lambda: (None, None)
    window: Window = EVER

    @property
    def params(self) -> Any:
        """A model class or a union of them; None for a method without params."""
        return self._types()[0]

    @property
    def result(self) -> Any:
        """A model class or a union of them; None for a null result."""
        return self._types()[1]


class Table:
    """The methods of a protocol by name, in the order of the constructor's argument."""

    def __init__(self, methods: Iterable[Method]) -> None:
        self._methods: dict[str, Method] = {}
        for method in methods:
            if method.name in self._methods:
                raise LocalProtocolError(f"the method {method.name} is in the table twice")
            self._methods[method.name] = method

    def __getitem__(self, name: str) -> Method:
        return self._methods[name]

    def __contains__(self, name: object) -> bool:
        return name in self._methods

    def __iter__(self) -> Iterator[Method]:
        return iter(self._methods.values())

    def __len__(self) -> int:
        return len(self._methods)

    def get(self, name: str) -> Method | None:
        """Return the method called `name`, or None."""
        return self._methods.get(name)

    def received_by(self, side: Side) -> Mapping[str, Method]:
        """Return the methods that `side` may receive, by name."""
        direction = "client_to_server" if side == "server" else "server_to_client"
        return {m.name: m for m in self if m.direction in {direction, "both"}}


@attrs.frozen(kw_only=True)
class Dialect:
    """The differences between protocols over JSON-RPC.

    Attributes:
        cancel_method: the notification that cancels a request; None if the protocol has none.
        cancel_key: the member of its params that holds the request's id.
        answers_cancelled: a cancelled request is still answered, with -32800.
        answers_invalid: invalid messages are answered (MCP ignores them).
        not_cancelled: methods whose requests are abandoned without a notification.
    """

    cancel_method: str | None = None
    cancel_key: str = "id"
    answers_cancelled: bool = True
    answers_invalid: bool = True
    not_cancelled: frozenset[str] = frozenset()


class Verdict(enum.Enum):
    """A gate's decision on a message.

    A message on `HOLD` waits until the gate releases it. A dropped request is still answered.
    """

    ADMIT = "is admitted"
    HOLD = "must wait"
    DROP = "is dropped"
    REFUSE = "is refused"


class Gate(Protocol):
    """A protocol's lifecycle, consulted for every message before its dispatch."""

    def admit(self, method: str, kind: Literal["request", "notification"]) -> Verdict:
        """Return the verdict on a message.

        Raises:
            RPCError: the message is refused; a request is answered with this error.
        """
        ...

    def record_answer(self, method: str, *, success: bool) -> bool:
        """Record that a request was answered; return True if held messages may pass now."""
        ...


LSP_DIALECT = Dialect(cancel_method="$/cancelRequest")


@attrs.define(unsafe_hash=True)
class RequestReceived:
    """A request to handle; one whose `id` is None gets no answer (ruling W-4)."""

    id: Id | None
    method: Method
    params: Any


@attrs.define(unsafe_hash=True)
class NotificationReceived:
    """A notification to handle; one with an `id` is answered with null (ruling W-4)."""

    method: Method
    params: Any
    id: Id | None = None


@attrs.frozen
class RequestCancelled:
    """The cancellation of a running request; `reply`, if any, is to be sent."""

    id: Id
    reply: ErrorResponse | None


@attrs.define(unsafe_hash=True)
class CallAnswered:
    """The answer to one of our calls: a raw result, or `error`."""

    id: Id
    method: str
    result: Any = None
    error: RequestFailed | None = None


@attrs.frozen
class Reply:
    """An error response to send for a message that is not dispatched."""

    message: ErrorResponse


Event: TypeAlias = RequestReceived | NotificationReceived | RequestCancelled | CallAnswered | Reply


MAX_RUNNING: Final = 65_536
"""The default limit of the other side's unanswered requests."""


class Endpoint:
    """The requests of one side of a connection, in both directions.

    Args:
        side: our side of `table`.
        table: the protocol's methods.
        dialect: the protocol's rules for cancellation and invalid messages.
        gate: the protocol's lifecycle, if the other side has to obey one.
        max_running: the limit of the other side's unanswered requests; one more is refused with
            -32603, and one without an id is dropped.

    Attributes:
        may_release: the gate has opened, and `take_released` may return held messages.
    """

    def __init__(
        self,
        side: Side,
        table: Table,
        *,
        dialect: Dialect = LSP_DIALECT,
        gate: Gate | None = None,
        max_running: int = MAX_RUNNING,
    ) -> None:
        self.side: Side = side
        self.table = table
        self.dialect = dialect
        self.gate = gate
        self.max_running: int = max_running
        self._served = table.received_by(side)
        self._calls: dict[Id, str] = {}
        self._running: dict[Id, str] = {}
        self._held_messages: list[dict[str, Any]] = []
        self._held_requests: dict[Id, dict[str, Any]] = {}
        self.may_release: bool = False
        self._last_id = 0
        self.closed: bool = False

    @property
    def pending_calls(self) -> Mapping[Id, str]:
        """The methods of our unanswered calls, by id."""
        return self._calls

    @property
    def running_requests(self) -> Mapping[Id, str]:
        """The methods of the other side's unanswered requests, by id."""
        return self._running

    def receive(self, value: Any) -> Event | None:
        """Take one decoded JSON value; return the event to act on, or None.

        No input of the other side raises an exception. After `close` all input is ignored.
        """
        if self.closed:
            return None
        try:
            is_call = check_message(value)
        except RemoteProtocolError as error:
            return self.reply_to_error(error)
        if is_call:
            return self._receive_call(value)
        method = self._calls.pop(value.get("id"), None)
        if method is None:
            return None
        if value.get("error") is None:
            return CallAnswered(value["id"], method, value["result"])
        answer = error_response(value["id"], value["error"])
        failure = RequestFailed(answer.code, answer.message, answer.data, method=method)
        return CallAnswered(value["id"], method, error=failure)

    def reply_to_error(self, error: RemoteProtocolError) -> Reply | None:
        """Return the reply to input that is no message (bad JSON, a bad frame), or None."""
        if self.closed or not self.dialect.answers_invalid:
            return None
        return Reply(ErrorResponse(error.request_id, error.code, error.message))

    def _receive_call(self, value: dict[str, Any]) -> Event | None:
        if "id" in value:
            return self._receive_request(value["id"], value)
        name = value["method"]
        if name == self.dialect.cancel_method:
            params = value.get("params")
            id_: Any = params.get(self.dialect.cancel_key) if isinstance(params, dict) else None
            is_running = type(id_) in {int, str} and id_ in self._running
            return self.cancel_running(id_) if is_running else None
        is_admitted = self.gate is None or self._admits(self.gate, value)
        method = self._served.get(name)
        if method is None or not is_admitted:
            return None
        if method.kind == "request":
            return RequestReceived(None, method, value.get("params"))
        return NotificationReceived(method, value.get("params"))

    def _admits(self, gate: Gate, value: dict[str, Any]) -> bool:
        """Return whether a notification is to be handled now; hold it if it must wait."""
        try:
            verdict = gate.admit(value["method"], "notification")
        except RPCError:
            return False
        if verdict is Verdict.HOLD and len(self._held_messages) < self.max_running:
            self._held_messages.append(value)
        return verdict is Verdict.ADMIT

    def _receive_request(self, request_id: Id, value: dict[str, Any]) -> Event | None:
        name = value["method"]
        if request_id in self._running:
            reason = f"the request {request_id!r} is still pending"
            return _refusal(request_id, ErrorCode.INVALID_REQUEST, reason)
        if len(self._running) >= self.max_running:
            reason = f"{self.max_running} requests are pending: send more when some are answered"
            return _refusal(request_id, ErrorCode.INTERNAL_ERROR, reason)
        if self.gate is not None:
            try:
                verdict = self.gate.admit(name, "request")
            except RPCError as refused:
                return _refusal(request_id, refused.code, refused.message)
            if verdict is Verdict.HOLD:
                self._running[request_id] = name
                self._held_requests[request_id] = value
                self._held_messages.append(value)
                return None
            if verdict is not Verdict.ADMIT:
                reason = f"{name[:200]} is not expected now"
                return _refusal(request_id, ErrorCode.INVALID_REQUEST, reason)
        return self._open_request(request_id, name, value.get("params"))

    def _open_request(self, request_id: Id, name: str, params: Any) -> Event:
        method = self._served.get(name)
        if method is None:
            reason = f"unknown method: {name[:200]}"
            return _refusal(request_id, ErrorCode.METHOD_NOT_FOUND, reason)
        self._running[request_id] = name
        if method.kind == "notification":
            return NotificationReceived(method, params, request_id)
        return RequestReceived(request_id, method, params)

    def allow_release(self) -> None:
        """Let `take_released` return held messages; for a gate that opens by itself."""
        self.may_release = True

    def take_released(self) -> list[Event]:
        """Return the events of the messages that the gate releases, in their order of arrival.

        Call it after each answer and each cancellation.
        """
        if not self.may_release:
            return []
        self.may_release = False
        held, self._held_messages = self._held_messages, []
        unanswered, self._held_requests = self._held_requests, {}
        events: list[Event] = []
        for value in held:
            if "id" in value:
                if unanswered.get(value["id"]) is not value:
                    continue
                del self._running[value["id"]]
            event = self._receive_call(value)
            if event is not None:
                events.append(event)
        return events

    def cancel_running(self, request_id: Id) -> RequestCancelled:
        """Remove a running request as cancelled; the event carries its reply, if any."""
        self.finish(request_id, success=False)
        reply = None
        if self.dialect.answers_cancelled:
            reply = ErrorResponse(
                request_id, ErrorCode.REQUEST_CANCELLED, "the request was cancelled"
            )
        return RequestCancelled(request_id, reply)

    def call(self, method: str, params: Any = None) -> Request:
        """Register a call and return the message to send; its answer comes as `CallAnswered`.

        Raises:
            LocalProtocolError: after `close`.
        """
        if self.closed:
            raise LocalProtocolError(f"{method}: the connection is closed")
        self._last_id += 1
        self._calls[self._last_id] = method
        return Request(self._last_id, method, params)

    def abandon(self, call_id: Id, *, expects_answer: bool = False) -> Notification | None:
        """Stop waiting for an answer; return the notification that cancels the call, or None.

        Abandoning a call that is not pending does nothing.

        Args:
            call_id: the call.
            expects_answer: let a late answer come as `CallAnswered`; otherwise it is ignored.
        """
        method = self._calls.get(call_id)
        if not expects_answer:
            self._calls.pop(call_id, None)
        if method is None or self.closed or method in self.dialect.not_cancelled:
            return None
        if self.dialect.cancel_method is None:
            return None
        return Notification(self.dialect.cancel_method, {self.dialect.cancel_key: call_id})

    def respond(self, request_id: Id, result: Any) -> Response:
        """Answer one of the other side's requests with success.

        Raises:
            LocalProtocolError: the request is unknown, answered or cancelled.
        """
        self.finish(request_id, success=True)
        return Response(request_id, result)

    def refuse(self, request_id: Id, code: int, message: str, data: Any = None) -> ErrorResponse:
        """Answer one of the other side's requests with an error.

        Raises:
            LocalProtocolError: the request is unknown, answered or cancelled.
        """
        self.finish(request_id, success=False)
        return ErrorResponse(request_id, code, message, data)

    def finish(self, request_id: Id, *, success: bool) -> None:
        """Record the answer to one of the other side's requests, without making it.

        Raises:
            LocalProtocolError: the request is unknown, answered or cancelled.
        """
        method = self._running.pop(request_id, None)
        if method is None:
            raise LocalProtocolError(
                f"the request {request_id!r} is not running: it is unknown or was answered"
            )
        if self.gate is None or self._held_requests.pop(request_id, None) is not None:
            return
        if self.gate.record_answer(method, success=success):
            self.may_release = True

    def close(self) -> tuple[Id, ...]:
        """End the connection; return the ids of our calls that stay unanswered."""
        self.closed = True
        lost = tuple(self._calls)
        self._calls.clear()
        self._running.clear()
        self._held_messages.clear()
        self._held_requests.clear()
        return lost


def _refusal(request_id: Id, code: int, reason: str) -> Reply:
    return Reply(ErrorResponse(request_id, code, reason))
