"""The details and outputs of tool calls."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import attrs

from eca_protocol.messages.marks import Unknown, UnknownValue, lenient, marked
from eca_protocol.revisions import Revision, Window

_SINCE_CURRENT = Window(since=Revision.CURRENT)

TaskStatus: TypeAlias = Literal["pending", "in-progress", "done"] | UnknownValue
TaskPriority: TypeAlias = Literal["high", "medium", "low"] | UnknownValue


@attrs.frozen(kw_only=True)
class FileChangeDetails:
    """The change of a file: unified hunks, and the numbers of added and removed lines."""

    type: ClassVar[Literal["fileChange"]] = "fileChange"
    path: str
    diff: str
    lines_added: int
    lines_removed: int


@attrs.frozen(kw_only=True)
class JsonOutputsDetails:
    """The JSON outputs of a tool."""

    type: ClassVar[Literal["jsonOutputs"]] = "jsonOutputs"
    window: ClassVar[Window] = _SINCE_CURRENT
    jsons: tuple[str, ...]


@attrs.frozen(kw_only=True)
class SubagentDetails:
    """A subagent in a chat of its own; `step` is the number of its current step."""

    type: ClassVar[Literal["subagent"]] = "subagent"
    window: ClassVar[Window] = _SINCE_CURRENT
    subagent_chat_id: str | None = None
    agent_name: str = marked(lenient("W-60"), default="")
    model: str = marked(lenient("W-60"), default="")
    variant: str | None = None
    max_steps: int | None = None
    step: int = marked(lenient("W-60"), default=0)


@attrs.frozen(kw_only=True)
class TaskItem:
    """A task of the model's list."""

    id: int
    subject: str
    description: str = marked(lenient("W-60"), default="")
    status: TaskStatus
    priority: TaskPriority
    is_blocked: bool = marked(lenient("W-60"), default=False)
    blocked_by: tuple[int, ...] | None = None


@attrs.frozen(kw_only=True)
class TaskSummary:
    """The numbers of tasks by status."""

    done: int = marked(lenient("W-60"), default=0)
    in_progress: int = marked(lenient("W-60"), default=0)
    pending: int = marked(lenient("W-60"), default=0)
    total: int = marked(lenient("W-60"), default=0)


@attrs.frozen(kw_only=True)
class TaskDetails:
    """The model's list of tasks; `active_summary` describes the current work."""

    type: ClassVar[Literal["task"]] = "task"
    window: ClassVar[Window] = _SINCE_CURRENT
    tasks: tuple[TaskItem, ...] = marked(lenient("W-60"), default=())
    in_progress_task_ids: tuple[int, ...] = marked(lenient("W-60"), default=())
    summary: TaskSummary = marked(lenient("W-60"), factory=TaskSummary)
    active_summary: str | None = None


@attrs.frozen(kw_only=True)
class ShellCommandBreakdown:
    """One command of a shell line; an approval for the session stores its `approval_key`."""

    command: str
    args: tuple[str, ...] = marked(lenient("W-60"), default=())
    approval_key: str | None = None
    remembered: bool | None = None


@attrs.frozen(kw_only=True)
class ShellCommandDetails:
    """The commands of a shell line."""

    type: ClassVar[Literal["shellCommand"]] = "shellCommand"
    window: ClassVar[Window] = _SINCE_CURRENT
    commands: tuple[ShellCommandBreakdown, ...] = marked(lenient("W-60"), default=())
    background: bool | None = None


@attrs.frozen(kw_only=True)
class UnknownToolCallDetails(Unknown):
    """Details of an unknown type; `raw` is written unchanged."""


ToolCallDetails: TypeAlias = (
    FileChangeDetails
    | JsonOutputsDetails
    | SubagentDetails
    | TaskDetails
    | ShellCommandDetails
    | UnknownToolCallDetails
)


@attrs.frozen(kw_only=True)
class ToolCallTextOutput:
    """A text output of a tool."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


@attrs.frozen(kw_only=True)
class UnknownToolCallOutput(Unknown):
    """An output of an unknown type; `raw` is written unchanged."""


ToolCallOutput: TypeAlias = ToolCallTextOutput | UnknownToolCallOutput
