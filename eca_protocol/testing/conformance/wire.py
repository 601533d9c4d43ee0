"""A running server, and all bytes between it and the suite.

All bytes are recorded as they pass, judged by a watcher, and delivered to each session that they
concern; nothing is decoded leniently.
"""

from __future__ import annotations

import codecs
import contextlib
import itertools
import os
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import anyio
import anyio.abc
import attrs

from eca_protocol import json
from eca_protocol.framing import encode_frame
from eca_protocol.process import Child, GracePeriods, spawn
from eca_protocol.streams import FdTransport, Transport, memory_pair
from eca_protocol.testing.conformance.cases import ServerExited, Unmet
from eca_protocol.testing.conformance.observed_fields import ObservedFields
from eca_protocol.testing.conformance.target import Directories, Target
from eca_protocol.testing.conformance.verdicts import Transmission
from eca_protocol.testing.watching import Observation, Watcher
from eca_protocol.transcript import Side
from eca_protocol.transcript.splitter import Splitter, message_in

__all__ = ["MAX_OUTPUT_BYTES", "Listener", "ReceivedMessage", "RecordEntry", "Wire", "id_key"]

MAX_OUTPUT_BYTES: Final = 256 * 1024 * 1024
"""The limit of one side's bytes, all of which are recorded."""

_STDERR_BYTES: Final = 16_384  # bytes of stderr that are stored
_SHUTDOWN_SECONDS: Final = 3.0
_GRACE_PERIODS: Final = GracePeriods(after_stdin=1.0, after_term=1.0, after_kill=2.0)


@attrs.frozen(kw_only=True)
class ReceivedMessage:
    """A message that the server wrote.

    Attributes:
        message: the message.
        at: seconds since the server was started.
        index: its position in the record.
    """

    message: Mapping[str, Any]
    at: float
    index: int

    @property
    def method(self) -> str:
        """The method; empty for an answer."""
        method = self.message.get("method", "")
        return method if isinstance(method, str) else ""

    @property
    def params(self) -> Mapping[str, Any]:
        """The params; empty if there are none."""
        params = self.message.get("params")
        return params if isinstance(params, Mapping) else {}

    @property
    def chat_id(self) -> str:
        """The chat's id; empty if it names none."""
        named = self.params.get("chatId")
        return named if isinstance(named, str) else ""

    @property
    def content(self) -> Mapping[str, Any]:
        """The content of a `chat/contentReceived`; else empty."""
        content = self.params.get("content")
        return content if isinstance(content, Mapping) else {}


@attrs.frozen(kw_only=True)
class RecordEntry:
    """Bytes of either side, for the exchange of a finding."""

    at: float
    side: Side
    data: bytes
    chat_id: str
    answered_id: str | None

    @property
    def transmission(self) -> Transmission:
        """The entry as a finding shows it."""
        receiver: Side = "server" if self.side == "client" else "client"
        return Transmission.of(self.at, self.side, receiver, self.data)


def id_key(id_: object) -> str:
    """Return the key of an id; 1 and "1" share it, since another check compares types."""
    return id_ if isinstance(id_, str) else json.dumps(id_).decode()


class Listener(Protocol):
    """A receiver of the server's messages."""

    def receive(self, received: ReceivedMessage) -> None:
        """Take a message."""


class Wire:
    """A running server, until `stop` or its own end.

    Attributes:
        directories: its own directories.
        case: the case that has it alone; empty for a shared server.
        record: the bytes of both sides, in order.
        messages: the server's messages in it.
        sessions: receive each message.
        chat_owners: the session of each claimed chat.
        id_owners: the session of each request, by its id as JSON.
        replies: the results for the server's requests, by method; other methods are refused with
            -32601, and a case answers those with None.
        pid: its process id; None inside the suite.
        exit_code: None while it runs; negative for a signal.
        reading: False pauses reading.
    """

    def __init__(
        self, target: Target, directories: Directories, url: str, config: Mapping[str, Any]
    ):
        self._target = target
        self._url = url
        self._config = config
        self.directories = directories
        self.case = ""
        self.record: list[RecordEntry] = []
        self._observations: list[Observation] = []
        self.messages: list[ReceivedMessage] = []
        self.sessions: list[Listener] = []
        self.chat_owners: dict[str, Listener] = {}
        self.id_owners: dict[str, Listener] = {}
        self.replies: dict[str, Any] = {}
        self.pid: int | None = None
        self.exit_code: int | None = None
        self.output_ended = False
        self.reading = True
        self.changed = anyio.Event()
        self.gone = anyio.Event()
        self.began = 0.0
        self._child: Child | None = None
        self._transport: Transport
        self._end_of_input: Callable[[], None]
        self._ids = itertools.count(1)
        self._outgoing: deque[bytes] = deque()
        self._sent = 0
        self._received = 0
        self._errors = b""
        self._scope = anyio.CancelScope()
        self._closes_input = False
        self._splitters = {"client": Splitter(), "server": Splitter()}
        self._watcher = Watcher()
        self._observed_fields = ObservedFields()

    def take_observations(self) -> list[Observation]:
        """Return the watcher's new observations."""
        observations, self._observations = self._observations, []
        return observations

    @property
    def observed_rows(self) -> frozenset[str]:
        """The rows of the fields and values that occurred."""
        return frozenset(self._observed_fields.rows)

    @property
    def now(self) -> float:
        """Seconds since its start."""
        return anyio.current_time() - self.began

    @property
    def errors(self) -> str:
        """The end of its stderr."""
        return self._errors.decode("utf-8", "replace")

    @property
    def alive(self) -> bool:
        """True while it runs and may still write."""
        return self.exit_code is None and not self.output_ended

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Start the server and serve it until `stop`; no process is left.

        Raises:
            StartFailed: it cannot be started.
        """
        self.began = anyio.current_time()
        try:
            if self._target.serve is not None:
                await self._run_inside(self._target, task_status)
            else:
                await self._run_process(self._target, task_status)
        finally:
            self.output_ended = True
            self.gone.set()
            self._wake()

    def stop(self) -> None:
        """End the server; `gone` is set when it has ended."""
        self._scope.cancel()

    def next_id(self) -> int:
        """Return a new request id."""
        return next(self._ids)

    async def write(self, data: bytes) -> None:
        """Write bytes, and wait until they are written.

        Raises:
            Unmet: the server does not read.
            ServerExited: it has ended.
        """
        if self._closes_input or self.gone.is_set():
            raise ServerExited("a server that reads", self._exit_description())
        for piece, body in self._splitters["client"].feed(data):
            self._add_record("client", piece, body)
        number = self._queue(data)
        await self.until(lambda: self._sent >= number, seconds=20, expected="a server that reads")

    def _queue(self, data: bytes) -> int:
        """Append bytes to the output; return their number."""
        self._outgoing.append(data)
        self._wake()
        return self._sent + len(self._outgoing)

    def close_input(self) -> None:
        """Close the server's input after the queued bytes."""
        for piece, body in self._splitters["client"].feed_eof():
            self._add_record("client", piece, body)
        self._observations += self._watcher.feed_end("client")
        self._closes_input = True
        self._wake()

    def close_output(self) -> None:
        """Stop reading; the process notices when it writes."""
        if self._child is not None:
            self._child.close_stdout()

    async def shut_down(self) -> None:
        """Shut the server down in order; unfinished turns are breaches."""
        request_id = self.next_id()
        message = {"jsonrpc": "2.0", "id": request_id, "method": "shutdown"}

        def is_answered() -> bool:
            return any(
                not each.method and each.message.get("id") == request_id for each in self.messages
            )

        with contextlib.suppress(Unmet), anyio.move_on_after(_SHUTDOWN_SECONDS):
            await self.write(encode_frame(json.dumps(message)))
            await self.until(
                is_answered, seconds=_SHUTDOWN_SECONDS, expected="an answer to shutdown"
            )
            await self.write(encode_frame(json.dumps({"jsonrpc": "2.0", "method": "exit"})))
        self._observations += self._watcher.finish()

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, if there is one."""
        if self._child is not None and self._child.returncode is None:
            os.kill(self._child.pid, number)

    async def until(
        self, condition: Callable[[], object], *, seconds: float, expected: str
    ) -> None:
        """Wait until a condition holds; it is checked at each event.

        Raises:
            Unmet: the time is over.
            ServerExited: the server has ended.
        """
        with anyio.move_on_after(seconds):
            while not condition():
                if self.gone.is_set():
                    raise ServerExited(expected, self._exit_description())
                await self.changed.wait()
            return
        raise Unmet(expected, f"none within {seconds:g} s")

    async def wait_for_exit(self, seconds: float) -> int | None:
        """Return the exit code, or None if the server still runs."""
        with anyio.move_on_after(seconds):
            while self.exit_code is None:
                await self.changed.wait()
        return self.exit_code

    def _exit_description(self) -> str:
        if self._received > MAX_OUTPUT_BYTES:
            return f"more than {MAX_OUTPUT_BYTES:,} bytes in all: it was ended"
        return f"the end of the server with exit code {self.exit_code}"

    def _wake(self) -> None:
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    async def _run_process(self, target: Target, task_status: anyio.abc.TaskStatus[None]) -> None:
        command, env = target.prepare(self.directories, self._url, self._config)
        child = spawn(command, cwd=target.cwd, env=env, stderr="pipe")
        self._child, self.pid, self._transport = child, child.pid, child.transport
        self._end_of_input = child.close_stdin
        errors = child.take_stderr()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._read_errors, errors)
                with self._scope:
                    task_status.started()
                    async with anyio.create_task_group() as transfers:
                        transfers.start_soon(self._read)
                        transfers.start_soon(self._write)
                        await child.wait()
                        self._ended(child.returncode)
                        await self._until_the_output_ends()
                        transfers.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    self._ended(await child.end(_GRACE_PERIODS))
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await child.end(_GRACE_PERIODS)
                await errors.aclose()

    async def _until_the_output_ends(self) -> None:
        """Read the last output of an ended process; a grandchild may hold the pipe open."""
        with anyio.move_on_after(1.0):
            while not self.output_ended:
                await self.changed.wait()

    async def _run_inside(self, target: Target, task_status: anyio.abc.TaskStatus[None]) -> None:
        assert target.serve is not None
        ours, theirs = memory_pair()
        self._transport, self._end_of_input = ours, ours.close_writing
        with self._scope:
            task_status.started()
            async with anyio.create_task_group() as transfers:
                transfers.start_soon(self._read)
                transfers.start_soon(self._write)
                config = target.configuration(self._url, self._config)
                try:
                    code = await target.serve(theirs, config)
                except Exception:  # noqa: BLE001 - a process would have crashed
                    code, self._errors = 1, traceback.format_exc().encode()
                theirs.close_writing()
                self._ended(code)
                await self._until_the_output_ends()
                transfers.cancel_scope.cancel()

    def _ended(self, code: int | None) -> None:
        if self.exit_code is None:
            self.exit_code = code
        self._wake()

    async def _read(self) -> None:
        while True:
            while not self.reading:
                await self.changed.wait()
            data = await self._transport.receive()
            pieces = (
                self._splitters["server"].feed(data)
                if data
                else self._splitters["server"].feed_eof()
            )
            for piece, body in pieces:
                self._add_record("server", piece, body)
            if not data:
                break
            self._received += len(data)
            if self._received > MAX_OUTPUT_BYTES:
                self.stop()
        self._observations += self._watcher.feed_end("server")
        self.output_ended = True
        self._wake()

    async def _write(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                while not self._outgoing and not self._closes_input:
                    await self.changed.wait()
                if not self._outgoing:
                    break
                await self._transport.send(self._outgoing[0])
                self._outgoing.popleft()
                self._sent += 1
                self._wake()
            self._end_of_input()
            return
        self._closes_input = True
        self._outgoing.clear()
        self._wake()

    async def _read_errors(self, errors: FdTransport) -> None:
        while data := await errors.receive():
            self._errors = (self._errors + data)[-_STDERR_BYTES:]

    def _add_record(self, side: Side, data: bytes, body: bytes | None) -> None:
        """Take what has passed, whole; with a byte order mark it is still understood."""
        if body is None and codecs.BOM_UTF8 in data:
            body = data.partition(codecs.BOM_UTF8)[2]
        message = None if body is None else message_in(body)
        received = ReceivedMessage(message=message or {}, at=self.now, index=len(self.record))
        answered_id = None if received.method or not message else id_key(message.get("id"))
        self.record.append(
            RecordEntry(
                at=received.at,
                side=side,
                data=data,
                chat_id=received.chat_id,
                answered_id=answered_id,
            )
        )
        self._watch(side, data, body, received)
        if message is not None:
            self._observed_fields.take(side, message, id_key(message.get("id")))
        if side == "client" or message is None:
            return
        self.messages.append(received)
        for session in tuple(self.sessions):
            session.receive(received)
        if received.method and "id" in message:
            self._reply(received)
        self._wake()

    def _watch(
        self, side: Side, data: bytes, body: bytes | None, received: ReceivedMessage
    ) -> None:
        if body is not None and received.message and data == encode_frame(body):
            self._observations += self._watcher.feed(side, received.message, at=received.at)
        else:
            self._observations += self._watcher.feed_raw(side, data, at=received.at)

    def _reply(self, request: ReceivedMessage) -> None:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request.message["id"]}
        if request.method not in self.replies:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        elif self.replies[request.method] is None:
            return
        else:
            answer["result"] = self.replies[request.method]
        data = encode_frame(json.dumps(answer))
        for piece, body in self._splitters["client"].feed(data):
            self._add_record("client", piece, body)
        self._queue(data)
