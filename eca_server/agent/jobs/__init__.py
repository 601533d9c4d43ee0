"""Background jobs: commands that outlive the call, and the turn, that started them."""

from __future__ import annotations

from eca_server.agent.jobs.job import Job, Status
from eca_server.agent.jobs.jobs import JobRefused, Jobs
from eca_server.agent.jobs.output import Line, Page, Stream
from eca_server.agent.jobs.shell import RunningShell, start_shell

__all__ = [
    "Job",
    "JobRefused",
    "Jobs",
    "Line",
    "Page",
    "RunningShell",
    "Status",
    "Stream",
    "start_shell",
]
