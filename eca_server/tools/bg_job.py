"""`bg_job`: lists the background jobs, reads what one has written, kills one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from eca_server.jobs import Job
from eca_server.llm.history import TextPart
from eca_server.tools.background import Background, named, standing
from eca_server.tools.output import Cap, cut_end
from eca_server.tools.tool import Effect, PreparedCall, ToolFault, ToolOutput

__all__ = ["BgJob"]

_SHOWN_COMMAND = 200
_SUMMARIES = {"read_output": "Reading output of", "kill": "Killing"}


@attrs.frozen(kw_only=True)
class BgJob:
    """The tool `bg_job`.

    Attributes:
        background: the jobs, and the chat that asks: each reads what is new to it.
        cap: how much is read at once.
    """

    background: Background
    cap: Cap = attrs.field(factory=Cap)

    name: ClassVar = "bg_job"
    effect: ClassVar[Effect] = "run"
    description: ClassVar = (
        "Look after the background jobs, which `eca_shell_command` starts: `list` them, "
        "`read_output` of one (what is new since you read last), or `kill` one. You are told when "
        "a job of this chat has ended; all of them end with the session."
    )
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "action": {
                "type": "string",
                "enum": ["list", "read_output", "kill"],
                "description": "What to do.",
            },
            "job_id": {
                "type": "string",
                "description": "Which (`job-1`); for `read_output` and `kill`.",
            },
        },
        "required": ["action"],
    }

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """`Killing "dev server" (job-1)`."""
        doing = _SUMMARIES.get(str(arguments.get("action")))
        if doing is None:
            return "Listing background jobs"
        job_id = str(arguments.get("job_id", ""))
        job = self.background.jobs.get(job_id)
        return f"{doing} {job_id[:20]}" if job is None else f'{doing} "{job.name}" ({job.id})'

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Look whether there is such a job.

        Raises:
            ToolFault: there is none.
        """
        action: str = arguments["action"]
        job = None if action == "list" else self._job(arguments.get("job_id"))

        async def run() -> ToolOutput:
            if job is None:
                text = self._list()
            elif action == "kill":
                text = await self._kill(job)
            else:
                text = f"{named(job)}: {standing(job)}.\n\n"
                text += self.background.read(job, self.cap)[0]
            return ToolOutput(parts=(TextPart(text),))

        return PreparedCall(run=run, summary=self.summary(arguments))

    def _job(self, job_id: str | None) -> Job:
        if job_id is None:
            raise ToolFault("job_id: expected the id of a job; `list` tells which there are.")
        job = self.background.jobs.get(job_id)
        if job is None:
            known = ", ".join(each.id for each in self.background.jobs) or "there is none"
            raise ToolFault(f"job_id: expected one of: {known}; got {job_id[:100]!r}.")
        return job

    def _list(self) -> str:
        lines = [
            f'- {job.id} "{job.name}": {standing(job)} | '
            f"{' '.join(job.command[:_SHOWN_COMMAND].split())}"
            for job in self.background.jobs
        ]
        return cut_end("\n".join(lines), self.cap) or "There are no background jobs."

    async def _kill(self, job: Job) -> str:
        """End a job, and wait until it has."""
        if not job.kill():
            raise ToolFault(f"{named(job)} does not run any more: {standing(job)}.")
        self.background.note_end(job)
        await job.ended.wait()
        if job.survived:
            raise ToolFault(f"{named(job)} cannot be ended.")
        return f"{named(job)} was killed."
