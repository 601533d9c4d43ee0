"""The handlers of one side of a connection, run in the order of the messages.

A handler is a plain function. Its return value is the answer. A returned coroutine runs in a task
with a cancel scope, and its result is the answer. Every request is answered exactly once, even if
its handler fails or is cancelled.
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import anyio.abc
import attrs

from eca_protocol.endpoint import (
    Endpoint,
    NotificationReceived,
    RequestCancelled,
    RequestReceived,
    Side,
    Table,
)
from eca_protocol.errors import (
    LocalProtocolError,
    RemoteProtocolError,
    RequestFailed,
    RPCError,
    internal_error,
)
from eca_protocol.jsonrpc import ErrorCode, Id
from eca_protocol.message_transport import MessageTransport

if TYPE_CHECKING:  # for other protocols the models of ECA are not loaded
    from eca_protocol.codec import MessageCodec

_log = logging.getLogger("eca_protocol.peer")

Handler: TypeAlias = Callable[[Any], Any]


def is_failure(error: BaseException) -> bool:
    """Return whether a handler's exception ends only the handler.

    An exception does, and so does the cancellation of a task or future of asyncio that the handler
    has awaited. A cancellation of the handler's task itself does not.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_failure, error.exceptions))
    cancelled = anyio.get_cancelled_exc_class()
    if not isinstance(error, cancelled) or cancelled.__module__ != "asyncio.exceptions":
        return isinstance(error, Exception)
    import asyncio  # noqa: PLC0415 - never on trio

    task = asyncio.current_task()
    is_wanted = task is None or task.cancelling() > 0
    return not is_wanted and anyio.current_effective_deadline() > -math.inf


def check_names(handlers: Mapping[str, Handler], table: Table, side: Side) -> None:
    """Refuse handlers of methods that the other side cannot send."""
    known = table.received_by(side)
    for name in handlers:
        if name not in known:
            import difflib  # noqa: PLC0415 - only for an error

            near = difflib.get_close_matches(name, known, n=1)
            hint = f": did you mean {near[0]!r}?" if near else ""
            raise LocalProtocolError(f"a {side} receives no method {name!r}{hint}")


@attrs.define(eq=False)
class HandlerRunner:
    """Runs handlers, and answers the requests of the other side.

    Args:
        handlers: by method name; a request without a handler is answered with -32601.
        endpoint: the state of the conversation.
        transport: sends the answers.
        codec: typed messages to JSON and back; may be replaced at any time.
        on_answered: called after each answer, which may open the gate for held messages.

    Attributes:
        tasks: the group in which handlers run; the peer sets it when it is entered.
    """

    _handlers: Mapping[str, Handler]
    _endpoint: Endpoint
    _transport: MessageTransport
    codec: MessageCodec
    _on_answered: Callable[[], None]
    tasks: anyio.abc.TaskGroup = attrs.field(init=False)
    _scopes: dict[Id | None, anyio.CancelScope] = attrs.field(factory=dict)  # may be cancelled
    _running: dict[anyio.CancelScope, str] = attrs.field(factory=dict)  # the method of each task
    _task_done: anyio.Event = attrs.field(factory=anyio.Event)

    def run_notification(self, event: NotificationReceived) -> None:
        """Run the handler of a notification, if there is one; log its errors."""
        try:
            for name, params in self.codec.incoming(event.method.name, event.params):
                handler = self._handlers.get(name)
                outcome = None if handler is None else handler(params)
                if outcome is not None and inspect.iscoroutine(outcome):
                    outcome.close()
                    _log.error("the handler of the notification %s must not be async", name)
        except RemoteProtocolError as error:
            _log.warning("%s was ignored: %s", event.method.name, error)
        except Exception:  # noqa: BLE001 - one bad handler must not end the connection
            _log.exception("the handler of %s failed", event.method.name)
        if event.id is not None:
            self._respond(event.id, event.method.name, None)

    def run_request(self, event: RequestReceived) -> None:
        """Run the handler of a request, and answer it now or at the end of the handler's task."""
        name, request_id = event.method.name, event.id
        if request_id is None and len(self._running) >= self._endpoint.max_running:
            return  # one with an id is refused
        try:
            handler = self._handlers.get(name)  # a mapping of the program's may fail
            if handler is None:
                error = RPCError(ErrorCode.METHOD_NOT_FOUND, f"unsupported method: {name}")
                self._refuse(request_id, error, name)
                return
            params = self.codec.decode_params(name, event.params)
        except Exception as error:  # noqa: BLE001 - every request is answered
            if isinstance(error, RemoteProtocolError):
                error = RPCError(error.code, error.message)
            self._refuse(request_id, error, name)
            return
        try:
            outcome = handler(params)
        except Exception as error:  # noqa: BLE001 - every request is answered
            self._refuse(request_id, error, name)
            return
        if not hasattr(outcome, "__await__"):
            self._respond(request_id, name, outcome)
            return
        scope = anyio.CancelScope()
        self._running[scope] = name
        if request_id is not None:
            self._scopes[request_id] = scope
        self.tasks.start_soon(self._finish_request, request_id, name, outcome, scope)

    def cancel_request(self, event: RequestCancelled) -> None:
        """Cancel the handler of a request, after its answer if it gets one at once."""
        if event.reply is not None:
            self._transport.send(event.reply.to_json())
        scope = self._scopes.pop(event.id, None)
        if scope is not None:
            scope.cancel()
        self._on_answered()

    def cancel_tasks(self) -> None:
        """Cancel the handlers that still run; `refuse_all` has answered their requests."""
        for scope in tuple(self._running):
            scope.cancel()

    def refuse_all(self, reason: str) -> None:
        """Answer every unanswered request as cancelled."""
        for request_id in tuple(self._endpoint.running_requests):
            self._refuse(request_id, RPCError(ErrorCode.REQUEST_CANCELLED, reason))

    async def cancel_requests(self, *, seconds: float, but: str | None = None) -> None:
        """Cancel the other side's running requests and wait for their answers.

        Args:
            seconds: the limit of the wait.
            but: the method whose requests are not cancelled: that of the calling handler.
        """
        for scope, name in tuple(self._running.items()):
            if name != but:
                scope.cancel()
        with anyio.move_on_after(seconds):
            while any(name != but for name in self._running.values()):
                if self._task_done.is_set():
                    self._task_done = anyio.Event()
                await self._task_done.wait()

    async def _finish_request(
        self,
        request_id: Id | None,
        name: str,
        outcome: Awaitable[Any],
        scope: anyio.CancelScope,
    ) -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            with scope:
                result = await outcome
        except BaseException as error:
            if not is_failure(error):
                raise
            failure = error
        finally:
            del self._running[scope]
            self._task_done.set()
        if self._scopes.get(request_id) is scope:
            del self._scopes[request_id]
        else:  # it was cancelled and answered; its id may be in use again
            request_id = None
        if failure is None and scope.cancelled_caught:
            failure = RPCError(ErrorCode.REQUEST_CANCELLED, "the request was cancelled")
        if failure is None:
            self._respond(request_id, name, result)
        else:
            self._refuse(request_id, failure, name)

    def _respond(self, request_id: Id | None, name: str, result: Any) -> None:
        if request_id is None or request_id not in self._endpoint.running_requests:
            return
        try:
            raw = self.codec.encode_result(name, result)
            self._transport.send({"jsonrpc": "2.0", "id": request_id, "result": raw})
        except Exception as error:  # noqa: BLE001 - every request is answered
            self._refuse(request_id, error, name)
            return
        self._endpoint.finish(request_id, success=True)
        if self._endpoint.may_release:
            self._on_answered()

    def _refuse(self, request_id: Id | None, error: BaseException, name: str = "") -> None:
        """Answer a request with an error, without internal details."""
        if not isinstance(error, RPCError) or isinstance(error, RequestFailed):
            _log.error("the handler of %s failed", name, exc_info=error)
            error = internal_error(name, error)
        if request_id is None or request_id not in self._endpoint.running_requests:
            return
        refusal = self._endpoint.refuse(request_id, error.code, error.message, error.data)
        try:
            self._transport.send(refusal.to_json())
        except LocalProtocolError as invalid:
            _log.error("the data of an error cannot be written: %s", invalid)
            self._transport.send(attrs.evolve(refusal, data=None).to_json())
        self._on_answered()
