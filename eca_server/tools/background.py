"""The background jobs of a chat as its model sees them: how one is started, and what it says."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import attrs
import trio

from eca_protocol.errors import StartFailed
from eca_server.jobs import Job, JobRefused, Jobs, Line
from eca_server.llm.history import TextPart
from eca_server.tools.output import Cap, cut_mark
from eca_server.tools.script import Script, enter_sandbox, open_working_directory
from eca_server.tools.tool import ToolFault, ToolOutput

__all__ = ["Background", "named", "standing", "text_of"]

_FIRST_WORDS = 0.5  # seconds in which most commands that cannot work have failed
_SHOWN_NAME = 80
_ROOM_FOR_MARKS = 200  # bytes


@attrs.frozen(kw_only=True)
class Background:
    """Where a chat's jobs run.

    Attributes:
        jobs: those of the connection.
        chat_id: the chat that starts them, and is told when they have ended.
        reader: the chat whose model reads: that one, or an agent's that works for it.
    """

    jobs: Jobs
    chat_id: str
    reader: str

    async def start(self, script: Script, name: str) -> ToolOutput:
        """Start a script as a job, and wait a moment for how it begins.

        The job goes on if the wait is cancelled.

        Raises:
            ToolFault: it cannot be started.
        """
        visit = await enter_sandbox(script)
        inside = script if visit is None else script.within(visit)
        try:
            async with open_working_directory(inside.directory) as directory:
                job = self.jobs.start(
                    inside.shell,
                    inside.text,
                    directory=directory,
                    environment=inside.environment,
                    name=name[:_SHOWN_NAME],
                    chat_id=self.chat_id,
                    prefix=inside.prefix,
                    cleanup=None if visit is None else partial(visit.leave, sets_aside=False),
                )
        except (JobRefused, StartFailed) as fault:
            if visit is not None:
                await visit.leave()
            raise ToolFault(str(fault)) from fault
        with trio.move_on_after(_FIRST_WORDS):
            await job.ended.wait()
        said, is_all = self.read(job, script.cap)
        told = f"{named(job)} was started: {standing(job)}.\n{said}"
        if not is_all:
            told += f"\nRead on by `eca_bg_job`, action `read_output`, job_id `{job.id}`."
        return ToolOutput(parts=(TextPart(told),), is_error=job.status == "failed")

    def read(self, job: Job, cap: Cap) -> tuple[str, bool]:
        """What a job has written since its reader read last, as much as the cap lets through.

        Also whether that was all there will ever be.
        """
        page = job.next_page(self.reader, lines=cap.lines, size=max(cap.size - _ROOM_FOR_MARKS, 1))
        is_all = job.ended.is_set() and page.is_last
        if is_all:
            self.note_end(job)
        missed = [cut_mark(page.missed_bytes)] if page.missed_bytes else []
        more = [] if page.is_last else ["... there is more: read again ..."]
        said = text_of(page.lines) if page.lines else "It has written nothing (more) so far."
        return "\n".join([*missed, said, *more]), is_all

    def note_end(self, job: Job) -> None:
        """The reader knows of a job's end: nobody need tell it, if the job is of its own chat."""
        job.is_end_reported = job.is_end_reported or self.reader == job.chat_id


def named(job: Job) -> str:
    """A job's name and id."""
    return f'The job "{job.name}" ({job.id})'


def standing(job: Job) -> str:
    """How a job stands, and for how long."""
    match job.status:
        case "running" | "killed" as status:
            return f"{status}, {job.elapsed}"
        case status:
            code = "" if job.exit_code is None else f" with exit code {job.exit_code}"
            return f"{status}{code}, {job.elapsed}"


def text_of(lines: Iterable[Line]) -> str:
    """Lines as the model sees them: those of the error output say so."""
    return "\n".join(
        f"[stderr] {line.text}" if line.stream == "stderr" else line.text for line in lines
    )
