"""One job: a shell command that runs in a task of its own until it ends or is killed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import trio

from eca_protocol.process import Child
from eca_server.jobs.output import JobOutput, Page, Stream
from eca_server.jobs.running import RunningShell

__all__ = ["Job", "Status"]

_log = logging.getLogger("eca_server.jobs")

_PIECE = 32 * 1024  # bytes that come at once only from who writes faster than is read
_PAUSE = 0.005  # seconds

Status: TypeAlias = Literal["running", "completed", "failed", "killed"]


class Job:
    """A command in the background.

    Args:
        child: its shell.
        turn: in which jobs that write at full speed pause, one after the other: they share about
            10 MB a second, and nobody else is held up.
        after: clears up after its end; what it returns is added to the output.

    Attributes:
        id: `job-1`, `job-2`, and so on.
        command: what runs.
        name: what whoever started it calls it.
        chat_id: the chat that started it.
        status: how it stands; killed as soon as somebody wants it to end.
        exit_code: as a shell tells it (128 and a signal's number), once it has ended by itself.
        started_at: by the clock on the wall.
        output: what it has written.
        ended: set when nothing of it runs any more.
        is_left: whether it could not be ended.
        is_told: whether the model of its chat knows that it has ended, or is not to be told.
    """

    def __init__(
        self,
        child: Child,
        turn: trio.Lock,
        *,
        job_id: str,
        command: str,
        name: str,
        chat_id: str,
        after: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        self.id = job_id
        self.command = command
        self.name = name
        self.chat_id = chat_id
        self.status: Status = "running"
        self.exit_code: int | None = None
        self.started_at = datetime.now(UTC)
        self.output = JobOutput()
        self.ended = trio.Event()
        self.is_left = False
        self.is_told = False
        self._turn = turn
        self._after = after
        self._shell = RunningShell(child, self._take)
        self._scope = trio.CancelScope()
        self._since = trio.current_time()
        self._until: float | None = None
        self._places: dict[str, int] = {}

    async def run(self) -> None:
        """Read it to its end; cancelled, end it, which takes about a second at most."""
        try:
            try:
                with self._scope:
                    await self._shell.to_its_end()
            finally:
                await self._shell.end()
                await self._clear_up()
        except Exception:  # noqa: BLE001 - what goes wrong with a job is its end, and nobody else's
            _log.exception("the job %s cannot be read", self.id)
        finally:
            self._settle(self._shell.returncode)

    async def _clear_up(self) -> None:
        if self._after is not None:
            with trio.CancelScope(shield=True):
                said = await self._after()
            if said:
                self.output.write("stderr", f"{said}\n".encode())

    def kill(self) -> bool:
        """Let it end; False, and nothing done, if it runs no more. `ended` tells when it has."""
        if self.status != "running":
            return False
        self.status = "killed"
        self._scope.cancel()
        return True

    @property
    def elapsed(self) -> str:
        """How long it runs, or ran, for people: `7s`, `5m23s`, `2h5m`."""
        until = trio.current_time() if self._until is None else self._until
        minutes, seconds = divmod(int(until - self._since), 60)
        hours, minutes = divmod(minutes, 60)
        if hours:
            return f"{hours}h{minutes}m"
        return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"

    def next_page(self, reader: str, *, lines: int, size: int) -> Page:
        """What it has written since this reader read last, within bounds; see `JobOutput.page`."""
        page = self.output.page(self._places.get(reader, 0), lines=lines, size=size)
        self._places[reader] = page.end
        return page

    def forget_reader(self, reader: str) -> None:
        """Whoever reads under that name from now on has read nothing yet."""
        self._places.pop(reader, None)

    async def _take(self, stream: Stream, data: bytes) -> None:
        self.output.write(stream, data)
        if len(data) >= _PIECE:
            async with self._turn:
                await trio.sleep(_PAUSE)

    def _settle(self, returncode: int | None) -> None:
        self.output.finish()
        self.is_left = returncode is None
        if self.status == "running":
            self.status = "completed" if returncode == 0 else "failed"
            if returncode is not None:
                self.exit_code = returncode if returncode >= 0 else 128 - returncode
        self._until = trio.current_time()
        self.ended.set()
