"""An `Endpoint` over a transport: reading, dispatch in wire order, sending.

Rules (design decisions 8, 9, 11):

- A handler is a plain function, called in the order of the messages. Its return value is the
  answer. A returned coroutine runs in a task with a cancel scope, and its result is the answer.
  Every request is answered exactly once, even if its handler fails.
- Sending is a plain call of the transport and never waits, so it cannot be cancelled halfway. Only
  sources of much data await the transport's `drain()`.

It is independent of the protocol: table, codec, handlers, dialect, gate and transport are
arguments.
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeAlias

import anyio
import anyio.abc
import attrs

from eca_protocol.calls import PendingCall
from eca_protocol.endpoint import (
    LSP_DIALECT,
    CallAnswered,
    Dialect,
    Endpoint,
    Event,
    Gate,
    NotificationReceived,
    Reply,
    RequestCancelled,
    RequestReceived,
    Side,
    Table,
)
from eca_protocol.errors import (
    ConnectionClosed,
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

__all__ = ["End", "Handler", "Peer", "PendingCall"]

_log = logging.getLogger("eca_protocol.peer")

Handler: TypeAlias = Callable[[Any], Any]


@attrs.frozen
class End:
    """The end of a connection.

    Its kind is `eof`, `truncated` (inside a message), `invalid` (a fatal error of the transport),
    `broken` (a read or write failed) or `closed` (by us).
    """

    kind: Literal["eof", "truncated", "invalid", "broken", "closed"]
    reason: str


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


def _check_names(handlers: Mapping[str, Handler], table: Table, side: Side) -> None:
    """Refuse handlers of methods that the other side cannot send."""
    known = table.received_by(side)
    for name in handlers:
        if name not in known:
            import difflib  # noqa: PLC0415 - only for an error

            near = difflib.get_close_matches(name, known, n=1)
            hint = f": did you mean {near[0]!r}?" if near else ""
            raise LocalProtocolError(f"a {side} receives no method {name!r}{hint}")


def _unsupported(name: str) -> NoReturn:
    raise RPCError(ErrorCode.METHOD_NOT_FOUND, f"unsupported method: {name}")


class Peer:
    """One side of a connection; enter it with `async with`, then call `serve()`.

    In a task group of yours, `await tasks.start(peer.run)` instead, and `close()` at the end.

    Args:
        transport: the messages in both directions; it is closed when the peer is left.
        side: our side of the table.
        table: the protocol's methods.
        codec: typed messages to JSON and back.
        handlers: by method name; a request without a handler is answered with -32601. A name in a
            dict that is no method for this side raises LocalProtocolError.
        dialect: the protocol's rules for cancellation and invalid messages.
        gate: the protocol's lifecycle.
        before_reading: awaited before each read; while it waits, so does the other side.

    Attributes:
        transport: the messages in both directions.
        codec: typed messages to JSON and back; may be replaced at any time.
        end: the end of the connection; None before it.
        first_unreadable: the first message that could not be read, as an error; None: there was
            none. A client logs it.
        pending_calls: our unanswered calls, by id.
        flush_seconds: the limit for answering running requests and writing the rest at the end.
    """

    flush_seconds: float = 1.0

    def __init__(
        self,
        transport: MessageTransport,
        *,
        side: Side,
        table: Table,
        codec: MessageCodec,
        handlers: Mapping[str, Handler],
        dialect: Dialect = LSP_DIALECT,
        gate: Gate | None = None,
        before_reading: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        if isinstance(handlers, dict):  # to iterate over a lazy mapping may load its handlers
            _check_names(handlers, table, side)
        self.transport = transport
        self.codec = codec
        self.end: End | None = None
        self.first_unreadable: RemoteProtocolError | None = None
        self.pending_calls: dict[Id, PendingCall[Any]] = {}
        self._handlers = handlers
        self._endpoint = Endpoint(side, table, dialect=dialect, gate=gate)
        self._before_reading = before_reading
        self._reading = anyio.CancelScope()
        self._sending = anyio.CancelScope(shield=True)
        self._tasks: anyio.abc.TaskGroup
        self._scopes: dict[Id | None, anyio.CancelScope] = {}
        self._handling: dict[anyio.CancelScope, str] = {}
        self._handler_done = anyio.Event()
        self._started: set[anyio.CancelScope] = set()  # of the tasks by `start_soon`
        self._is_left = False

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._send)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Cancel the running handlers, answer every request, send the rest, and close."""
        reason = "the connection was closed"
        self.close()
        try:
            with anyio.CancelScope(shield=True):
                await self.cancel_requests(seconds=self.flush_seconds / 2)
                for request_id in tuple(self._endpoint.running_requests):
                    self._refuse(request_id, RPCError(ErrorCode.REQUEST_CANCELLED, reason))
                with anyio.move_on_after(self.flush_seconds / 2):
                    await self.transport.drain(0)
        finally:
            self._endpoint.close()
            self._lose_calls(reason)
            self._sending.cancel()
            # Not the group's scope: on asyncio its cancellation would be raised from the block, if
            # a request to cancel the task is left from there (CPython's TaskGroup, before 3.13).
            self._is_left = True
            for scope in (*self._handling, *self._started):
                scope.cancel()
            try:
                with anyio.CancelScope(shield=True):
                    await self.transport.aclose()
            finally:
                await self._tasks.__aexit__(None, None, None)

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> End:
        """Enter, serve and leave, as one task of a group that the caller owns.

        It has started when it can send. Any task may end it by `close()`.
        """
        async with self:
            task_status.started()
            return await self.serve()

    def start_soon(self, function: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Start a task in the peer's own task group, for example `serve`."""
        scope = anyio.CancelScope()
        if self._is_left:
            scope.cancel()
        self._started.add(scope)

        async def run() -> None:
            try:
                with scope:
                    await function()
            finally:
                self._started.discard(scope)

        self._tasks.start_soon(run)

    async def serve(self) -> End:
        """Read and dispatch until the stream ends, a fatal error occurs, or `close` is called.

        Afterwards our pending calls raise `ConnectionClosed`. Messages that were already appended
        are still sent when the peer is left.
        """
        try:
            with self._reading:
                end = await self._read()
                self.end = self.end or end
        finally:  # also when it is cancelled: no answer would be read
            self.end = self.end or End("closed", "the connection was closed")
            self._lose_calls(self.end.reason)
        return self.end

    def close(self, reason: str = "the connection was closed") -> None:
        """End `serve()`: stop reading and dispatching."""
        self.end = self.end or End("closed", reason)
        self._reading.cancel()

    @property
    def closed(self) -> bool:
        """True if messages are dropped instead of sent."""
        return self.transport.closed

    async def cancel_requests(self, *, seconds: float, but: str | None = None) -> None:
        """Cancel the other side's running requests and wait for their answers.

        Args:
            seconds: the limit of the wait.
            but: the method whose requests are not cancelled: that of the calling handler.
        """
        for scope, name in tuple(self._handling.items()):
            if name != but:
                scope.cancel()
        with anyio.move_on_after(seconds):
            await self.wait_for_handlers(but=but)

    async def wait_for_handlers(self, *, but: str | None = None) -> None:
        """Wait until no handler runs, except those of the method `but`."""
        while any(name != but for name in self._handling.values()):
            if self._handler_done.is_set():
                self._handler_done = anyio.Event()
            await self._handler_done.wait()

    async def _send(self) -> None:
        """Run the transport until the peer is left; an outer cancellation does not stop it."""
        with self._sending:
            try:
                await self.transport.run()
            except OSError as error:
                self.end = self.end or End("broken", f"writing failed: {error}")
                self._endpoint.close()
                self._lose_calls(self.end.reason)
                self._reading.cancel()

    def _lose_calls(self, reason: str) -> None:
        calls, self.pending_calls = self.pending_calls, {}
        for call in calls.values():
            call.settle(ConnectionClosed(f"{call.method}: {reason}"))

    async def _read(self) -> End:
        while True:
            if self._before_reading is not None:
                await self._before_reading()
            try:
                messages = await self.transport.receive()
            except OSError as error:
                return End("broken", f"reading failed: {error}")
            for message in messages:
                if self.end is not None:  # a handler may close the peer
                    return self.end
                if isinstance(message, RemoteProtocolError):
                    self.first_unreadable = self.first_unreadable or message
                    is_first = message is self.first_unreadable
                    if is_first and self._endpoint.side == "client" and not message.fatal:
                        _log.warning("a message of the server was skipped: %s", message)
                    event: Event | None = self._endpoint.reply_to_error(message)
                else:
                    event = self._endpoint.receive(message)
                if event is not None:
                    self._act_on(event)
                if isinstance(message, RemoteProtocolError) and message.fatal:
                    is_truncated = isinstance(message, EOFError)
                    return End("truncated" if is_truncated else "invalid", message.message)
            if self.end is not None:
                return self.end
            if not messages:
                return End("eof", "the other side closed the connection")

    def _act_on(self, event: Event) -> None:
        if isinstance(event, NotificationReceived):
            self._run_notification(event)
        elif isinstance(event, RequestReceived):
            self._run_request(event)
        elif isinstance(event, CallAnswered):
            call = self.pending_calls.pop(event.id, None)
            if call is not None:
                call.settle(event)
        elif isinstance(event, RequestCancelled):
            if event.reply is not None:
                self.transport.send(event.reply.to_json())
            scope = self._scopes.pop(event.id, None)
            if scope is not None:
                scope.cancel()
            self._release()
        else:
            assert isinstance(event, Reply)
            self.transport.send(event.message.to_json())

    def _run_notification(self, event: NotificationReceived) -> None:
        try:
            for name, params in self.codec.incoming(event.method.name, event.params):
                handler = self._handlers.get(name)
                outcome = None if handler is None else handler(params)
                if inspect.iscoroutine(outcome):
                    outcome.close()
                    _log.error("the handler of the notification %s must not be async", name)
        except RemoteProtocolError as error:
            _log.warning("%s was ignored: %s", event.method.name, error)
        except Exception:  # noqa: BLE001 - one bad handler must not end the connection
            _log.exception("the handler of %s failed", event.method.name)
        if event.id is not None:
            self._respond(event.id, event.method.name, None)

    def _run_request(self, event: RequestReceived) -> None:
        name, request_id = event.method.name, event.id
        if request_id is None and len(self._handling) >= self._endpoint.max_running:
            return  # one with an id is refused
        try:
            handler = self._handlers.get(name) or _unsupported(name)  # a program's mapping may fail
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
        if not inspect.isawaitable(outcome):
            self._respond(request_id, name, outcome)
            return
        scope = anyio.CancelScope()
        self._handling[scope] = name
        if request_id is not None:
            self._scopes[request_id] = scope
        self._tasks.start_soon(self._finish_request, request_id, name, outcome, scope)

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
            del self._handling[scope]
            self._handler_done.set()
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
            self.transport.send({"jsonrpc": "2.0", "id": request_id, "result": raw})
        except Exception as error:  # noqa: BLE001 - every request is answered
            self._refuse(request_id, error, name)
            return
        self._endpoint.respond(request_id, None)
        self._release()

    def _refuse(self, request_id: Id | None, error: BaseException, name: str = "") -> None:
        """Answer a request with an error, without internal details."""
        if not isinstance(error, RPCError) or isinstance(error, RequestFailed):
            _log.error("the handler of %s failed", name, exc_info=error)
            error = internal_error(name, error)
        if request_id is None or request_id not in self._endpoint.running_requests:
            return
        refusal = self._endpoint.refuse(request_id, error.code, error.message, error.data)
        try:
            self.transport.send(refusal.to_json())
        except LocalProtocolError as invalid:
            _log.error("the data of an error cannot be written: %s", invalid)
            self.transport.send(attrs.evolve(refusal, data=None).to_json())
        self._release()

    def release(self) -> None:
        """Dispatch the messages that the gate has held, after it was opened."""
        self._endpoint.allow_release()
        self._release()

    def _release(self) -> None:
        for event in self._endpoint.take_released():
            self._act_on(event)

    def notify(self, method: str, params: Any = None, *, codec: MessageCodec | None = None) -> None:
        """Send a typed notification; never waits.

        Args:
            method: the method's name.
            params: its typed params.
            codec: the codec to use in place of the connection's.

        Raises:
            ConnectionClosed: the connection is closed.
            LocalProtocolError: the params are not JSON, or the table has no such method.
        """
        if self.transport.closed:
            raise ConnectionClosed(f"{method}: the connection is closed")
        for name, raw in (codec or self.codec).outgoing(method, params):
            message = {"jsonrpc": "2.0", "method": name}
            if raw is not None:
                message["params"] = raw
            self.transport.send(message)

    def start_call(self, method: str, params: Any = None) -> PendingCall[Any]:
        """Send a typed request; never waits. The answer is `await pending.result()`.

        Raises:
            ConnectionClosed: the connection is closed.
            LocalProtocolError: the params are not JSON, or the table has no such method.
        """
        if self.transport.closed or self.end is not None:
            raise ConnectionClosed(f"{method}: the connection is closed")
        request = self._endpoint.call(method, self.codec.encode_params(method, params))
        call = self.pending_calls[request.id] = PendingCall(
            request,
            # Not the method itself: the codec may be replaced before the answer comes.
            decode=lambda method, raw: self.codec.decode_result(method, raw),  # noqa: PLW0108
            abandon=self.abandon,
        )
        try:
            self.transport.send(request.to_json())
        except LocalProtocolError:
            del self.pending_calls[request.id]
            self._endpoint.abandon(request.id)
            raise
        return call

    async def call(self, method: str, params: Any = None, *, deadline: float | None = None) -> Any:
        """Send a typed request and wait for its typed result; see `PendingCall.result`."""
        return await self.start_call(method, params).result(deadline=deadline)

    def abandon(self, call: PendingCall[Any]) -> None:
        """Stop waiting for a call and cancel it; a late answer is for its `on_answer` only."""
        expects_answer = call.on_answer is not None
        if not expects_answer:
            self.pending_calls.pop(call.id, None)
        cancel = self._endpoint.abandon(call.id, expects_answer=expects_answer)
        if cancel is not None:
            self.transport.send(cancel.to_json())
