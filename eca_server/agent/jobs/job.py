"""One job: a shell command that runs in a task of its own until it ends or is killed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import attrs
import trio

from eca_protocol.process import Child
from eca_server.agent.jobs.output import JobOutput, Page, Stream
from eca_server.agent.jobs.shell import RunningShell

_log = logging.getLogger("eca_server.agent.jobs")

_FLOOD_CHUNK = 32 * 1024  # bytes; only a job that writes faster than we read fills such a chunk
_PAUSE = 0.005  # seconds

Status: TypeAlias = Literal["running", "completed", "failed", "killed"]


@attrs.define(eq=False, kw_only=True)
class Job:
    """A command in the background.

    Args:
        flood_lock: shared by all jobs; jobs that write at full speed pause under it one after the
            other, so that together they write about 10 MB a second.
        cleanup: cleans up after its end; the returned text is added to the output.

    Attributes:
        id: `job-1`, `job-2`, and so on.
        status: its status; `killed` from the call of `kill` on.
        exit_code: as a shell reports it (128 plus a signal's number), None after `kill`.
        started_at: the wall clock time of its start.
        ended: set when none of its processes runs any more.
        survived: true if its processes could not be killed.
        is_end_reported: true if its chat's model knows that it has ended, or need not know.
    """

    _child: Child
    _flood_lock: trio.Lock
    id: str
    command: str
    name: str
    chat_id: str
    call_id: str | None = None
    _cleanup: Callable[[], Awaitable[str]] | None = None
    status: Status = attrs.field(init=False, default="running")
    exit_code: int | None = attrs.field(init=False, default=None)
    started_at: datetime = attrs.field(init=False, factory=lambda: datetime.now(UTC))
    output: JobOutput = attrs.field(init=False, factory=JobOutput)
    ended: trio.Event = attrs.field(init=False, factory=trio.Event)
    survived: bool = attrs.field(init=False, default=False)
    is_end_reported: bool = attrs.field(init=False, default=False)
    _scope: trio.CancelScope = attrs.field(init=False, factory=trio.CancelScope)
    _started: float = attrs.field(init=False, factory=trio.current_time)
    _ended_at: float | None = attrs.field(init=False, default=None)
    _offsets: dict[str, int] = attrs.field(init=False, factory=dict)

    async def run(self) -> None:
        """Read its output to the end; if cancelled, kill it, which takes about a second at most."""
        shell = RunningShell(self._child, self._on_output)
        try:
            try:
                with self._scope:
                    await shell.read_to_end()
            finally:
                await shell.end()
                await self._clear_up()
        except Exception:  # noqa: BLE001 - an error ends this job only
            _log.exception("the job %s cannot be read", self.id)
        finally:
            self._finish(shell.returncode)

    async def _clear_up(self) -> None:
        if self._cleanup is not None:
            with trio.CancelScope(shield=True):
                message = await self._cleanup()
            if message:
                self.output.write("stderr", f"{message}\n".encode())

    def kill(self) -> bool:
        """Start to kill it; return False if it does not run. `ended` is set when it has ended."""
        if self.status != "running":
            return False
        self.status = "killed"
        self._scope.cancel()
        return True

    @property
    def elapsed(self) -> str:
        """The duration so far, or in all, for people: `7s`, `5m23s`, `2h5m`."""
        until = trio.current_time() if self._ended_at is None else self._ended_at
        minutes, seconds = divmod(int(until - self._started), 60)
        hours, minutes = divmod(minutes, 60)
        if hours:
            return f"{hours}h{minutes}m"
        return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"

    def next_page(self, reader: str, *, lines: int, size: int) -> Page:
        """Return the output since this reader's last page, within limits; see `JobOutput.page`."""
        page = self.output.page(self._offsets.get(reader, 0), lines=lines, size=size)
        self._offsets[reader] = page.end
        return page

    def forget_reader(self, reader: str) -> None:
        """Forget the position of a reader."""
        self._offsets.pop(reader, None)

    async def _on_output(self, stream: Stream, data: bytes) -> None:
        self.output.write(stream, data)
        if len(data) >= _FLOOD_CHUNK:
            async with self._flood_lock:
                await trio.sleep(_PAUSE)

    def _finish(self, returncode: int | None) -> None:
        self.output.finish()
        self.survived = returncode is None
        if self.status == "running":
            self.status = "completed" if returncode == 0 else "failed"
            if returncode is not None:
                self.exit_code = returncode if returncode >= 0 else 128 - returncode
        self._ended_at = trio.current_time()
        self.ended.set()
