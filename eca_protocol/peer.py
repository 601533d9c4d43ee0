"""An `Endpoint` over a transport: reading, dispatch in wire order, writing.

Rules (design decisions 8, 9, 11):

- A handler is a plain function, called in the order of the messages. Its return value is the
  answer. A returned coroutine runs in a task with a cancel scope, and its result is the answer.
  Every request is answered exactly once, even if its handler fails.
- Sending appends to the outbox and never waits, so it cannot be cancelled halfway. One task writes,
  joining whole frames. Only sources of much data await `drain()`.
- Reading waits while the outbox is far above its limit, so a peer that reads nothing cannot fill
  the memory.

It is independent of the protocol: table, codec, handlers, dialect, gate and framing are arguments.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import anyio
import anyio.abc
import attrs

from eca_protocol import json
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
    InvalidJSON,
    LocalProtocolError,
    RemoteProtocolError,
    RequestFailed,
    RPCError,
)
from eca_protocol.framing import CONTENT_LENGTH, FrameError, Framing
from eca_protocol.jsonrpc import ErrorCode, ErrorResponse, Id, Notification, Request, Response
from eca_protocol.outbox import Outbox, WriteShape
from eca_protocol.streams import Transport

if TYPE_CHECKING:  # for other protocols the models of ECA are not loaded
    from eca_protocol.codec import MessageCodec

__all__ = ["End", "Handler", "Peer", "PendingCall", "WriteShape"]

_log = logging.getLogger("eca_protocol.peer")

Handler: TypeAlias = Callable[[Any], Any]

DRAINED = 65_536
"""The limit of bytes in the outbox below which `drain()` returns."""

CLOGGED = 64 * 2**20
"""The limit of bytes in the outbox above which reading waits."""


@attrs.frozen
class End:
    """The end of a connection.

    Its kind is `eof`, `truncated` (inside a frame), `invalid` (a fatal framing error), `broken` (a
    read or write failed) or `closed` (by us).
    """

    kind: Literal["eof", "truncated", "invalid", "broken", "closed"]
    reason: str


FLUSH_SECONDS = 1.0
"""The limit for answering running requests and writing the rest when a peer is left."""


class Peer:
    """One side of a connection; enter it with `async with`, then call `serve()`.

    Args:
        transport: the byte stream; it is closed when the peer is left.
        side: our side of the table.
        table: the protocol's methods.
        codec: typed messages to JSON and back; may be replaced at any time (`peer.codec = ...`).
        handlers: by method name; a request without a handler is answered with -32601.
        dialect: the protocol's rules for cancellation and invalid messages.
        framing: the framing of messages in the byte stream.
        gate: the protocol's lifecycle.
        before_reading: awaited before each read; while it waits, so does the other side.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        side: Side,
        table: Table,
        codec: MessageCodec,
        handlers: Mapping[str, Handler],
        dialect: Dialect = LSP_DIALECT,
        framing: Framing = CONTENT_LENGTH,
        gate: Gate | None = None,
        before_reading: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.codec = codec
        self.end: End | None = None
        self._transport = transport
        self._table = table
        self._handlers = handlers
        self._endpoint = Endpoint(side, table, dialect=dialect, gate=gate)
        self._decoder = framing.decoder()
        self._frame = framing.encode
        self._duplicate_keys = dialect.duplicate_keys
        self._before_reading = before_reading
        self._reading = anyio.CancelScope()
        self._tasks: anyio.abc.TaskGroup
        self._scopes: dict[Id | None, anyio.CancelScope] = {}
        self._handling: dict[anyio.CancelScope, str] = {}
        self._handler_done = anyio.Event()
        self._calls: dict[Id, PendingCall] = {}
        self._outbox = Outbox(transport)
        self._writing = anyio.CancelScope(shield=True)

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._write)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        try:
            with anyio.CancelScope(shield=True):
                await self._wind_up()
        finally:
            self._silence("the connection was closed")
            self._writing.cancel()
            self._tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await self._transport.aclose()
            await self._tasks.__aexit__(None, None, None)

    async def _wind_up(self) -> None:
        """Cancel the running handlers, answer every request, and write the rest."""
        await self.cancel_requests(seconds=FLUSH_SECONDS / 2)
        for request_id in tuple(self._endpoint.running_requests):
            self._refuse(request_id, ErrorCode.REQUEST_CANCELLED, "the connection was closed")
        with anyio.move_on_after(FLUSH_SECONDS / 2):
            await self._outbox.wait_below(0)

    async def cancel_requests(self, *, seconds: float, but: str | None = None) -> None:
        """Cancel the other side's running requests and wait for their answers.

        Args:
            seconds: the limit of the wait.
            but: the method whose requests are not cancelled: that of the calling handler.
        """
        with anyio.move_on_after(seconds):
            for scope, name in tuple(self._handling.items()):
                if name != but:
                    scope.cancel()
            while any(name != but for name in self._handling.values()):
                self._handler_done = anyio.Event()
                await self._handler_done.wait()

    async def _write(self) -> None:
        """Write until the peer is left; an outer cancellation does not stop it."""
        with self._writing:
            await self._outbox.run(self._on_broken)

    async def serve(self) -> End:
        """Read and dispatch until the stream ends, a fatal error occurs, or `close` is called.

        Afterwards our pending calls raise `ConnectionClosed`. Messages that were already appended
        are still written when the peer is left.
        """
        with self._reading:
            end = await self._read()
            self.end = self.end or end
        self.end = self.end or End("closed", "the connection was closed")
        self._lose_calls(self.end.reason)
        return self.end

    def start_soon(self, function: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Start a task in the peer's task group, for example `serve`."""
        self._tasks.start_soon(function)

    def close(self, reason: str = "the connection was closed") -> None:
        """End `serve()`: stop reading and dispatching."""
        self.end = self.end or End("closed", reason)
        self._reading.cancel()

    @property
    def closed(self) -> bool:
        """True if messages are dropped instead of written."""
        return self._outbox.closed

    def _on_broken(self, error: OSError) -> None:
        self.end = self.end or End("broken", f"writing failed: {error}")
        self._silence(self.end.reason)
        self._reading.cancel()

    def _silence(self, reason: str) -> None:
        self._outbox.close()
        self._endpoint.close()
        self._lose_calls(reason)

    def _lose_calls(self, reason: str) -> None:
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.settle(ConnectionClosed(f"{call.method}: {reason}"))

    async def _read(self) -> End:
        while True:
            if self._before_reading is not None:
                await self._before_reading()
            if self._outbox.size > CLOGGED:
                await self._outbox.wait_below(CLOGGED)
            try:
                data = await self._transport.receive()
            except OSError as error:
                return End("broken", f"reading failed: {error}")
            for item in self._decoder.feed(data) if data else self._decoder.feed_eof():
                if self.end is not None:  # a decoder or handler may close the peer
                    return self.end
                if type(item) is FrameError:
                    self._reply_to(
                        RemoteProtocolError(item.message, code=item.code, fatal=item.fatal)
                    )
                    if item.fatal:
                        return End("invalid" if data else "truncated", item.message)
                else:
                    assert isinstance(item, bytes)
                    self._take_in(item)
            if self.end is not None:
                return self.end
            if not data:
                return End("eof", "the other side closed the connection")

    def _take_in(self, frame: bytes) -> None:
        try:
            value = json.loads(frame, duplicate_keys=self._duplicate_keys)
        except InvalidJSON as error:
            self._reply_to(error)
            return
        event = self._endpoint.receive(value)
        if event is not None:
            self._act_on(event)

    def _reply_to(self, error: RemoteProtocolError) -> None:
        reply = self._endpoint.reply_to_error(error)
        if reply is not None:
            self._post(reply.message)

    def _act_on(self, event: Event) -> None:
        if isinstance(event, NotificationReceived):
            self._run_notification(event)
        elif isinstance(event, RequestReceived):
            self._run_request(event)
        elif isinstance(event, CallAnswered):
            call = self._calls.pop(event.id, None)
            if call is not None:
                call.settle(event)
        elif isinstance(event, RequestCancelled):
            if event.reply is not None:
                self._post(event.reply)
            scope = self._scopes.pop(event.id, None)
            if scope is not None:
                scope.cancel()
            self._release()
        else:
            assert isinstance(event, Reply)
            self._post(event.message)

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
        handler = self._handlers.get(name)
        if handler is None:
            self._refuse(request_id, ErrorCode.METHOD_NOT_FOUND, f"unsupported method: {name}")
            return
        try:
            outcome = handler(self._read_params(name, event.params))
        except Exception as error:  # noqa: BLE001 - every request is answered
            self._refuse_for(request_id, name, error)
            return
        if not inspect.isawaitable(outcome):
            self._respond(request_id, name, outcome)
            return
        scope = anyio.CancelScope()
        self._handling[scope] = name
        if request_id is not None:
            self._scopes[request_id] = scope
        self._tasks.start_soon(self._finish_request, request_id, name, outcome, scope)

    def _read_params(self, name: str, raw: Any) -> Any:
        try:
            return self.codec.decode_params(name, raw)
        except RemoteProtocolError as error:
            raise RPCError(error.code, error.message) from error

    async def _finish_request(
        self,
        request_id: Id | None,
        name: str,
        outcome: Awaitable[Any],
        scope: anyio.CancelScope,
    ) -> None:
        result: Any = None
        failure: Exception | None = None
        try:
            with scope:
                result = await outcome
        except Exception as error:  # noqa: BLE001 - every request is answered
            failure = error
        finally:
            del self._handling[scope]
            self._handler_done.set()
        if self._scopes.get(request_id) is scope:
            del self._scopes[request_id]
        else:  # it was cancelled and answered; its id may be in use again
            request_id = None
        if failure is not None:
            self._refuse_for(request_id, name, failure)
        elif scope.cancelled_caught:
            self._refuse(request_id, ErrorCode.REQUEST_CANCELLED, "the request was cancelled")
        else:
            self._respond(request_id, name, result)

    def _respond(self, request_id: Id | None, name: str, result: Any) -> None:
        if request_id is None or request_id not in self._endpoint.running_requests:
            return
        try:
            raw = self.codec.encode_result(name, result)
            frame = json.dumps(Response(request_id, raw).to_json())
        except Exception as error:  # noqa: BLE001 - every request is answered
            self._refuse_for(request_id, name, error)
            return
        self._endpoint.respond(request_id, None)
        self._outbox.append(self._frame(frame), is_answer=True)
        self._release()

    def _refuse_for(self, request_id: Id | None, name: str, error: Exception) -> None:
        """Answer a request whose handler raised, without internal details."""
        if isinstance(error, RPCError) and not isinstance(error, RequestFailed):
            self._refuse(request_id, error.code, error.message, error.data)
        else:
            _log.error("the handler of %s failed", name, exc_info=error)
            self._refuse(request_id, ErrorCode.INTERNAL_ERROR, f"{name} failed: internal error")

    def _refuse(self, request_id: Id | None, code: int, message: str, data: Any = None) -> None:
        if request_id is None or request_id not in self._endpoint.running_requests:
            return
        refusal = self._endpoint.refuse(request_id, code, message, data)
        try:
            self._post(refusal)
        except LocalProtocolError as error:
            _log.error("the data of an error cannot be written: %s", error)
            self._post(attrs.evolve(refusal, data=None))
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
        if self._outbox.closed:
            raise ConnectionClosed(f"{method}: the connection is closed")
        for name, raw in (codec or self.codec).outgoing(method, params):
            message = {"jsonrpc": "2.0", "method": name}
            if raw is not None:
                message["params"] = raw
            self._outbox.append(self._frame(json.dumps(message)))

    def start_call(self, method: str, params: Any = None) -> PendingCall:
        """Send a typed request; never waits. The answer is `await pending.result()`.

        Raises:
            ConnectionClosed: the connection is closed.
            LocalProtocolError: the params are not JSON, or the table has no such method.
        """
        if self._outbox.closed or self.end is not None:
            raise ConnectionClosed(f"{method}: the connection is closed")
        request = self._endpoint.call(method, self.codec.encode_params(method, params))
        call = PendingCall(request, decode=self._decode_result, abandon=self.abandon)
        self._calls[request.id] = call
        try:
            self._post(request)
        except LocalProtocolError:
            del self._calls[request.id]
            self._endpoint.abandon(request.id)
            raise
        return call

    def _decode_result(self, method: str, raw: Any) -> Any:
        return self.codec.decode_result(method, raw)

    async def call(self, method: str, params: Any = None, *, deadline: float | None = None) -> Any:
        """Send a typed request and wait for its typed result; see `PendingCall.result`."""
        return await self.start_call(method, params).result(deadline=deadline)

    def abandon(self, call: PendingCall) -> None:
        """Stop waiting for a call and cancel it at the other side; ignore a late answer."""
        self._calls.pop(call.id, None)
        cancel = self._endpoint.abandon(call.id)
        if cancel is not None and not self._outbox.closed:
            self._post(cancel)

    @property
    def pending_calls(self) -> int:
        """The number of our unanswered calls."""
        return len(self._calls)

    def _post(self, message: Request | Notification | Response | ErrorResponse) -> None:
        is_answer = isinstance(message, Response | ErrorResponse)
        self._outbox.append(self._frame(json.dumps(message.to_json())), is_answer=is_answer)

    @property
    def shape(self) -> WriteShape:
        """The grouping of frames into writes; may be replaced at any time."""
        return self._outbox.shape

    @shape.setter
    def shape(self, shape: WriteShape) -> None:
        self._outbox.shape = shape

    async def drain(self) -> None:
        """Wait until few bytes are unwritten; for sources of much data, between two messages."""
        if self._outbox.size > DRAINED:
            await self._outbox.wait_below(DRAINED)
