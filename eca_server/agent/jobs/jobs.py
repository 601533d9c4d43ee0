"""The jobs of a connection: shell commands that run in tasks of their own, and their limits."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import attrs
import trio

from eca_protocol.errors import ECAError
from eca_protocol.process import Child
from eca_server.agent.jobs.output import JobOutput, Page, Stream
from eca_server.agent.jobs.shell import RunningShell

_log = logging.getLogger("eca_server.agent.jobs")

_FLOOD_CHUNK = 32 * 1024  # bytes; only a job that writes faster than we read fills such a chunk
_PAUSE = 0.005  # seconds

Status: TypeAlias = Literal["running", "completed", "failed", "killed"]

NOTIFY_SECONDS = 0.25
"""Minimum time between two notifications of changes."""


class JobRefused(ECAError):
    """A job that is not started; the text is the reason, for the model."""


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


@attrs.define(eq=False)
class Jobs:
    """All jobs, in the order in which they were started.

    Args:
        nursery: the nursery in which they run.
        on_change: called when a job was started or has ended: at once, but not more often than
            every `NOTIFY_SECONDS`, and once more after the last change.
        max_running: the maximum number of running jobs.
        max_ended: the maximum number of ended jobs that are stored; the one that ended first is
            removed first.
    """

    _nursery: trio.Nursery
    _on_change: Callable[[], None]
    _max_running: int = 50
    _max_ended: int = 50
    _changed: trio.Event = attrs.field(init=False, factory=trio.Event)
    _notifier: trio.CancelScope | None = attrs.field(init=False, default=None)
    _jobs: dict[str, Job] = attrs.field(init=False, factory=dict)
    _ended: deque[str] = attrs.field(init=False, factory=deque)
    _count: int = attrs.field(init=False, default=0)
    _is_closed: bool = attrs.field(init=False, default=False)
    _flood_lock: trio.Lock = attrs.field(init=False, factory=trio.Lock)

    def __iter__(self) -> Iterator[Job]:
        """Yield the running jobs and the stored ended ones."""
        return iter(tuple(self._jobs.values()))

    def get(self, job_id: str) -> Job | None:
        """Return the job with this id, or None."""
        return self._jobs.get(job_id)

    def start(
        self,
        start: Callable[[], Child],
        *,
        command: str,
        name: str,
        chat_id: str,
        call_id: str | None = None,
        cleanup: Callable[[], Awaitable[str]] | None = None,
    ) -> Job:
        """Start a command; it runs until it ends, is killed, or the connection is closed.

        Args:
            start: starts the command.
            command: its text.
            name: its display name, in a few words.
            chat_id: the chat that starts it.
            call_id: the tool call that starts it, if one does.
            cleanup: cleans up after the end of the job; the returned text is added to the output.

        Raises:
            JobRefused: too many jobs run, or the session ends.
            StartFailed: the command cannot be started.
        """
        if self._is_closed:
            raise JobRefused("The session is ending: no job can be started.")
        if sum(not job.ended.is_set() for job in self) >= self._max_running:
            raise JobRefused(f"{self._max_running} jobs are running, the maximum: kill one first.")
        child = start()
        self._count += 1
        job = Job(
            child=child,
            flood_lock=self._flood_lock,
            id=f"job-{self._count}",
            command=command,
            name=name,
            chat_id=chat_id,
            call_id=call_id,
            cleanup=cleanup,
        )
        self._jobs[job.id] = job
        self._nursery.start_soon(self._run, job)
        self._changed.set()
        if self._notifier is None:
            self._notifier = trio.CancelScope()
            self._nursery.start_soon(self._notify_of_changes, self._notifier)
        return job

    def unreported(self, chat_id: str) -> list[Job]:
        """Return the ended jobs of a chat whose end was not reported to the model."""
        return [
            job
            for job in self
            if job.chat_id == chat_id and job.ended.is_set() and not job.is_end_reported
        ]

    def forget_chat(self, chat_id: str) -> None:
        """Detach the jobs of a deleted chat: they continue, unreported to a chat with its id."""
        for job in self:
            job.forget_reader(chat_id)
            job.is_end_reported = job.is_end_reported or job.chat_id == chat_id

    def notify(self) -> None:
        """Notify of the last change now, unless that was done."""
        if self._changed.is_set():
            self._changed = trio.Event()
            self._on_change()

    async def close(self) -> Sequence[str]:
        """Kill all jobs at once and start no more; return a sentence for each that survived."""
        self._is_closed = True
        for job in self:
            job.kill()
        for job in self:
            await job.ended.wait()
        if self._notifier is not None:
            self._notifier.cancel()
        self.notify()
        return [f"the job {job.id} cannot be killed" for job in self if job.survived]

    async def _run(self, job: Job) -> None:
        try:
            await job.run()
        finally:
            self._changed.set()
            self._ended.append(job.id)
            while len(self._ended) > self._max_ended:
                del self._jobs[self._ended.popleft()]

    async def _notify_of_changes(self, scope: trio.CancelScope) -> None:
        with scope:
            while True:
                await self._changed.wait()
                self.notify()
                await trio.sleep(NOTIFY_SECONDS)
