"""One running server, and everything that passes between it and the suite.

The rule it keeps: what is written and read is recorded as it passed, judged by a watcher, and shown
to each seat that it concerns; nothing is decoded leniently on the way.
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
from eca_protocol.testing.conformance.cases import Died, Stuck
from eca_protocol.testing.conformance.seen import Seen
from eca_protocol.testing.conformance.target import Folders, Target
from eca_protocol.testing.conformance.verdicts import Exchanged
from eca_protocol.testing.watching import Observation, Watcher
from eca_protocol.transcript import Side
from eca_protocol.transcript.splitter import Splitter, message_in

__all__ = ["MOST_SAID", "Heard", "Listener", "Recorded", "Wire", "id_key"]

MOST_SAID: Final = 256 * 1024 * 1024
"""Bytes that one side may write in all: the record keeps them."""

_LAST_LINES: Final = 16_384  # bytes of its stderr that are kept
_LEAVE_SECONDS: Final = 3.0
_LADDER: Final = GracePeriods(after_stdin=1.0, after_term=1.0, after_kill=2.0)


@attrs.frozen(kw_only=True)
class Heard:
    """A message that the server wrote.

    Attributes:
        message: as it came.
        at: seconds since the server was started.
        index: its place among all that both sides wrote.
    """

    message: Mapping[str, Any]
    at: float
    index: int

    @property
    def method(self) -> str:
        """Its method; empty for an answer."""
        method = self.message.get("method", "")
        return method if isinstance(method, str) else ""

    @property
    def params(self) -> Mapping[str, Any]:
        """Its params; empty if it has none."""
        params = self.message.get("params")
        return params if isinstance(params, Mapping) else {}

    @property
    def chat_id(self) -> str:
        """The chat that it is about; empty if about none."""
        named = self.params.get("chatId")
        return named if isinstance(named, str) else ""

    @property
    def content(self) -> Mapping[str, Any]:
        """The content of a `chat/contentReceived`; of anything else, nothing."""
        content = self.params.get("content")
        return content if isinstance(content, Mapping) else {}


@attrs.frozen(kw_only=True)
class Recorded:
    """What passed, for the exchange of a finding."""

    at: float
    side: Side
    data: bytes
    chat_id: str
    answers: str | None

    @property
    def exchanged(self) -> Exchanged:
        """As a finding shows it."""
        other: Side = "server" if self.side == "client" else "client"
        return Exchanged.of(self.at, self.side, other, self.data)


def id_key(id_: object) -> str:
    """An id as answers are found by it; that 1 must not come back as "1" is judged elsewhere."""
    return id_ if isinstance(id_, str) else json.dumps(id_).decode()


class Listener(Protocol):
    """Whoever is told of what the server says."""

    def hear(self, heard: Heard) -> None:
        """Take a message."""


class Wire:
    """A server that runs, until `stop` or its own end.

    Attributes:
        folders: its own.
        case: the case that has it alone; empty where several share it.
        record: what both sides wrote, in order.
        heard: the server's messages among it.
        seats: told of each message as it comes.
        chat_owners: the seat of each chat that one has claimed.
        id_owners: the seat of each request, by its id as JSON.
        replies: what the server's own requests are answered, by method; a method that is not
            there is refused with -32601, and what is None is left to a case.
        pid: its process, None inside the suite.
        exit_code: None while it runs; negative for a signal.
        reading: clear it to read no more for a while.
    """

    def __init__(self, target: Target, folders: Folders, url: str, config: Mapping[str, Any]):
        self._target = target
        self._url = url
        self._config = config
        self.folders = folders
        self.case = ""
        self.record: list[Recorded] = []
        self._observations: list[Observation] = []
        self.heard: list[Heard] = []
        self.seats: list[Listener] = []
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
        self._cut = {"client": Splitter(), "server": Splitter()}
        self._watcher = Watcher()
        self._seen = Seen()

    def take_observations(self) -> list[Observation]:
        """What of the record breaks a row, as the watcher saw it since the last time."""
        taken, self._observations = self._observations, []
        return taken

    @property
    def seen(self) -> frozenset[str]:
        """The rows of the fields and values that have passed."""
        return frozenset(self._seen.rows)

    @property
    def now(self) -> float:
        """Seconds since it was started."""
        return anyio.current_time() - self.began

    @property
    def errors(self) -> str:
        """The last of what it wrote to stderr."""
        return self._errors.decode("utf-8", "replace")

    @property
    def alive(self) -> bool:
        """Whether it runs and may still say something."""
        return self.exit_code is None and not self.output_ended

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Start it, and serve it until it is stopped; nothing that it started is left.

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
        """End it; `gone` is set when it has ended."""
        self._scope.cancel()

    def next_id(self) -> int:
        """An id for a request that no other one has."""
        return next(self._ids)

    async def write(self, data: bytes) -> None:
        """Write bytes as they are, and wait until they have gone.

        Raises:
            Stuck: the server takes no more.
            Died: it has ended.
        """
        if self._closes_input or self.gone.is_set():
            raise Died("a server that reads", self._obituary())
        for piece, body in self._cut["client"].feed(data):
            self._note("client", piece, body)
        mine = self._queue(data)
        await self.until(lambda: self._sent >= mine, seconds=20, expected="a server that reads")

    def _queue(self, data: bytes) -> int:
        """Put it behind what waits to be written; its number."""
        self._outgoing.append(data)
        self._wake()
        return self._sent + len(self._outgoing)

    def close_input(self) -> None:
        """Let it see the end of its input, after what is still to be written."""
        for piece, body in self._cut["client"].feed_eof():
            self._note("client", piece, body)
        self._observations += self._watcher.feed_end("client")
        self._closes_input = True
        self._wake()

    def close_output(self) -> None:
        """Read nothing more: the process learns it when it writes."""
        if self._child is not None:
            self._child.close_stdout()

    async def leave(self) -> None:
        """Shut it down in order; what it still owes then is a breach."""
        asked = self.next_id()
        message = {"jsonrpc": "2.0", "id": asked, "method": "shutdown"}

        def is_answered() -> bool:
            return any(not each.method and each.message.get("id") == asked for each in self.heard)

        with contextlib.suppress(Stuck), anyio.move_on_after(_LEAVE_SECONDS):
            await self.write(encode_frame(json.dumps(message)))
            await self.until(is_answered, seconds=_LEAVE_SECONDS, expected="an answer to shutdown")
            await self.write(encode_frame(json.dumps({"jsonrpc": "2.0", "method": "exit"})))
        self._observations += self._watcher.finish()

    def send_signal(self, number: int) -> None:
        """Send the process a signal; inside the suite there is none."""
        if self._child is not None and self._child.returncode is None:
            os.kill(self._child.pid, number)

    async def until(
        self, condition: Callable[[], object], *, seconds: float, expected: str
    ) -> None:
        """Wait until that is so; it is looked at whenever something has happened.

        Raises:
            Stuck: it was not so in time, or the server has ended and it can never be.
        """
        with anyio.move_on_after(seconds):
            while not condition():
                if self.gone.is_set():
                    raise Died(expected, self._obituary())
                await self.changed.wait()
            return
        raise Stuck(expected, f"nothing of the kind in {seconds:g} s")

    async def wait_for_exit(self, seconds: float) -> int | None:
        """The exit code, None if it still runs by then."""
        with anyio.move_on_after(seconds):
            while self.exit_code is None:
                await self.changed.wait()
        return self.exit_code

    def _obituary(self) -> str:
        if self._received > MOST_SAID:
            return f"more than {MOST_SAID:,} bytes in all, and so it was ended"
        return f"its end with exit code {self.exit_code}"

    def _wake(self) -> None:
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    async def _run_process(self, target: Target, task_status: anyio.abc.TaskStatus[None]) -> None:
        command, env = target.prepare(self.folders, self._url, self._config)
        child = spawn(command, cwd=target.cwd, env=env, stderr="pipe")
        self._child, self.pid, self._transport = child, child.pid, child.transport
        self._end_of_input = child.close_stdin
        errors = child.take_stderr()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._read_errors, errors)
                with self._scope:
                    task_status.started()
                    async with anyio.create_task_group() as moving:
                        moving.start_soon(self._read)
                        moving.start_soon(self._write)
                        await child.wait()
                        self._ended(child.returncode)
                        await self._until_the_output_ends()
                        moving.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    self._ended(await child.end(_LADDER))
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await child.end(_LADDER)
                await errors.aclose()

    async def _until_the_output_ends(self) -> None:
        """A process that has ended leaves what it wrote last; a grandchild may hold the pipe."""
        with anyio.move_on_after(1.0):
            while not self.output_ended:
                await self.changed.wait()

    async def _run_inside(self, target: Target, task_status: anyio.abc.TaskStatus[None]) -> None:
        assert target.serve is not None
        ours, theirs = memory_pair()
        self._transport, self._end_of_input = ours, ours.close_writing
        with self._scope:
            task_status.started()
            async with anyio.create_task_group() as moving:
                moving.start_soon(self._read)
                moving.start_soon(self._write)
                config = target.configuration(self._url, self._config)
                try:
                    code = await target.serve(theirs, config)
                except Exception:  # noqa: BLE001 - as a process it would have crashed
                    code, self._errors = 1, traceback.format_exc().encode()
                theirs.close_writing()
                self._ended(code)
                await self._until_the_output_ends()
                moving.cancel_scope.cancel()

    def _ended(self, code: int | None) -> None:
        if self.exit_code is None:
            self.exit_code = code
        self._wake()

    async def _read(self) -> None:
        while True:
            while not self.reading:
                await self.changed.wait()
            data = await self._transport.receive()
            pieces = self._cut["server"].feed(data) if data else self._cut["server"].feed_eof()
            for piece, body in pieces:
                self._note("server", piece, body)
            if not data:
                break
            self._received += len(data)
            if self._received > MOST_SAID:
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
            self._errors = (self._errors + data)[-_LAST_LINES:]

    def _note(self, side: Side, data: bytes, body: bytes | None) -> None:
        """Take what has passed, whole; with a byte order mark it is still understood."""
        if body is None and codecs.BOM_UTF8 in data:
            body = data.partition(codecs.BOM_UTF8)[2]
        message = None if body is None else message_in(body)
        heard = Heard(message=message or {}, at=self.now, index=len(self.record))
        answers = None if heard.method or not message else id_key(message.get("id"))
        self.record.append(
            Recorded(at=heard.at, side=side, data=data, chat_id=heard.chat_id, answers=answers)
        )
        self._watch(side, data, body, heard)
        if message is not None:
            self._seen.take(side, message, id_key(message.get("id")))
        if side == "client" or message is None:
            return
        self.heard.append(heard)
        for seat in tuple(self.seats):
            seat.hear(heard)
        if heard.method and "id" in message:
            self._reply(heard)
        self._wake()

    def _watch(self, side: Side, data: bytes, body: bytes | None, heard: Heard) -> None:
        if body is not None and heard.message and data == encode_frame(body):
            self._observations += self._watcher.feed(side, heard.message, at=heard.at)
        else:
            self._observations += self._watcher.feed_raw(side, data, at=heard.at)

    def _reply(self, request: Heard) -> None:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request.message["id"]}
        if request.method not in self.replies:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        elif self.replies[request.method] is None:
            return
        else:
            answer["result"] = self.replies[request.method]
        data = encode_frame(json.dumps(answer))
        for piece, body in self._cut["client"].feed(data):
            self._note("client", piece, body)
        self._queue(data)
