"""The background jobs of a chat, started and read by its model."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import attrs
import trio

from eca_protocol.errors import StartFailed
from eca_server.agent.jobs.job import Job
from eca_server.agent.jobs.jobs import JobRefused, Jobs
from eca_server.agent.jobs.output import Line
from eca_server.agent.tools.output import Cap, cut_mark
from eca_server.agent.tools.script import Script, enter_sandbox, open_working_directory
from eca_server.agent.tools.tool import ToolError, ToolOutput, running_call

_FIRST_OUTPUT = 0.5  # seconds in which most invalid commands fail
_SHOWN_NAME = 80
_MARKS_SIZE = 200  # bytes
_SHOWN_PARTIAL = 1_000  # bytes of a line without its end


@attrs.frozen(kw_only=True)
class Background:
    """The background jobs of a chat.

    Attributes:
        chat_id: the chat that starts them, and is notified of their end.
        reader: the chat whose model reads their output: this one, or a subagent's.
    """

    jobs: Jobs
    chat_id: str
    reader: str

    async def start(self, script: Script, name: str) -> ToolOutput:
        """Start a script as a job, and wait a moment for its first output.

        The job continues if the wait is cancelled.

        Raises:
            ToolError: it cannot be started.
        """
        visit = await enter_sandbox(script)
        script_to_run = script if visit is None else script.within(visit)
        try:
            async with open_working_directory(script_to_run.directory) as directory:
                job = self.jobs.start(
                    script_to_run.shell,
                    script_to_run.text,
                    directory=directory,
                    environment=script_to_run.environment,
                    name=name[:_SHOWN_NAME],
                    chat_id=self.chat_id,
                    call_id=running_call.get(None),
                    prefix=script_to_run.prefix,
                    cleanup=None if visit is None else partial(visit.leave, sets_aside=False),
                )
        except BaseException as error:
            if visit is not None:
                await visit.leave()
            if isinstance(error, (JobRefused, StartFailed)):
                raise ToolError(str(error)) from error
            raise
        with trio.move_on_after(_FIRST_OUTPUT):
            await job.ended.wait()
        output, is_complete = self.read(job, script.cap)
        text = f"{job_label(job)} was started: {job_status(job)}.\n{output}"
        if not is_complete:
            text += (
                f"\nTo read more, call `eca_bg_job` with action `read_output` and job_id "
                f"`{job.id}`."
            )
        return ToolOutput.of(text, is_error=job.status == "failed")

    def read(self, job: Job, cap: Cap) -> tuple[str, bool]:
        """Return the output of a job since the last read, within a cap.

        The second value is True if the job has ended and its output is complete.
        """
        page = job.next_page(self.reader, lines=cap.lines, size=max(cap.size - _MARKS_SIZE, 1))
        is_complete = job.ended.is_set() and page.is_last
        if is_complete:
            self.mark_reported(job)
        missed_bytes = [cut_mark(page.missed_bytes)] if page.missed_bytes else []
        more = [] if page.is_last else ["... more output is available: read again ..."]
        partial = map(_shown_partial, job.output.partial()) if page.is_last else ()
        lines = (*page.lines, *partial)
        text = lines_text(lines) if lines else "(no new output)"
        return "\n".join([*missed_bytes, text, *more]), is_complete

    def mark_reported(self, job: Job) -> None:
        """Mark the end of a job as reported, if the job belongs to the reader's chat."""
        job.is_end_reported = job.is_end_reported or self.reader == job.chat_id


def job_label(job: Job) -> str:
    """Return a job's name and id."""
    return f'The job "{job.name}" ({job.id})'


def job_status(job: Job) -> str:
    """Return a job's status, exit code and duration."""
    match job.status:
        case "running" | "killed" as status:
            return f"{status}, {job.elapsed}"
        case status:
            code = "" if job.exit_code is None else f" with exit code {job.exit_code}"
            return f"{status}{code}, {job.elapsed}"


def _shown_partial(line: Line) -> Line:
    """Return the end of a line that the job still writes, as a terminal shows it; it is marked."""
    shown = line.data.rstrip(b"\r").rpartition(b"\r")[2][-_SHOWN_PARTIAL:]
    return line._replace(data=b"[incomplete line] " + shown)


def lines_text(lines: Iterable[Line]) -> str:
    """Return lines as text for the model; lines of stderr are marked."""
    return "\n".join(
        f"[stderr] {line.text}" if line.stream == "stderr" else line.text for line in lines
    )
