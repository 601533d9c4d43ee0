"""`bg_job`: list the background jobs, read the output of a job, kill a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from eca_server.agent.jobs.job import Job
from eca_server.agent.tools.background import Background, job_label, job_status
from eca_server.agent.tools.output import Cap, cut_end
from eca_server.agent.tools.schemas import object_schema, string
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolError, ToolOutput

_SHOWN_COMMAND = 200
_SUMMARIES = {"read_output": "Reading output of", "kill": "Killing"}


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
        "action",
        action=string("The action to run.", enum=["list", "read_output", "kill"]),
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
