"""One side of a JSON-RPC connection, without I/O: one message in, at most one event out.

One table holds our calls that wait for an answer, another the other side's requests that we have
not answered. Every request is answered exactly once: its first answer removes it from the table.
`Method` and `Table` describe a protocol (ECA, ECP and MCP are three tables), a `Dialect` the
differences between protocols. Framing, decoding and timing are other modules' tasks.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, Protocol, TypeAlias

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
    classify,
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


@attrs.frozen
class RequestReceived:
    """A request to handle; one whose `id` is None gets no answer (ruling W-4)."""

    id: Id | None
    method: Method
    params: Any


@attrs.frozen
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


@attrs.frozen
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


class Endpoint:
    """The requests of one side of a connection, in both directions.

    Args:
        side: our side of `table`.
        table: the protocol's methods.
        dialect: the protocol's rules for cancellation and invalid messages.
        gate: the protocol's lifecycle, if the other side has to obey one.
        max_running: the limit of the other side's unanswered requests; one more is refused with
            -32603, and one without an id is dropped.
    """

    def __init__(
        self,
        side: Side,
        table: Table,
        *,
        dialect: Dialect = LSP_DIALECT,
        gate: Gate | None = None,
        max_running: int = 65_536,
    ) -> None:
        self.side: Side = side
        self.table = table
        self.dialect = dialect
        self.gate = gate
        self.max_running: int = max_running
        self._served = table.received_by(side)
        self._calls: dict[Id, str] = {}
        self._running: dict[Id, str] = {}
        self._held_messages: list[Request | Notification] = []
        self._held_requests: dict[Id, Request] = {}
        self._may_release = False
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
            message = classify(value)
        except RemoteProtocolError as error:
            return self.reply_to_error(error)
        if type(message) is Notification:
            return self._receive_notification(message)
        if type(message) is Request:
            return self._receive_request(message)
        if type(message) is ErrorResponse:
            return self._receive_error(message)
        assert type(message) is Response
        called = self._calls.pop(message.id, None)
        return None if called is None else CallAnswered(message.id, called, message.result)

    def reply_to_error(self, error: RemoteProtocolError) -> Reply | None:
        """Return the reply to input that is no message (bad JSON, a bad frame), or None."""
        if self.closed or not self.dialect.answers_invalid:
            return None
        return Reply(ErrorResponse(error.request_id, error.code, error.message))

    def _receive_notification(self, message: Notification) -> Event | None:
        if message.method == self.dialect.cancel_method:
            return self._receive_cancel(message.params)
        if self.gate is not None:
            try:
                verdict = self.gate.admit(message.method, "notification")
            except RPCError:
                return None
            if verdict is Verdict.HOLD and len(self._held_messages) < self.max_running:
                self._held_messages.append(message)
            if verdict is not Verdict.ADMIT:
                return None
        return self._open_notification(message)

    def _open_notification(self, message: Notification) -> Event | None:
        method = self._served.get(message.method)
        if method is None:
            return None
        if method.kind == "request":
            return RequestReceived(None, method, message.params)
        return NotificationReceived(method, message.params)

    def _receive_request(self, message: Request) -> Event | None:
        if message.id in self._running:
            return _refusal(
                message, ErrorCode.INVALID_REQUEST, f"the request {message.id!r} is still pending"
            )
        if len(self._running) >= self.max_running:
            return _refusal(
                message,
                ErrorCode.INTERNAL_ERROR,
                f"{self.max_running} requests are pending: send more when some are answered",
            )
        if self.gate is not None:
            try:
                verdict = self.gate.admit(message.method, "request")
            except RPCError as refused:
                return _refusal(message, refused.code, refused.message)
            if verdict is Verdict.HOLD:
                self._running[message.id] = message.method
                self._held_requests[message.id] = message
                self._held_messages.append(message)
                return None
            if verdict is not Verdict.ADMIT:
                reason = f"{message.method[:200]} is not expected now"
                return _refusal(message, ErrorCode.INVALID_REQUEST, reason)
        return self._open_request(message)

    def _open_request(self, message: Request) -> Event:
        method = self._served.get(message.method)
        if method is None:
            return _refusal(
                message, ErrorCode.METHOD_NOT_FOUND, f"unknown method: {message.method[:200]}"
            )
        self._running[message.id] = message.method
        if method.kind == "notification":
            return NotificationReceived(method, message.params, message.id)
        return RequestReceived(message.id, method, message.params)

    def allow_release(self) -> None:
        """Let `take_released` return held messages; for a gate that opens by itself."""
        self._may_release = True

    def take_released(self) -> list[Event]:
        """Return the events of the messages that the gate releases, in their order of arrival.

        Call it after each answer and each cancellation.
        """
        if not self._may_release:
            return []
        self._may_release = False
        held, self._held_messages = self._held_messages, []
        unanswered, self._held_requests = self._held_requests, {}
        events: list[Event] = []
        for message in held:
            if type(message) is Notification:
                event = self._receive_notification(message)
            else:
                assert type(message) is Request
                if unanswered.get(message.id) is not message:
                    continue
                del self._running[message.id]
                event = self._receive_request(message)
            if event is not None:
                events.append(event)
        return events

    def _receive_cancel(self, params: Any) -> RequestCancelled | None:
        request_id = params.get(self.dialect.cancel_key) if isinstance(params, dict) else None
        if type(request_id) not in {int, str} or request_id not in self._running:
            return None
        return self.cancel_running(request_id)

    def cancel_running(self, request_id: Id) -> RequestCancelled:
        """Remove a running request as cancelled; the event carries its reply, if any."""
        self._close_request(request_id, success=False)
        reply = None
        if self.dialect.answers_cancelled:
            reply = ErrorResponse(
                request_id, ErrorCode.REQUEST_CANCELLED, "the request was cancelled"
            )
        return RequestCancelled(request_id, reply)

    def _receive_error(self, message: ErrorResponse) -> CallAnswered | None:
        if message.id is None:
            return None
        method = self._calls.pop(message.id, None)
        if method is None:
            return None
        error = RequestFailed(message.code, message.message, message.data, method=method)
        return CallAnswered(message.id, method, error=error)

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
        self._close_request(request_id, success=True)
        return Response(request_id, result)

    def refuse(self, request_id: Id, code: int, message: str, data: Any = None) -> ErrorResponse:
        """Answer one of the other side's requests with an error.

        Raises:
            LocalProtocolError: the request is unknown, answered or cancelled.
        """
        self._close_request(request_id, success=False)
        return ErrorResponse(request_id, code, message, data)

    def _close_request(self, request_id: Id, *, success: bool) -> None:
        method = self._running.pop(request_id, None)
        if method is None:
            raise LocalProtocolError(
                f"the request {request_id!r} is not running: it is unknown or was answered"
            )
        if self.gate is None or self._held_requests.pop(request_id, None) is not None:
            return
        if self.gate.record_answer(method, success=success):
            self._may_release = True

    def close(self) -> tuple[Id, ...]:
        """End the connection; return the ids of our calls that stay unanswered."""
        self.closed = True
        lost = tuple(self._calls)
        self._calls.clear()
        self._running.clear()
        self._held_messages.clear()
        self._held_requests.clear()
        return lost


def _refusal(message: Request, code: int, reason: str) -> Reply:
    return Reply(ErrorResponse(message.id, code, reason))
