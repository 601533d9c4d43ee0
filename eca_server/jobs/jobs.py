"""The jobs of a connection: how many there may be, who is told of them, how they all end."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

import trio

from eca_protocol.errors import ECAError
from eca_server.jobs.job import Job
from eca_server.jobs.running import start_shell

__all__ = ["JobRefused", "Jobs"]

MOST_RUNNING = 50
MOST_ENDED = 50
"""How many that have ended are kept; who ended first is forgotten first."""

TELL_SECONDS = 0.25
"""The least time between two words about changes."""


class JobRefused(ECAError):
    """A job that is not started; the text says why, for the model."""


class Jobs:
    """All jobs, in the order in which they were started.

    Args:
        nursery: in which they run.
        on_change: called when a job was started or has ended: at once, but not more often than
            every `TELL_SECONDS`, and once more after the last change.
    """

    def __init__(self, nursery: trio.Nursery, on_change: Callable[[], None]) -> None:
        self._nursery = nursery
        self._on_change = on_change
        self._changed = trio.Event()
        self._telling: trio.CancelScope | None = None
        self._jobs: dict[str, Job] = {}
        self._ended: deque[str] = deque()
        self._count = 0
        self._is_closed = False
        self._turn = trio.Lock()

    def __iter__(self) -> Iterator[Job]:
        """Those that run, and those that have ended and are kept."""
        return iter(tuple(self._jobs.values()))

    def get(self, job_id: str) -> Job | None:
        """The job of that id."""
        return self._jobs.get(job_id)

    def start(
        self,
        shell: str,
        command: str,
        *,
        directory: Path | int,
        environment: Mapping[str, str],
        name: str,
        chat_id: str,
        prefix: Sequence[str] = (),
        after: Callable[[], Awaitable[str]] | None = None,
    ) -> Job:
        """Start a command; it runs until it ends, is killed, or the connection is closed.

        Args:
            shell: the program that reads the command.
            command: a whole script.
            directory: where it runs, a path or a descriptor of it.
            environment: all of it.
            name: what it is called, in a few words.
            chat_id: the chat that starts it.
            prefix: the command that starts the shell, if it does not start by itself (a sandbox).
            after: clears up after the end of the job; what it returns is added to the output.

        Raises:
            JobRefused: there are too many, or the session ends.
            StartFailed: it cannot be started.
        """
        if self._is_closed:
            raise JobRefused("The session ends: no job is started any more.")
        if sum(not job.ended.is_set() for job in self) >= MOST_RUNNING:
            raise JobRefused(f"{MOST_RUNNING} jobs run, and there may be no more: kill one first.")
        child = start_shell(
            shell, command, directory=directory, environment=environment, prefix=prefix
        )
        self._count += 1
        job = Job(
            child,
            self._turn,
            job_id=f"job-{self._count}",
            command=command,
            name=name,
            chat_id=chat_id,
            after=after,
        )
        self._jobs[job.id] = job
        self._nursery.start_soon(self._run, job)
        self._changed.set()
        if self._telling is None:
            self._telling = trio.CancelScope()
            self._nursery.start_soon(self._tell, self._telling)
        return job

    def untold(self, chat_id: str) -> list[Job]:
        """Those a chat has started which have ended, and its model does not know it."""
        return [
            job for job in self if job.chat_id == chat_id and job.ended.is_set() and not job.is_told
        ]

    def forget_chat(self, chat_id: str) -> None:
        """A chat was deleted: its jobs go on, and who takes its id is told nothing of them."""
        for job in self:
            job.forget_reader(chat_id)
            job.is_told = job.is_told or job.chat_id == chat_id

    def tell(self) -> None:
        """Tell of the last change now, unless it was told."""
        if self._changed.is_set():
            self._changed = trio.Event()
            self._on_change()

    async def close(self) -> Sequence[str]:
        """End all of them, at once, and start no more; what could not be ended, in words."""
        self._is_closed = True
        for job in self:
            job.kill()
        for job in self:
            await job.ended.wait()
        if self._telling is not None:
            self._telling.cancel()
        self.tell()
        return [f"the job {job.id} cannot be ended" for job in self if job.is_left]

    async def _run(self, job: Job) -> None:
        try:
            await job.run()
        finally:
            self._changed.set()
            self._ended.append(job.id)
            while len(self._ended) > MOST_ENDED:
                del self._jobs[self._ended.popleft()]

    async def _tell(self, scope: trio.CancelScope) -> None:
        with scope:
            while True:
                await self._changed.wait()
                self.tell()
                await trio.sleep(TELL_SECONDS)
