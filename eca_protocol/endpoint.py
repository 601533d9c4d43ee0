"""One side of any JSON-RPC conversation, without I/O: one message in, at most one event out.

Two tables hold what is open: our calls that wait for an answer, and their requests that we still
owe one. Every request is answered exactly once: the first answer takes it out of its table, and
there is no second. `Method` and `Table` describe a protocol (ECA, ECP and MCP are three tables),
a `Dialect` what differs between protocols. Framing, decoding and time live elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from eca_protocol.errors import LocalProtocolError, RemoteProtocolError, RequestFailed
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
    "Method",
    "NotificationReceived",
    "Reply",
    "RequestCancelled",
    "RequestReceived",
    "Side",
    "Table",
]

Side: TypeAlias = Literal["client", "server"]
Direction: TypeAlias = Literal["client_to_server", "server_to_client", "both"]


@attrs.frozen(kw_only=True)
class Method:
    """A row of a protocol's method table.

    `params` and `result` are model classes (or unions of them); None means that there are no
    params, or that the result is null.
    """

    name: str
    kind: Literal["request", "notification"]
    direction: Direction
    params: Any = None
    result: Any = None
    window: Window = EVER


class Table:
    """The methods of a protocol by name, in the order they were given."""

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
        """The method called `name`, or None."""
        return self._methods.get(name)

    def received_by(self, side: Side) -> Mapping[str, Method]:
        """What that side may be sent."""
        wanted = "client_to_server" if side == "server" else "server_to_client"
        return {m.name: m for m in self if m.direction in {wanted, "both"}}


@attrs.frozen(kw_only=True)
class Dialect:
    """What differs between the protocols that speak JSON-RPC.

    Attributes:
        cancel_method: the notification that cancels a request, or None if there is none.
        cancel_key: the member of its params that holds the request's id.
        answers_cancelled: whether a cancelled request is still answered, with -32800.
        answers_faults: whether a message that is none is answered (MCP tolerates noise).
    """

    cancel_method: str | None = None
    cancel_key: str = "id"
    answers_cancelled: bool = True
    answers_faults: bool = True


LSP_DIALECT = Dialect(cancel_method="$/cancelRequest")


@attrs.frozen
class RequestReceived:
    """A method to run whose answer is owed, unless `id` is None (ruling W-4)."""

    id: Id | None
    method: Method
    params: Any


@attrs.frozen
class NotificationReceived:
    """A method to run; where `id` is not None its sender waits for a null (ruling W-4)."""

    method: Method
    params: Any
    id: Id | None = None


@attrs.frozen
class RequestCancelled:
    """A request we were working on is not wanted any more; `reply`, if any, is to be sent."""

    id: Id
    reply: ErrorResponse | None


@attrs.frozen
class CallAnswered:
    """One of our calls has its answer: a raw result, or `error`."""

    id: Id
    method: str
    result: Any = None
    error: RequestFailed | None = None


@attrs.frozen
class Reply:
    """The message deserved this answer and nothing else."""

    message: ErrorResponse


Event: TypeAlias = RequestReceived | NotificationReceived | RequestCancelled | CallAnswered | Reply


class Endpoint:
    """Keeps the books of one side of a conversation.

    Args:
        side: which side of `table` we are.
        table: the protocol's methods.
        dialect: how this protocol cancels and what it answers.
        max_running: how many unanswered requests of the other side are kept at once; one above
            it is refused with -32603.
    """

    def __init__(
        self,
        side: Side,
        table: Table,
        *,
        dialect: Dialect = LSP_DIALECT,
        max_running: int = 65_536,
    ) -> None:
        self.side: Side = side
        self.table = table
        self.dialect = dialect
        self._max_running = max_running
        self._served = table.received_by(side)
        self._calls: dict[Id, str] = {}
        self._running: dict[Id, str] = {}
        self._last_id = 0
        self.closed = False

    @property
    def pending_calls(self) -> Mapping[Id, str]:
        """Our calls that wait for an answer, by id."""
        return self._calls

    @property
    def running_requests(self) -> Mapping[Id, str]:
        """Their requests that we owe an answer, by id."""
        return self._running

    def receive(self, value: Any) -> Event | None:
        """Take in one decoded JSON value; None where nothing is to be done about it.

        Never raises for what the other side sent. After `close` everything is ignored.
        """
        if self.closed:
            return None
        try:
            message = classify(value)
        except RemoteProtocolError as fault:
            return self.fault(fault)
        if type(message) is Notification:
            return self._receive_notification(message)
        if type(message) is Request:
            return self._receive_request(message)
        if type(message) is ErrorResponse:
            return self._receive_error(message)
        assert type(message) is Response
        called = self._calls.pop(message.id, None)
        return None if called is None else CallAnswered(message.id, called, message.result)

    def fault(self, fault: RemoteProtocolError) -> Reply | None:
        """The reply to something that is no message (bad JSON, a bad frame), if one is due."""
        if self.closed or not self.dialect.answers_faults:
            return None
        return Reply(ErrorResponse(fault.request_id, fault.code, fault.message))

    def _receive_notification(self, message: Notification) -> Event | None:
        if message.method == self.dialect.cancel_method:
            return self._receive_cancel(message.params)
        method = self._served.get(message.method)
        if method is None:
            return None
        if method.kind == "request":
            return RequestReceived(None, method, message.params)
        return NotificationReceived(method, message.params)

    def _receive_request(self, message: Request) -> Event:
        if message.id in self._running:
            return self._refused(message, f"the request {message.id!r} is still pending")
        method = self._served.get(message.method)
        if method is None:
            return Reply(
                ErrorResponse(
                    message.id,
                    ErrorCode.METHOD_NOT_FOUND,
                    f"unknown method: {message.method[:200]}",
                )
            )
        if len(self._running) >= self._max_running:
            return Reply(
                ErrorResponse(
                    message.id,
                    ErrorCode.INTERNAL_ERROR,
                    f"{self._max_running} requests are pending: no more are taken",
                )
            )
        self._running[message.id] = message.method
        if method.kind == "notification":
            return NotificationReceived(method, message.params, message.id)
        return RequestReceived(message.id, method, message.params)

    def _refused(self, message: Request, why: str) -> Reply:
        return Reply(ErrorResponse(message.id, ErrorCode.INVALID_REQUEST, why))

    def _receive_cancel(self, params: Any) -> RequestCancelled | None:
        wanted = params.get(self.dialect.cancel_key) if isinstance(params, dict) else None
        if type(wanted) not in {int, str} or wanted not in self._running:
            return None
        return self.cancel_running(wanted)

    def cancel_running(self, request_id: Id) -> RequestCancelled:
        """Take a request of theirs off the books as cancelled, with the reply it still gets."""
        del self._running[request_id]
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
        """Open a call; the message is to be sent, its answer comes as `CallAnswered`.

        Raises:
            LocalProtocolError: after `close`.
        """
        if self.closed:
            raise LocalProtocolError(f"{method}: the connection is closed")
        self._last_id += 1
        self._calls[self._last_id] = method
        return Request(self._last_id, method, params)

    def abandon(self, call_id: Id) -> Notification | None:
        """Stop waiting for an answer; the notification that says so, where there is one.

        A late answer is ignored. Abandoning what is not pending does nothing.
        """
        if self._calls.pop(call_id, None) is None or self.closed:
            return None
        if self.dialect.cancel_method is None:
            return None
        return Notification(self.dialect.cancel_method, {self.dialect.cancel_key: call_id})

    def respond(self, request_id: Id, result: Any) -> Response:
        """Answer a request of theirs with success.

        Raises:
            LocalProtocolError: that request is not running: unknown, answered or cancelled.
        """
        self._take(request_id)
        return Response(request_id, result)

    def refuse(self, request_id: Id, code: int, message: str, data: Any = None) -> ErrorResponse:
        """Answer a request of theirs with an error.

        Raises:
            LocalProtocolError: that request is not running: unknown, answered or cancelled.
        """
        self._take(request_id)
        return ErrorResponse(request_id, code, message, data)

    def _take(self, request_id: Id) -> None:
        if self._running.pop(request_id, None) is None:
            raise LocalProtocolError(
                f"the request {request_id!r} is not running: it is unknown or has its answer"
            )

    def close(self) -> tuple[Id, ...]:
        """End the conversation; the ids of our calls that will never be answered."""
        self.closed = True
        lost = tuple(self._calls)
        self._calls.clear()
        self._running.clear()
        return lost
