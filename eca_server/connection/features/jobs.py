"""Requests about background jobs: list, read, kill (chapter "Background Jobs" of CURRENT).

Invariant: the notifications that follow from a request precede its answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.errors import INTERNAL_ERROR, RPCError
from eca_protocol.peer import Handler
from eca_server.agent.chat import Chats
from eca_server.agent.jobs.jobs import Job, Jobs
from eca_server.agent.tools.output import cut_mark
from eca_server.printable import printable_line, printable_lines

MOST_LINES = 2000
LONGEST_LABEL = 1000
"""Limit of a command, in characters: each change announces all jobs."""


def make_handlers(jobs: Jobs, chats: Chats) -> Mapping[str, Handler]:
    """Return the handlers of jobs."""

    def list_jobs(_: m.JobsListParams) -> m.JobsListResult:
        return m.JobsListResult(jobs=tuple(summaries(jobs, chats)))

    def read_output(params: m.JobsReadOutputParams) -> m.JobsReadOutputResult:
        job = jobs.get(params.job_id)
        if job is None:
            return m.JobsReadOutputResult(lines=())
        return m.JobsReadOutputResult(
            lines=tuple(_lines(job)), status=job.status, exit_code=job.exit_code
        )

    async def kill(params: m.JobsKillParams) -> m.JobsKillResult:
        job = jobs.get(params.job_id)
        if job is None or not job.kill():
            return m.JobsKillResult(killed=False)
        await job.ended.wait()
        if job.survived:
            raise RPCError(INTERNAL_ERROR, f"the job {job.id} did not end")
        jobs.notify()
        return m.JobsKillResult(killed=True)

    return methods.handlers(
        methods.JOBS_LIST.handled_by(list_jobs),
        methods.JOBS_READ_OUTPUT.handled_by(read_output),
        methods.JOBS_KILL.handled_by(kill),
    )


def summaries(jobs: Jobs, chats: Chats) -> Iterator[m.JobSummary]:
    """Yield the descriptions of all jobs."""
    for job in jobs:
        chat = chats.get(job.chat_id)
        yield m.JobSummary(
            id=job.id,
            type="shell",
            status=job.status,
            label=_label(printable_lines(job.command)),
            summary=printable_line(job.name),
            started_at=job.started_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            elapsed=job.elapsed,
            exit_code=job.exit_code,
            chat_id=job.chat_id,
            chat_label=(chat.title if chat is not None else None) or job.chat_id,
            tool_call_id=job.call_id,
        )


def _label(command: str) -> str:
    return command if len(command) <= LONGEST_LABEL else f"{command[:LONGEST_LABEL]}..."


def _lines(job: Job) -> Iterator[m.OutputLine]:
    """Yield the last lines of a job's output, after a mark with the number of omitted bytes."""
    lines = job.output.last(MOST_LINES - 1)
    if lines and lines[0].offset:
        yield m.OutputLine(text=cut_mark(lines[0].offset), stream="stdout")
    for line in lines:
        yield m.OutputLine(text=line.text, stream=line.stream)
