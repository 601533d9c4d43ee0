"""`task`: the list of tasks by which a model keeps its way through long work (ruling W-35).

The rules it keeps: the list is nothing but what the chat's calls have made of it, one after the
other, so it needs no place of its own: a chat that is opened again, forked or rolled back has the
list of the calls it holds. What a call cannot do it does not do in part.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs

from eca_protocol.messages import TaskDetails, TaskItem, TaskStatus, TaskSummary
from eca_server.content_formatting import NATIVE, PREFIX
from eca_server.llm.history import Message, TextPart, ToolCallPart, ToolResultPart
from eca_server.tools.files import printable
from eca_server.tools.schema_check import fitting
from eca_server.tools.tool import Effect, PreparedCall, ToolFault, ToolOutput

__all__ = ["TASK_TOOL", "TaskTool", "Tasks", "lists_in", "reserved_for"]

TASK_TOOL: Final = "task"
"""The tool's name."""

MOST_TASKS: Final = 100
LONGEST: Final = 2000
"""Characters of a subject or a description."""

_SHOWN = 60  # characters of what is being done in the summary
_IDS = {"type": "array", "items": {"type": "integer"}}
_TASK = {
    "type": "object",
    "properties": {
        "subject": {"type": "string", "description": "What is to be done, in a few words."},
        "description": {"type": "string", "description": "What it takes, and when it is done."},
        "priority": {"type": "string", "enum": ["high", "medium", "low"]},
        "blocked_by": {**_IDS, "description": "The tasks that must be done before."},
    },
}
_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "op": {
            "type": "string",
            "enum": ["read", "plan", "add", "update", "start", "complete", "delete", "clear"],
        },
        "id": {"type": "integer", "description": "The task of update, start, complete, delete."},
        "ids": {**_IDS, "description": "Several tasks of start, complete, delete."},
        "active_summary": {"type": "string", "description": "start: what you do now, for a user."},
        "task": {**_TASK, "description": "The task of add; what changes, of update."},
        "tasks": {"type": "array", "items": _TASK, "description": "The tasks of plan or add."},
    },
    "required": ["op"],
}


@attrs.frozen(kw_only=True)
class Tasks:
    """A list of tasks; a value.

    Attributes:
        items: in the order they were added.
        last_id: no task gets an id twice, until the list is planned anew or cleared.
        active_summary: what is being done, in the model's words.
    """

    items: tuple[TaskItem, ...] = ()
    last_id: int = 0
    active_summary: str | None = None

    def after(self, arguments: Mapping[str, Any]) -> Tasks:
        """The list once a call has been done; `arguments` fit the tool's parameters.

        Raises:
            ToolFault: it cannot be done.
        """
        does: Mapping[str, Callable[[], Tasks]] = {
            "read": lambda: self,
            "plan": lambda: Tasks()._with(_given(arguments)),
            "add": lambda: self._with(_given(arguments)),
            "update": lambda: self._updated(arguments),
            "start": lambda: self._started(arguments),
            "complete": lambda: self._moved(self._chosen(arguments), "done"),
            "delete": lambda: self._without(self._chosen(arguments)),
            "clear": Tasks,
        }
        return does[arguments["op"]]()

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
        """The list as the model is told of it."""
        return "\n".join(_lines(self.items)) or "There are no tasks."

    def _with(self, given: Sequence[Mapping[str, Any]]) -> Tasks:
        added = []
        for number, task in enumerate(given, self.last_id + 1):
            if not task.get("subject", "").strip():
                raise ToolFault("A task needs a subject.")
            added.append(_changed(TaskItem(id=number, **_NEW), task))
        return self._checked(last_id=self.last_id + len(added), items=(*self.items, *added))

    def _updated(self, arguments: Mapping[str, Any]) -> Tasks:
        if "task" not in arguments:
            raise ToolFault("`update` needs `task`: what changes.")
        chosen = self._chosen(arguments)
        return self._checked(
            items=tuple(
                _changed(each, arguments["task"]) if each.id in chosen else each
                for each in self.items
            )
        )

    def _started(self, arguments: Mapping[str, Any]) -> Tasks:
        chosen, summary = self._chosen(arguments), arguments.get("active_summary")
        for each in self.items:
            if each.id in chosen and each.is_blocked:
                waits = ", ".join(map(str, each.blocked_by or ()))
                raise ToolFault(f"Task {each.id} is blocked: it waits for {waits}.")
        started = self._moved(chosen, "in-progress")
        return attrs.evolve(started, active_summary=(summary or "")[:LONGEST] or None)

    def _moved(self, chosen: frozenset[int], status: TaskStatus) -> Tasks:
        return self._checked(
            items=tuple(
                attrs.evolve(each, status=status) if each.id in chosen else each
                for each in self.items
            )
        )

    def _without(self, chosen: frozenset[int]) -> Tasks:
        left = (each for each in self.items if each.id not in chosen)
        return self._checked(
            items=tuple(
                attrs.evolve(
                    each,
                    blocked_by=tuple(
                        other for other in each.blocked_by or () if other not in chosen
                    )
                    or None,
                )
                for each in left
            )
        )

    def _chosen(self, arguments: Mapping[str, Any]) -> frozenset[int]:
        chosen = frozenset(
            [*arguments.get("ids", ()), *([arguments["id"]] if "id" in arguments else ())]
        )
        unknown = chosen - {each.id for each in self.items}
        if unknown or not chosen:
            known = ", ".join(str(each.id) for each in self.items) or "none"
            named = ", ".join(map(str, sorted(unknown)[:MOST_TASKS])) or "none"
            raise ToolFault(f"Expected `id` or `ids` of tasks, got {named}. Tasks: {known}.")
        return chosen

    def _checked(self, *, items: tuple[TaskItem, ...], last_id: int | None = None) -> Tasks:
        """These tasks, each with whether it is blocked; refused if they can never all be done."""
        if len(items) > MOST_TASKS:
            raise ToolFault(f"Expected at most {MOST_TASKS} tasks, got {len(items)}.")
        waits = {each.id: frozenset(each.blocked_by or ()) for each in items}
        for number, others in waits.items():
            if unknown := others - waits.keys():
                raise ToolFault(f"Task {number} waits for {min(unknown)}, which there is not.")
        left = dict(waits)
        while free := [number for number, others in left.items() if not others & left.keys()]:
            for number in free:
                del left[number]
        if left:
            raise ToolFault(f"Tasks wait for each other: {', '.join(map(str, left))}.")
        done = {each.id for each in items if each.status == "done"}
        return attrs.evolve(
            self,
            items=tuple(
                attrs.evolve(each, is_blocked=not waits[each.id] <= done) for each in items
            ),
            last_id=self.last_id if last_id is None else last_id,
        )


@attrs.define(kw_only=True)
class TaskTool:
    """The tool `task` of one turn.

    Attributes:
        tasks: the list as it is now.
    """

    tasks: Tasks = attrs.field(factory=Tasks)

    name: ClassVar = TASK_TOOL
    effect: ClassVar[Effect] = "read"
    description: ClassVar = (
        "Keep a list of tasks, which the user sees: for work of several steps, not for what is "
        "done at once. `plan` makes the list anew, `start` a task before you work on it, "
        "`complete` it as soon as it is done."
    )
    parameters: ClassVar[Mapping[str, Any]] = _PARAMETERS

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """What the call does, or what is being done now."""
        shown = arguments.get("active_summary") or f"Tasks: {arguments.get('op', '')}"
        return printable(str(shown)[:_SHOWN])

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Nothing is done before the calls that stand before this one."""

        async def run() -> ToolOutput:
            self.tasks = self.tasks.after(arguments)
            return ToolOutput(parts=(TextPart(self.tasks.text),), details=self.tasks.details)

        return PreparedCall(
            run=run,
            summary=self.summary(arguments),
            is_ordered=True,
        )


def lists_in(messages: Iterable[Message]) -> Iterator[tuple[str, Tasks]]:
    """The list after each call of a history that has a result, with the call's id."""
    tasks = Tasks()
    made: dict[str, Mapping[str, Any]] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart) and _is_the_tool(part.server, part.tool):
                made[part.id] = part.arguments or {}
            elif isinstance(part, ToolResultPart) and part.call_id in made:
                with contextlib.suppress(ToolFault):
                    if not part.is_error:
                        tasks = tasks.after(fitting(made[part.call_id], _PARAMETERS))
                yield part.call_id, tasks


def reserved_for(server: str, tool: str) -> TaskDetails | None:
    """An empty list for a call of that name which is none: editors draw nothing else under it."""
    return TaskDetails() if _is_the_tool(server, tool) else None


def _is_the_tool(server: str, tool: str) -> bool:
    return server == NATIVE and tool.removeprefix(PREFIX) == TASK_TOOL


_NEW: Final[Mapping[str, Any]] = {"subject": "", "status": "pending", "priority": "medium"}


def _given(arguments: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    given = [*([arguments["task"]] if "task" in arguments else ()), *arguments.get("tasks", ())]
    if not given:
        raise ToolFault(f"`{arguments['op']}` needs `tasks`, or a `task`.")
    return given


def _changed(item: TaskItem, task: Mapping[str, Any]) -> TaskItem:
    """A task with what is said of it."""
    changes = {key: task[key] for key in ("subject", "description", "priority") if task.get(key)}
    for key in changes.keys() - {"priority"}:
        if len(changes[key]) > LONGEST:
            raise ToolFault(f"{key}: expected at most {LONGEST} characters.")
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
