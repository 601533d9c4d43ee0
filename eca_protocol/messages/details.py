"""The details and outputs of tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from eca_protocol.messages.marks import UnknownValue, lenient
from eca_protocol.revisions import Revision, Window

__all__ = [
    "FileChangeDetails",
    "JsonOutputsDetails",
    "ShellCommandBreakdown",
    "ShellCommandDetails",
    "SubagentDetails",
    "TaskDetails",
    "TaskItem",
    "TaskPriority",
    "TaskStatus",
    "TaskSummary",
    "ToolCallDetails",
    "ToolCallOutput",
    "ToolCallTextOutput",
    "UnknownToolCallDetails",
    "UnknownToolCallOutput",
]

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
    agent_name: str = attrs.field(default="", metadata=lenient("W-60"))
    model: str = attrs.field(default="", metadata=lenient("W-60"))
    variant: str | None = None
    max_steps: int | None = None
    step: int = attrs.field(default=0, metadata=lenient("W-60"))


@attrs.frozen(kw_only=True)
class TaskItem:
    """A task of the model's list."""

    id: int
    subject: str
    description: str = attrs.field(default="", metadata=lenient("W-60"))
    status: TaskStatus
    priority: TaskPriority
    is_blocked: bool = attrs.field(default=False, metadata=lenient("W-60"))
    blocked_by: tuple[int, ...] | None = None


@attrs.frozen(kw_only=True)
class TaskSummary:
    """The numbers of tasks by status."""

    done: int = attrs.field(default=0, metadata=lenient("W-60"))
    in_progress: int = attrs.field(default=0, metadata=lenient("W-60"))
    pending: int = attrs.field(default=0, metadata=lenient("W-60"))
    total: int = attrs.field(default=0, metadata=lenient("W-60"))


@attrs.frozen(kw_only=True)
class TaskDetails:
    """The model's list of tasks; `active_summary` describes the current work."""

    type: ClassVar[Literal["task"]] = "task"
    window: ClassVar[Window] = _SINCE_CURRENT
    tasks: tuple[TaskItem, ...] = attrs.field(default=(), metadata=lenient("W-60"))
    in_progress_task_ids: tuple[int, ...] = attrs.field(default=(), metadata=lenient("W-60"))
    summary: TaskSummary = attrs.field(factory=TaskSummary, metadata=lenient("W-60"))
    active_summary: str | None = None


@attrs.frozen(kw_only=True)
class ShellCommandBreakdown:
    """One command of a shell line; an approval for the session stores its `approval_key`."""

    command: str
    args: tuple[str, ...] = attrs.field(default=(), metadata=lenient("W-60"))
    approval_key: str | None = None
    remembered: bool | None = None


@attrs.frozen(kw_only=True)
class ShellCommandDetails:
    """The commands of a shell line."""

    type: ClassVar[Literal["shellCommand"]] = "shellCommand"
    window: ClassVar[Window] = _SINCE_CURRENT
    commands: tuple[ShellCommandBreakdown, ...] = attrs.field(default=(), metadata=lenient("W-60"))
    background: bool | None = None


@attrs.frozen(kw_only=True)
class UnknownToolCallDetails:
    """Details of an unknown type; `raw` is written unchanged."""

    type: str | None
    raw: Mapping[str, Any]


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
class UnknownToolCallOutput:
    """An output of an unknown type; `raw` is written unchanged."""

    type: str | None
    raw: Mapping[str, Any]


ToolCallOutput: TypeAlias = ToolCallTextOutput | UnknownToolCallOutput
