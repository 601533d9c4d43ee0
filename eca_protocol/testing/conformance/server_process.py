"""The process of a server under test, or the server inside the suite, and its streams."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

import anyio
import anyio.abc
import attrs

from eca_protocol.process import Child, GracePeriods, spawn
from eca_protocol.streams import FdTransport, Transport, memory_pair
from eca_protocol.testing.conformance.target import Directories, Serve, Target
from eca_protocol.testing.conformance.verdicts import (
    OUT_OF_STEP,
    OutOfStep,
    ServerExited,
    Unmet,
)

_STDERR_BYTES: Final = 16_384  # bytes of stderr that are stored
_GRACE_PERIODS: Final = GracePeriods(after_stdin=1.0, after_term=1.0, after_kill=2.0)
_CANCELLED_GRACE_PERIODS: Final = GracePeriods(after_stdin=0.3, after_term=0.3, after_kill=2.0)
_EXIT_SECONDS: Final = 1.0
"""The time between the end of a process's output and its exit, at most."""


@attrs.define
class _Streams:
    """The streams of a server that end before it does.

    Attributes:
        closes_input: whether nothing more is written to it.
        is_input_lost: whether it has closed its input.
        is_silent: whether it runs without an output.
        closed: the stream that it had closed when it was stopped; empty: none.
    """

    closes_input: bool = False
    is_input_lost: bool = False
    is_silent: bool = False
    closed: Literal["", "input", "output"] = ""

    async def note_closed(self, child: Child, *, has_output: bool) -> None:
        """Note which stream a running server has closed; one that ends closes both first."""
        if self.is_input_lost or not has_output:
            with anyio.move_on_after(_EXIT_SECONDS):
                await child.wait()
                return
            self.closed = "input" if has_output else "output"


class ServerProcess:
    """A server, until `stop` or its own end.

    Attributes:
        exit_code: None while it runs; negative for a signal.
        output_ended: whether it has closed its output.
        reading: False pauses reading.
        changed: is set, and replaced, at each event.
        gone: is set when it has ended.
        start_seconds: additional time for what is expected before its first output.
    """

    def __init__(
        self,
        target: Target,
        directories: Directories,
        url: str,
        config: Mapping[str, Any],
        *,
        on_output: Callable[[bytes], None],
    ) -> None:
        """Prepare a server; `on_output` is called with each part of its output, at last with none.

        `url` is the base URL of its model, whose configuration `config` is merged into.
        """
        self.exit_code: int | None = None
        self.output_ended: bool = False
        self.reading = True
        self.start_seconds = 0.0
        self.changed: anyio.Event = anyio.Event()
        self.gone: anyio.Event = anyio.Event()
        self._target = target
        self._arguments = directories, url, config
        self._on_output = on_output
        self._child: Child | None = None
        self._transport: Transport
        self._end_of_input: Callable[[], None]
        self._outgoing: deque[bytes] = deque()
        self._sent = 0
        self._has_output = False
        self._excess = ""
        self._errors = b""
        self._scope = anyio.CancelScope()
        self._streams = _Streams()
        self._is_out_of_step = False

    @property
    def pid(self) -> int | None:
        """The process id; None inside the suite."""
        return None if self._child is None else self._child.pid

    @property
    def may_write(self) -> bool:
        """True while it runs, has closed neither its input nor its output, and is in step."""
        is_closed = self.output_ended or self._streams.closes_input or self._is_out_of_step
        return self.exit_code is None and not is_closed

    @property
    def errors(self) -> str:
        """The end of its stderr."""
        return self._errors.decode("utf-8", "replace")

    @property
    def end_description(self) -> str:
        """The way in which it ended, for people."""
        if self._excess:
            return f"more than {self._excess} in all: it was ended"
        if self._streams.closed or self.exit_code is None:
            stream = self._streams.closed or ("output" if self.output_ended else "input")
            return f"a server that runs and has closed its {stream}"
        return f"the end of the server with exit code {self.exit_code}"

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Start the server and serve it until `stop`; no process is left.

        Raises:
            StartFailed: it cannot be started.
        """
        try:
            if self._target.serve is not None:
                await self._run_inside(self._target.serve, task_status)
            else:
                await self._run_process(task_status)
        finally:
            self.output_ended = True
            self.gone.set()
            self._wake()

    def stop(self, *, is_out_of_step: bool = False, excess: str = "") -> None:
        """End the server; `gone` is set when it has ended.

        Args:
            is_out_of_step: whether its messages can no longer be distinguished.
            excess: the limit that its output exceeds.
        """
        self._excess = self._excess or excess
        if is_out_of_step:
            self._is_out_of_step = True
            self._wake()
        self._scope.cancel()

    def require_input(self) -> None:
        """Check that bytes can be written.

        Raises:
            ServerExited: it has ended, or its input is closed.
            OutOfStep: its messages can no longer be distinguished.
        """
        self._require_step("a server that reads")
        if self._streams.closes_input or self.gone.is_set():
            raise ServerExited("a server that reads", self.end_description, self.errors)

    def _require_step(self, expected: str) -> None:
        if self._is_out_of_step:
            raise OutOfStep(expected, OUT_OF_STEP)

    async def write(self, data: bytes) -> None:
        """Write bytes, and wait until they are written.

        Raises:
            Unmet: the server does not read.
            ServerExited: it has ended.
        """
        number = self.queue(data)
        await self.until(
            lambda: self._sent >= number, seconds=20, expected="a server that reads its input"
        )

    def queue(self, data: bytes) -> int:
        """Append bytes to its input; return their number."""
        self._outgoing.append(data)
        self._wake()
        return self._sent + len(self._outgoing)

    def close_input(self) -> None:
        """Close its input after the queued bytes."""
        self._streams.closes_input = True
        self._wake()

    def close_output(self) -> None:
        """Stop reading; the process notices when it writes."""
        if self._child is not None:
            self._child.close_stdout()

    def signal(self, number: int) -> None:
        """Send a signal to the process, if there is one."""
        if self._child is not None and self._child.returncode is None:
            os.kill(self._child.pid, number)

    async def until(
        self, condition: Callable[[], object], *, seconds: float, expected: str
    ) -> None:
        """Wait until a condition holds; it is checked at each event.

        Raises:
            Unmet: the time is over.
            ServerExited: the server has ended, or runs without an output.
            OutOfStep: its messages can no longer be distinguished.
        """
        with anyio.move_on_after(seconds + (0 if self._has_output else self.start_seconds)):
            while not condition():
                self._require_step(expected)
                if self.gone.is_set() or self._streams.is_silent:
                    raise ServerExited(expected, self.end_description, self.errors)
                await self.changed.wait()
            return
        raise Unmet(expected, f"none within {seconds:g} s")

    async def wait_for_exit(self, seconds: float) -> int | None:
        """Return the exit code, or None if the server still runs."""
        with anyio.move_on_after(seconds):
            while self.exit_code is None:
                await self.changed.wait()
        return self.exit_code

    def _wake(self) -> None:
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    async def _run_process(self, task_status: anyio.abc.TaskStatus[None]) -> None:
        command, env = self._target.prepare(*self._arguments)
        child = spawn(command, cwd=self._target.cwd, env=env, stderr="pipe")
        self._child, self._transport = child, child.transport
        self._end_of_input = child.close_stdin
        errors = child.take_stderr()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._read_errors, errors)
                await self._serve_until(child.wait, task_status)
                with anyio.CancelScope(shield=True):
                    if self.exit_code is None:
                        await self._streams.note_closed(child, has_output=not self.output_ended)
                    self._ended(await child.end(_GRACE_PERIODS))
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await child.end(_CANCELLED_GRACE_PERIODS)
                await errors.aclose()

    async def _run_inside(self, serve: Serve, task_status: anyio.abc.TaskStatus[None]) -> None:
        ours, theirs = memory_pair()
        self._transport, self._end_of_input = ours, ours.close_writing

        async def run() -> int:
            try:
                return await serve(theirs, self._target.configuration(*self._arguments[1:]))
            except Exception:  # noqa: BLE001 - a process would have crashed
                self._errors = traceback.format_exc().encode()
                return 1
            finally:
                theirs.close_writing()

        await self._serve_until(run, task_status)

    async def _serve_until(
        self, end: Callable[[], Awaitable[int]], task_status: anyio.abc.TaskStatus[None]
    ) -> None:
        """Transfer bytes until `end` returns the exit code; then read the last output.

        A grandchild may hold the pipe of an ended process open.
        """
        with self._scope:
            task_status.started()
            async with anyio.create_task_group() as transfers:
                transfers.start_soon(self._read)
                transfers.start_soon(self._write)
                self._ended(await end())
                with anyio.move_on_after(1.0):
                    while not self.output_ended:
                        await self.changed.wait()
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
            self._on_output(data)
            if not data:
                break
            self._has_output = True
            self._wake()
        self.output_ended = True
        self._wake()
        await anyio.sleep(_EXIT_SECONDS)
        self._streams.is_silent = True
        self._wake()

    async def _write(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                while not self._outgoing and not self._streams.closes_input:
                    await self.changed.wait()
                if not self._outgoing:
                    break
                await self._transport.send(self._outgoing[0])
                self._outgoing.popleft()
                self._sent += 1
                self._wake()
            self._end_of_input()
            return
        self._streams.closes_input = self._streams.is_input_lost = True
        self._outgoing.clear()
        self._wake()

    async def _read_errors(self, errors: FdTransport) -> None:
        while data := await errors.receive():
            self._errors = (self._errors + data)[-_STDERR_BYTES:]
