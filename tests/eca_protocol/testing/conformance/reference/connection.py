"""One connection: validates messages, dispatches them, and writes all output."""

import inspect
import itertools
import uuid
from collections import deque
from collections.abc import Coroutine, Mapping
from typing import Any, ClassVar, NoReturn

import anyio
import anyio.abc

from eca_protocol.streams import Transport
from tests.eca_protocol.testing.conformance.reference import wire
from tests.eca_protocol.testing.conformance.reference.params import Params
from tests.eca_protocol.testing.conformance.reference.wire import Fault, Wire

WRITE_SIZE = 65_536

REQUESTS = {
    "initialize": "initialize",
    "shutdown": "shutdown",
    "chat/prompt": "prompt",
    "chat/queryContext": "query_context",
    "chat/queryCommands": "query_commands",
    "chat/delete": "delete",
}
NOTIFICATIONS = {
    "initialized": "initialized",
    "exit": "exit",
    "chat/promptStop": "stop",
    "chat/toolCallApprove": "approve",
    "chat/toolCallReject": "reject",
    "chat/selectedBehaviorChanged": "select_behavior",
    "chat/selectedAgentChanged": "select_behavior",
    "mcp/startServer": "start_mcp_server",
    "mcp/stopServer": "stop_mcp_server",
    "$/cancelRequest": "cancel_request",
}


class Connection:
    """Serves one client over a transport.

    Every method of the protocol is a method of the subclass: it returns its result, or a coroutine
    if the answer has to wait.

    Attributes:
        requests: the requests that are known, and the method of each.
        notifications: the same for notifications.
        state: new, ready or shutdown.
        is_introduced: whether the client has sent `initialized`.
        exit_code: None while it serves.
        tasks: for what outlives the message it came by.
    """

    requests: ClassVar[Mapping[str, str]] = REQUESTS
    notifications: ClassVar[Mapping[str, str]] = NOTIFICATIONS
    tasks: anyio.abc.TaskGroup

    def __init__(self, transport: Transport, framing: Wire) -> None:
        self.state = "new"
        self.is_introduced = False
        self.exit_code: int | None = None
        self._transport = transport
        self._wire = framing
        self._reading = anyio.CancelScope()
        self._outbox: deque[bytes] = deque()
        self._held: list[tuple[str, Any]] = []  # until the client is ready for them
        self._written = anyio.Event()
        self._more = anyio.Event()
        self._pending: dict[tuple[type, Any], anyio.CancelScope] = {}
        self._own_requests: dict[str, tuple[anyio.Event, list[Any]]] = {}

    async def run(self) -> int:
        """Serve to the end; return the exit code."""
        async with anyio.create_task_group() as self.tasks:
            self.tasks.start_soon(self._write_out)
            with self._reading:
                await self._read()
            with anyio.move_on_after(2, shield=True):
                await self.close()
                while self._outbox:
                    await self._written.wait()
            self.tasks.cancel_scope.cancel()
        return self.exit_code or 0

    def end(self, code: int) -> None:
        if self.exit_code is None:
            self.exit_code = code
            self._reading.cancel()

    async def close(self) -> None:
        """End all work."""

    async def _read(self) -> None:
        while self.exit_code is None:
            data = await self._transport.receive()
            for value in self._wire.feed(data):
                self._take(value)
            if not data:
                fault = self._wire.feed_end()
                if fault is not None:
                    self._take(fault)
                self.end(0)

    def _take(self, value: Any) -> None:
        if self.exit_code is not None:
            return
        try:
            if isinstance(value, Fault):
                raise value
            self.receive(value)
        except Fault as fault:
            self.fail(fault)
            if fault.fatal:
                self.end(1)

    def receive(self, message: Any) -> None:
        """Handle one message, in the order of the stream.

        Raises:
            Fault: it deserves an error.
        """
        id_, has_id = self.check(message)
        if "method" not in message:
            self.take_answer(message)
            return
        method, params = message["method"], message.get("params")
        try:
            if method in self.requests:
                self.pass_gate(method)
                self.answer(id_, has_id, self.call(self.requests[method], params))
            elif has_id and method not in self.notifications:
                self.pass_gate(method)
                self.refuse_unknown(method)
            else:
                self.notice(method, params)
                self.answer(id_, has_id, None)
        except Fault as fault:
            fault.id = id_
            if has_id:
                raise

    def check(self, message: Any) -> tuple[Any, bool]:
        """Validate a message; return its id, and whether it has one."""
        if not isinstance(message, dict):
            raise Fault(wire.INVALID_REQUEST, "expected one JSON-RPC message")
        id_, has_id = message.get("id"), "id" in message
        is_answer = "method" not in message and not message.keys().isdisjoint(("result", "error"))
        if has_id and not is_answer and (isinstance(id_, bool) or not isinstance(id_, int | str)):
            raise Fault(wire.INVALID_REQUEST, "expected an id that is an integer or a text")
        if message.get("jsonrpc") != "2.0":
            raise Fault(wire.INVALID_REQUEST, 'expected jsonrpc "2.0"', id_=id_)
        if not is_answer:
            if not isinstance(message.get("method"), str):
                raise Fault(wire.INVALID_REQUEST, "expected a method that is a text", id_=id_)
            if not isinstance(message.get("params"), dict | list | None):
                raise Fault(wire.INVALID_REQUEST, "expected params, an object", id_=id_)
            if has_id and (type(id_), id_) in self._pending:
                raise Fault(wire.INVALID_REQUEST, f"the request {id_!r} is pending", id_=id_)
        return id_, has_id

    def pass_gate(self, method: str) -> None:
        if self.state == "shutdown":
            raise Fault(wire.INVALID_REQUEST, "the server is shut down")
        if self.state == "new" and method != "initialize":
            raise Fault(wire.NOT_INITIALIZED, "the server is not initialized")
        if self.state == "ready" and method == "initialize":
            raise Fault(wire.INVALID_REQUEST, "the server is initialized already")

    def refuse_unknown(self, method: str) -> NoReturn:
        raise Fault(wire.UNKNOWN_METHOD, f"there is no method {method}")

    def call(self, name: str, params: Any) -> Any:
        return getattr(self, name)(Params(params))

    def notice(self, method: str, params: Any) -> None:
        if method in self.notifications and (self.state == "ready" or method == "exit"):
            try:
                waiting = self.call(self.notifications[method], params)
            except Fault:
                return
            if inspect.iscoroutine(waiting):
                self.tasks.start_soon(lambda: waiting)

    def answer(self, id_: Any, has_id: bool, result: Any) -> None:
        if inspect.iscoroutine(result):
            scope = anyio.CancelScope()
            if has_id:
                self._pending[type(id_), id_] = scope
            self.tasks.start_soon(self._answer_later, id_, has_id, scope, result)
        elif has_id:
            self.write({"jsonrpc": "2.0", "id": id_, "result": result})

    async def _answer_later(
        self, id_: Any, has_id: bool, scope: anyio.CancelScope, waiting: Coroutine[Any, Any, Any]
    ) -> None:
        result: Any = Fault(wire.CANCELLED, "the request was cancelled", id_=id_)
        with scope:
            try:
                result = await waiting
            except Fault as fault:
                fault.id, result = id_, fault
        self._pending.pop((type(id_), id_), None)
        if not isinstance(result, Fault):
            self.answer(id_, has_id, result)
        elif has_id:
            self.fail(result)

    def fail(self, fault: Fault) -> None:
        error = {"code": fault.code, "message": str(fault)}
        self.write({"jsonrpc": "2.0", "id": fault.id, "error": error})

    def notify(self, method: str, params: Any, *, unasked: bool = False) -> None:
        """Notify the client; unsolicited notifications wait until it is ready."""
        if unasked and not self.is_introduced:
            self._held.append((method, params))
        else:
            self.write({"jsonrpc": "2.0", "method": method, "params": params})

    def show(self, kind: str, text: str) -> None:
        self.notify("$/showMessage", {"type": kind, "message": text}, unasked=True)

    async def ask(self, method: str, params: Any, *, seconds: float) -> Any:
        """Send a request; return its result, or None."""
        id_ = str(uuid.uuid4())
        answered, answers = self._own_requests[id_] = anyio.Event(), []
        self.write({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
        with anyio.move_on_after(seconds):
            await answered.wait()
        del self._own_requests[id_]
        return answers[0] if answers else None

    def take_answer(self, message: dict[str, Any]) -> None:
        id_ = message.get("id")
        if isinstance(id_, str) and id_ in self._own_requests:
            answered, answers = self._own_requests[id_]
            answers.append(message.get("result"))
            answered.set()

    def write(self, message: dict[str, Any]) -> None:
        self._outbox.append(self._wire.encode(message))
        self._more.set()

    async def _write_out(self) -> None:
        while True:
            if not self._outbox:
                self._more = anyio.Event()
                await self._more.wait()
            frames = self.next_write()
            try:
                await self._transport.send(b"".join(frames))
            except OSError:
                self.end(1)
            for _ in frames:
                self._outbox.popleft()
            self._written.set()
            self._written = anyio.Event()

    def next_write(self) -> list[bytes]:
        """Yield whole frames, as many as one write may hold."""
        frames, size = [self._outbox[0]], len(self._outbox[0])
        for frame in itertools.islice(self._outbox, 1, None):
            size += len(frame)
            if size > WRITE_SIZE:
                break
            frames.append(frame)
        return frames
