"""The recording proxy between an editor and a server that the proxy starts.

It forwards bytes unchanged and at once, in both directions. It also forwards the end of input and
output, a closed reader, signals and the exit code. The server is a child with its own process group
and inherits stderr. It is ended by `Child.end` after `PATIENCE` seconds of silence since the end of
its input, and on cancellation.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus

from eca_protocol import platforms
from eca_protocol.process import Child, GracePeriods, spawn
from eca_protocol.streams import FdTransport, Transport
from eca_protocol.transcript.entries import Side
from eca_protocol.transcript.recorder import Recorder

PATIENCE: Final = 10.0
"""The limit of the server's silence after the end of its input or a TERM, in seconds."""

DRAINING: Final = 3.0
"""The limit of silence after the server's end, in seconds; a grandchild may hold its output."""


async def tap(
    command: Sequence[str],
    client: FdTransport,
    recorder: Recorder,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    handles_signals: bool = False,
) -> int:
    """Start a server, connect it with `client`, and record both; return its exit code.

    The client's transport and the recorder are closed at the end.

    Args:
        command: starts the server.
        client: the stream to the client; standard streams must be reserved (`owned_stdio`).
        recorder: writes the transcript.
        cwd: the server's working directory.
        env: the server's environment, in place of ours.
        handles_signals: forward TERM, INT and HUP from this process to the server.

    Raises:
        StartFailed: the command cannot be started.
    """
    try:
        child = spawn(command, cwd=cwd, env=env)
        return await _Tap(child, client, recorder).run(handles_signals=handles_signals)
    finally:
        with anyio.CancelScope(shield=True):
            await client.aclose()
            await anyio.to_thread.run_sync(recorder.close)


class _Tap:
    def __init__(self, child: Child, client: FdTransport, recorder: Recorder) -> None:
        self._child = child
        self._client = client
        self._recorder = recorder
        self._waiting = anyio.CancelScope()
        self._seconds = math.inf
        self._held_up: set[Side] = set()
        self._server_ended = anyio.Event()

    async def run(self, *, handles_signals: bool) -> int:
        """Forward all bytes until the server has ended; return its exit code."""
        try:
            async with anyio.create_task_group() as tasks:
                if handles_signals:
                    await tasks.start(self._pass_signals)
                tasks.start_soon(self._pass_client)
                tasks.start_soon(self._pass_server)
                with self._waiting:
                    await self._child.wait()
                if self._child.returncode is None:
                    await self._child.end(GracePeriods(after_stdin=0.0), drains=False)
                self._waiting = anyio.CancelScope()
                self._allow(DRAINING)
                with self._waiting:
                    await self._server_ended.wait()
                tasks.cancel_scope.cancel()
        finally:
            code = await self._child.end()
            code = -platforms.KILL if code is None else code
            self._recorder.record_exit(code)
        return code

    async def _pass_client(self) -> None:
        await self._pass("client", self._client, self._child.transport, self._child.send_now)
        self._client.close_reading()
        self._child.close_stdin()
        self._let_it_leave()

    async def _pass_server(self) -> None:
        await self._pass("server", self._child.transport, self._client, self._client.send_now)
        self._child.close_stdout()
        self._client.close_writing()
        self._server_ended.set()

    async def _pass(
        self, side: Side, source: Transport, sink: Transport, send_now: Callable[[bytes], int]
    ) -> None:
        """Forward the stream of a side until it ends or its reader has closed."""
        with contextlib.suppress(OSError):
            while data := await source.receive():
                self._recorder.record_data(side, data)
                self._recorder.wake()
                rest = data[send_now(data) :]
                if rest or self._recorder.is_behind:
                    await self._pass_slowly(side, rest, sink)
                self._allow(self._seconds)
            self._recorder.record_end(side)

    async def _pass_slowly(self, side: Side, rest: bytes, sink: Transport) -> None:
        """Wait for a slow reader or disk; the writer does not count as silent meanwhile."""
        self._held_up.add(side)
        self._allow(self._seconds)
        try:
            await sink.send(rest)
            await self._recorder.drain()
        finally:
            self._held_up.discard(side)

    async def _pass_signals(self, *, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(*platforms.ENDING_SIGNALS) as signals:
            task_status.started()
            async for number in signals:
                with contextlib.suppress(ProcessLookupError):
                    if self._child.returncode is None:
                        os.kill(self._child.pid, number)
                if number == signal.SIGTERM:
                    self._let_it_leave()

    def _let_it_leave(self) -> None:
        if self._child.returncode is None:
            self._allow(PATIENCE)

    def _allow(self, seconds: float) -> None:
        """Limit the silence from now on, and after each later message."""
        self._seconds = seconds
        if seconds < math.inf:
            seconds = max(seconds, PATIENCE) if self._held_up else seconds
            self._waiting.deadline = anyio.current_time() + seconds
