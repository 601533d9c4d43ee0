"""The background jobs of a chat, started by its model; `bg_job` lists, reads and kills them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

import attrs
import trio

from eca_server.agent.jobs.jobs import Job, JobRefused, Jobs
from eca_server.agent.jobs.output import Line
from eca_server.agent.tools.output import Cap, cut_end, cut_mark
from eca_server.agent.tools.schemas import object_schema, required, string
from eca_server.agent.tools.script import Script, ready_to_start
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolError, ToolOutput, running_call

_FIRST_OUTPUT = 0.5  # seconds in which most invalid commands fail
_SHOWN_NAME = 80
_MARKS_SIZE = 200  # bytes
_SHOWN_PARTIAL = 1_000  # bytes of a line without its end

_SHOWN_COMMAND = 200
_SUMMARIES = {"read_output": "Reading output of", "kill": "Killing"}


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
        try:
            async with ready_to_start(script) as (start, leave):
                job = self.jobs.start(
                    start,
                    command=script.text,
                    name=name[:_SHOWN_NAME],
                    chat_id=self.chat_id,
                    call_id=running_call.get(None),
                    cleanup=partial(leave, sets_aside=False),
                )
        except JobRefused as error:
            raise ToolError(str(error)) from error
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


@attrs.frozen(kw_only=True)
class BgJob:
    """The tool `bg_job`.

    Attributes:
        cap: the limit of one read.
    """

    background: Background
    cap: Cap = attrs.field(factory=Cap)

    name: ClassVar = "bg_job"
    effect: ClassVar[Effect] = "run"
    description: ClassVar = (
        "Manage the background jobs that `eca_shell_command` starts: `list` all jobs, "
        "`read_output` of a job (only the output since your last read), or `kill` a job. You are "
        "notified when a job of this chat has ended. All jobs end with the session."
    )
    parameters: ClassVar[Mapping[str, Any]] = object_schema(
        action=required(string("The action to run.", enum=["list", "read_output", "kill"])),
        job_id=string("The id of the job (`job-1`), for `read_output` and `kill`."),
    )

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return a summary such as `Killing "dev server" (job-1)`."""
        action = _SUMMARIES.get(str(arguments.get("action")))
        if action is None:
            return "Listing background jobs"
        job_id = str(arguments.get("job_id", ""))
        job = self.background.jobs.get(job_id)
        return f"{action} {job_id[:20]}" if job is None else f'{action} "{job.name}" ({job.id})'

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Find the job.

        Raises:
            ToolError: there is no such job.
        """
        action: str = arguments["action"]
        job = None if action == "list" else self._job(arguments.get("job_id"))

        async def run() -> ToolOutput:
            if job is None:
                text = self._list()
            elif action == "kill":
                text = await self._kill(job)
            else:
                text = f"{job_label(job)}: {job_status(job)}.\n\n"
                text += self.background.read(job, self.cap)[0]
            return ToolOutput.of(text)

        return PreparedCall(run=run, summary=self.summary(arguments))

    def _job(self, job_id: str | None) -> Job:
        if job_id is None:
            raise ToolError("job_id: expected the id of a job. Use `list` to see the jobs.")
        job = self.background.jobs.get(job_id)
        if job is None:
            known = ", ".join(each.id for each in self.background.jobs)
            if not known:
                raise ToolError("There are no background jobs: all jobs end with their session.")
            raise ToolError(f"job_id: expected one of: {known}; got {job_id[:100]!r}.")
        return job

    def _list(self) -> str:
        lines = [
            f'- {job.id} "{job.name}": {job_status(job)} | '
            f"{' '.join(job.command[:_SHOWN_COMMAND].split())}"
            for job in self.background.jobs
        ]
        return cut_end("\n".join(lines), self.cap) or "There are no background jobs."

    async def _kill(self, job: Job) -> str:
        if not job.kill():
            raise ToolError(f"{job_label(job)} has already ended: {job_status(job)}.")
        self.background.mark_reported(job)
        await job.ended.wait()
        if job.survived:
            raise ToolError(f"{job_label(job)} could not be killed.")
        return f"{job_label(job)} was killed."
