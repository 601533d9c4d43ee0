"""`task`: the list of tasks of a model for long work (ruling W-35).

The rules of this module: the list is computed from the chat's calls, one after the other, and not
stored. So a chat that is reopened, forked or rolled back has the list of its own calls. A call that
fails changes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs

from eca_protocol.messages import TaskDetails, TaskItem, TaskStatus, TaskSummary
from eca_server.agent.tools.files import printable
from eca_server.agent.tools.schemas import check_arguments, integer, object_schema, required, string
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolError, ToolOutput
from eca_server.client.content_formatting import NATIVE, PREFIX
from eca_server.models.history import Message, ToolCallPart, ToolResultPart

TASK_TOOL: Final = "task"
"""The tool's name."""

MOST_TASKS: Final = 100
LONGEST: Final = 2000
"""The maximum length of a subject or a description."""

_SHOWN = 60  # characters of a summary
_IDS = {"type": "array", "items": {"type": "integer"}}
_TASK = object_schema(
    subject=string("The task in a few words."),
    description=string("The details of the task, and when it is done."),
    priority=string("The priority of the task.", enum=["high", "medium", "low"]),
    blocked_by={**_IDS, "description": "Ids of the tasks that must be done first."},
)
_PARAMETERS: Final[Mapping[str, Any]] = object_schema(
    op=required(
        string(
            "The operation on the task list.",
            enum=["read", "plan", "add", "update", "start", "complete", "delete", "clear"],
        )
    ),
    id=integer("The id of the task, for update, start, complete, delete."),
    ids={**_IDS, "description": "The ids of several tasks, for start, complete, delete."},
    active_summary=string("For start: your current activity, shown to the user."),
    task={**_TASK, "description": "For add: the task. For update: the changed fields."},
    tasks={"type": "array", "items": _TASK, "description": "The tasks, for plan or add."},
)


@attrs.frozen(kw_only=True)
class Tasks:
    """An immutable list of tasks.

    Attributes:
        items: in the order they were added.
        last_id: the last used id; ids are reused only after `plan` or `clear`.
        active_summary: the model's description of its current activity.
    """

    items: tuple[TaskItem, ...] = ()
    last_id: int = 0
    active_summary: str | None = None

    def after(self, arguments: Mapping[str, Any]) -> Tasks:
        """Return the list after a call; `arguments` match the tool's parameters.

        Raises:
            ToolError: the call is invalid.
        """
        operations: Mapping[str, Callable[[], Tasks]] = {
            "read": lambda: self,
            "plan": lambda: Tasks()._with(_new_tasks(arguments)),
            "add": lambda: self._with(_new_tasks(arguments)),
            "update": lambda: self._updated(arguments),
            "start": lambda: self._started(arguments),
            "complete": lambda: self._moved(self._chosen(arguments), "done"),
            "delete": lambda: self._without(self._chosen(arguments)),
            "clear": Tasks,
        }
        return operations[arguments["op"]]()

    @property
    def details(self) -> TaskDetails:
        """The list as a client shows it."""
        active = tuple(each.id for each in self.items if each.status == "in-progress")
        done = sum(each.status == "done" for each in self.items)
        total = len(self.items)
        summary = TaskSummary(
            done=done, in_progress=len(active), pending=total - done - len(active), total=total
        )
        return TaskDetails(
            tasks=self.items,
            in_progress_task_ids=active,
            summary=summary,
            active_summary=self.active_summary if active else None,
        )

    @property
    def text(self) -> str:
        """The list for the model."""
        return "\n".join(_lines(self.items)) or "There are no tasks."

    def _with(self, new_tasks: Sequence[Mapping[str, Any]]) -> Tasks:
        added = []
        for number, task in enumerate(new_tasks, self.last_id + 1):
            if not task.get("subject", "").strip():
                raise ToolError("subject: expected a subject for each task, got none.")
            added.append(_changed(TaskItem(id=number, **_NEW), task))
        return self._checked(last_id=self.last_id + len(added), items=(*self.items, *added))

    def _updated(self, arguments: Mapping[str, Any]) -> Tasks:
        if "task" not in arguments:
            raise ToolError("`update` requires `task` with the changed fields.")
        return self._each(self._chosen(arguments), lambda item: _changed(item, arguments["task"]))

    def _started(self, arguments: Mapping[str, Any]) -> Tasks:
        chosen, summary = self._chosen(arguments), arguments.get("active_summary")
        for each in self.items:
            if each.id in chosen and each.is_blocked:
                waits = ", ".join(map(str, each.blocked_by or ()))
                raise ToolError(f"Task {each.id} is blocked: complete {waits} first.")
        started = self._moved(chosen, "in-progress")
        return attrs.evolve(started, active_summary=(summary or "")[:LONGEST] or None)

    def _moved(self, chosen: frozenset[int], status: TaskStatus) -> Tasks:
        return self._each(chosen, lambda item: attrs.evolve(item, status=status))

    def _each(self, chosen: frozenset[int], change: Callable[[TaskItem], TaskItem]) -> Tasks:
        items = (change(each) if each.id in chosen else each for each in self.items)
        return self._checked(items=tuple(items))

    def _without(self, chosen: frozenset[int]) -> Tasks:
        remaining = []
        for each in self.items:
            if each.id not in chosen:
                others = (other for other in each.blocked_by or () if other not in chosen)
                remaining.append(attrs.evolve(each, blocked_by=tuple(others) or None))
        return self._checked(items=tuple(remaining))

    def _chosen(self, arguments: Mapping[str, Any]) -> frozenset[int]:
        chosen = frozenset(
            [*arguments.get("ids", ()), *([arguments["id"]] if "id" in arguments else ())]
        )
        unknown = chosen - {each.id for each in self.items}
        if unknown or not chosen:
            known = ", ".join(str(each.id) for each in self.items) or "none"
            named = ", ".join(map(str, sorted(unknown)[:MOST_TASKS])) or "none"
            raise ToolError(f"Expected `id` or `ids` of tasks, got {named}. Tasks: {known}.")
        return chosen

    def _checked(self, *, items: tuple[TaskItem, ...], last_id: int | None = None) -> Tasks:
        """Return a list with these tasks and whether each is blocked; refuse circular waits."""
        if len(items) > MOST_TASKS:
            raise ToolError(f"Expected at most {MOST_TASKS} tasks, got {len(items)}.")
        waits = {each.id: frozenset(each.blocked_by or ()) for each in items}
        for number, others in waits.items():
            if unknown := others - waits.keys():
                raise ToolError(f"Task {number} waits for {min(unknown)}, which does not exist.")
        blocked = dict(waits)
        while free := [number for number, others in blocked.items() if not others & blocked.keys()]:
            for number in free:
                del blocked[number]
        if blocked:
            raise ToolError(f"Tasks wait for each other: {', '.join(map(str, blocked))}.")
        done = {each.id for each in items if each.status == "done"}
        judged = (attrs.evolve(each, is_blocked=not waits[each.id] <= done) for each in items)
        last_id = self.last_id if last_id is None else last_id
        return attrs.evolve(self, items=tuple(judged), last_id=last_id)


@attrs.define(kw_only=True)
class TaskTool:
    """The tool `task` of one turn.

    Attributes:
        history: the messages before the turn, from which the list is read at its first use.
    """

    history: Iterable[Message] = ()
    _tasks: Tasks | None = attrs.field(init=False, default=None)

    name: ClassVar = TASK_TOOL
    effect: ClassVar[Effect] = "read"
    description: ClassVar = (
        "Keep a list of tasks that is shown to the user. Use it for work of several steps, not for "
        "a single step. `plan` replaces the list. `start` a task before you work on it, and "
        "`complete` it as soon as it is done."
    )
    parameters: ClassVar[Mapping[str, Any]] = _PARAMETERS

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return the current activity, or the operation."""
        operation = arguments.get("op")
        listed = f"Tasks: {operation}" if operation else "Tasks"
        shown = arguments.get("active_summary") or listed
        return printable(str(shown)[:_SHOWN])

    @property
    def tasks(self) -> Tasks:
        """The list as it is now."""
        if self._tasks is None:
            lists = [tasks for _, tasks in lists_in(self.history)]
            self._tasks = lists[-1] if lists else Tasks()
        return self._tasks

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Prepare the call, which runs after the earlier calls of the answer."""

        async def run() -> ToolOutput:
            self._tasks = tasks = self.tasks.after(arguments)
            return ToolOutput.of(tasks.text, details=tasks.details)

        return PreparedCall(run=run, summary=self.summary(arguments), is_ordered=True)


def lists_in(messages: Iterable[Message]) -> Iterator[tuple[str, Tasks]]:
    """Yield the list after each finished call of a history, with the call's id."""
    tasks = Tasks()
    calls: dict[str, Mapping[str, Any]] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart) and _is_the_tool(part.server, part.tool):
                calls[part.id] = part.arguments or {}
            elif isinstance(part, ToolResultPart) and part.call_id in calls:
                with contextlib.suppress(ToolError):
                    if not part.is_error:
                        tasks = tasks.after(check_arguments(calls[part.call_id], _PARAMETERS))
                yield part.call_id, tasks


def reserved_for(server: str, tool: str) -> TaskDetails | None:
    """Return an empty list for a failed call of the tool: editors show only lists for its name."""
    return TaskDetails() if _is_the_tool(server, tool) else None


def _is_the_tool(server: str, tool: str) -> bool:
    return server == NATIVE and tool.removeprefix(PREFIX) == TASK_TOOL


_NEW: Final[Mapping[str, Any]] = {"subject": "", "status": "pending", "priority": "medium"}


def _new_tasks(arguments: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    tasks = [*([arguments["task"]] if "task" in arguments else ()), *arguments.get("tasks", ())]
    if not tasks:
        raise ToolError(f"`{arguments['op']}` requires `tasks` or `task`.")
    return tasks


def _changed(item: TaskItem, task: Mapping[str, Any]) -> TaskItem:
    """Return a task with changed fields."""
    changes = {key: task[key] for key in ("subject", "description", "priority") if task.get(key)}
    for key in changes.keys() - {"priority"}:
        if len(changes[key]) > LONGEST:
            raise ToolError(
                f"{key}: expected at most {LONGEST} characters, got {len(changes[key])}."
            )
    if task.get("blocked_by") is not None:
        changes["blocked_by"] = tuple(dict.fromkeys(task["blocked_by"])) or None
    return attrs.evolve(item, **changes)


def _lines(items: Iterable[TaskItem]) -> Iterator[str]:
    for each in items:
        waits = (
            f", waits for {', '.join(map(str, each.blocked_by or ()))}" if each.is_blocked else ""
        )
        more = f": {each.description}" if each.description else ""
        yield f"{each.id}. [{each.status}, {each.priority}{waits}] {each.subject}{more}"
