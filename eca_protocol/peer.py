"""An `Endpoint` over a transport: reading, dispatch in wire order, sending.

What the other side sends goes to the handlers (`handler_runner`). What we send is a plain call of
the transport and never waits, so it cannot be cancelled halfway; only sources of much data await
the transport's `drain()`.

It is independent of the protocol: table, codec, handlers, dialect, gate and transport are
arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import anyio
import anyio.abc
import attrs

from eca_protocol.calls import CallDeadlines, PendingCall
from eca_protocol.endpoint import (
    LSP_DIALECT,
    MAX_RUNNING,
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
)
from eca_protocol.handler_runner import Handler, HandlerRunner, check_names
from eca_protocol.jsonrpc import Id
from eca_protocol.message_transport import MessageTransport

if TYPE_CHECKING:  # for other protocols the models of ECA are not loaded
    from eca_protocol.codec import MessageCodec

__all__ = ["End", "Handler", "Peer", "PendingCall"]

_log = logging.getLogger("eca_protocol.peer")


@attrs.frozen
class End:
    """The end of a connection.

    Its kind is `eof`, `truncated` (inside a message), `invalid` (a fatal error of the transport),
    `broken` (a read or write failed) or `closed` (by us).
    """

    kind: Literal["eof", "truncated", "invalid", "broken", "closed"]
    reason: str


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
        max_running: the limit of the other side's unanswered requests; one more is refused.

    Attributes:
        transport: the messages in both directions.
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
        max_running: int = MAX_RUNNING,
    ) -> None:
        if isinstance(handlers, dict):  # to iterate over a lazy mapping may load its handlers
            check_names(handlers, table, side)
        self.transport = transport
        self.end: End | None = None
        self.first_unreadable: RemoteProtocolError | None = None
        self.pending_calls: dict[Id, PendingCall[Any]] = {}
        self._deadlines = CallDeadlines(self.pending_calls)
        self._endpoint = Endpoint(side, table, dialect=dialect, gate=gate, max_running=max_running)
        self._runner = HandlerRunner(handlers, self._endpoint, transport, codec, self._release)
        self._before_reading = before_reading
        self._reading = anyio.CancelScope()
        self._sending = anyio.CancelScope(shield=True)
        self._tasks: anyio.abc.TaskGroup
        self._started: set[anyio.CancelScope] = set()  # of the tasks by `start_soon`
        self._is_left = False

    async def __aenter__(self) -> Self:
        self._tasks = self._runner.tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._send)
        self.start_soon(self._deadlines.watch)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Cancel the running handlers, answer every request, send the rest, and close."""
        reason = "the connection was closed"
        self.close()
        try:
            with anyio.CancelScope(shield=True):
                await self.cancel_requests(seconds=self.flush_seconds / 2)
                self._runner.refuse_all(reason)
                with anyio.move_on_after(self.flush_seconds / 2):
                    await self.transport.drain(0)
        finally:
            self._endpoint.close()
            self._lose_calls(reason)
            self._sending.cancel()
            # Not the group's scope: on asyncio its cancellation would be raised from the block, if
            # a request to cancel the task is left from there (CPython's TaskGroup, before 3.13).
            self._is_left = True
            self._runner.cancel_tasks()
            for scope in tuple(self._started):
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
    def codec(self) -> MessageCodec:
        """Typed messages to JSON and back; may be replaced at any time."""
        return self._runner.codec

    @codec.setter
    def codec(self, codec: MessageCodec) -> None:
        self._runner.codec = codec

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
        await self._runner.cancel_requests(seconds=seconds, but=but)

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
        calls = tuple(self.pending_calls.values())
        self.pending_calls.clear()
        self._deadlines.close()
        for call in calls:
            call.settle(ConnectionClosed(f"{call.method}: {reason}"))

    async def _read(self) -> End:
        while True:
            if self._before_reading is not None:
                await self._before_reading()
            try:
                messages = await self.transport.receive()
            except OSError as error:
                return End("broken", f"reading failed: {error}")
            end = self.take(messages)
            if end is not None:
                return end
            if not messages:
                return End("eof", "the other side closed the connection")

    def take(self, messages: Sequence[Any]) -> End | None:
        """Dispatch received messages; return the end of the connection if it is reached.

        A transport may call it with valid messages, in place of returning them from `receive`.
        """
        for message in messages:
            if self.end is not None:  # a handler may close the peer
                break
            if isinstance(message, RemoteProtocolError):
                self._act_on(self._reply_to(message))
                if message.fatal:
                    is_truncated = isinstance(message, EOFError)
                    return End("truncated" if is_truncated else "invalid", message.message)
            else:
                self._act_on(self._endpoint.receive(message))
        return self.end

    def _reply_to(self, unreadable: RemoteProtocolError) -> Event | None:
        if self.first_unreadable is None:
            self.first_unreadable = unreadable
            if self._endpoint.side == "client" and not unreadable.fatal:
                _log.warning("a message of the server was skipped: %s", unreadable)
        return self._endpoint.reply_to_error(unreadable)

    def _act_on(self, event: Event | None) -> None:
        if event is None:
            return
        if isinstance(event, NotificationReceived):
            self._runner.run_notification(event)
        elif isinstance(event, RequestReceived):
            self._runner.run_request(event)
        elif isinstance(event, CallAnswered):
            call = self.pending_calls.pop(event.id, None)
            if call is not None:
                call.settle(event)
        elif isinstance(event, RequestCancelled):
            self._runner.cancel_request(event)
        else:
            assert isinstance(event, Reply)
            self.transport.send(event.message.to_json())

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
        request = self._endpoint.call(method, self._runner.codec.encode_params(method, params))
        call = self.pending_calls[request.id] = PendingCall(
            request,
            decode=self._decode_result,
            abandon=self.abandon,
            deadlines=self._deadlines,
        )
        try:
            self.transport.send(request.to_json())
        except LocalProtocolError:
            del self.pending_calls[request.id]
            self._endpoint.abandon(request.id)
            raise
        return call

    def _decode_result(self, method: str, raw: Any) -> Any:
        return self._runner.codec.decode_result(method, raw)  # it may have been replaced

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
