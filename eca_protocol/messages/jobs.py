"""The background jobs of chats (chapter "Background Jobs", of CURRENT)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from eca_protocol.messages.marks import UnknownValue, lenient, marked
from eca_protocol.revisions import Revision, mark

JobStatus: TypeAlias = Literal["running", "completed", "failed", "killed"] | UnknownValue
OutputStream: TypeAlias = Literal["stdout", "stderr"] | UnknownValue


@attrs.frozen(kw_only=True)
class JobSummary:
    """A job: `started_at` is a time in ISO 8601, `elapsed` a duration for people (`5m23s`).

    `tool_call_id`: the call that started it; upstream writes it, its document does not name it.
    """

    id: str
    type: str = marked(lenient("W-60"), default="")
    status: JobStatus
    label: str = marked(lenient("W-60"), default="")
    summary: str | None = marked(lenient("W-60", nullable=True))
    started_at: str = marked(lenient("W-60"), default="")
    elapsed: str = marked(lenient("W-60"), default="")
    exit_code: int | None = marked(lenient("W-60", nullable=True))
    chat_id: str = marked(lenient("W-60"), default="")
    chat_label: str = marked(lenient("W-60"), default="")
    tool_call_id: str | None = marked(mark(since=Revision.CURRENT, ruling="W-60"))


@attrs.frozen(kw_only=True)
class JobsListParams:
    """`jobs/list`: the jobs of all chats; without members."""


@attrs.frozen(kw_only=True)
class JobsListResult:
    """The answer to `jobs/list`."""

    jobs: tuple[JobSummary, ...]


@attrs.frozen(kw_only=True)
class JobsUpdatedParams:
    """`jobs/updated`: all current jobs."""

    jobs: tuple[JobSummary, ...]


@attrs.frozen(kw_only=True)
class JobsKillParams:
    """`jobs/kill`: end a job."""

    job_id: str = attrs.field(metadata=lenient("W-3", alias="job-id"))


@attrs.frozen(kw_only=True)
class JobsKillResult:
    """The answer to `jobs/kill`."""

    killed: bool


@attrs.frozen(kw_only=True)
class JobsReadOutputParams:
    """`jobs/readOutput`: a job's output so far."""

    job_id: str = attrs.field(metadata=lenient("W-3", alias="job-id"))


@attrs.frozen(kw_only=True)
class OutputLine:
    """A line of a job's output."""

    text: str
    stream: OutputStream


@attrs.frozen(kw_only=True)
class JobsReadOutputResult:
    """The answer to `jobs/readOutput`; without lines and status for an unknown job (W-44)."""

    lines: tuple[OutputLine, ...]
    status: JobStatus | None = marked(lenient("W-44", nullable=True))
    exit_code: int | None = marked(lenient("W-60", nullable=True))
