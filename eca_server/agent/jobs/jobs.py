"""The jobs of a connection: their limits, the notification of changes, and their end."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence

import attrs
import trio

from eca_protocol.errors import ECAError
from eca_protocol.process import Child
from eca_server.agent.jobs.job import Job

NOTIFY_SECONDS = 0.25
"""Minimum time between two notifications of changes."""


class JobRefused(ECAError):
    """A job that is not started; the text is the reason, for the model."""


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
