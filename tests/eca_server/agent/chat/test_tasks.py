"""The model's list of tasks: returned by each call, stored with the chat's calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.tools.schema_check import check_arguments
from eca_server.agent.tools.tasks import MOST_TASKS, Tasks, TaskTool, lists_in
from eca_server.agent.tools.tool import ToolError
from eca_server.models.history import Message, TextPart, ToolCallPart, ToolResultPart
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import SCRIPT, Content

PLAN = {
    "op": "plan",
    "tasks": [
        {"subject": "look", "priority": "high"},
        {"subject": "mend", "description": "all of it", "blocked_by": [1]},
    ],
}
START = {"op": "start", "id": 1, "active_summary": "Looking"}
DONE = {"op": "complete", "ids": [1]}


def line(**arguments: Any) -> str:
    return f"call eca_task {json.dumps(arguments)}"


def of_tasks(received: list[Content]) -> list[Content]:
    return [each for each in received if each["type"] == "toolCalled" and each["name"] == "task"]


@pytest.mark.requirement("VALUE:TaskDetails.type=task")
async def test_a_list_is_sent_with_each_call_and_is_there_when_the_chat_is_opened(tmp_path):
    async with current(data=tmp_path) as ours:
        received = await ours.turn("\n".join([line(**PLAN), line(**START)]), model=SCRIPT)
        _, started = of_tasks(received)
        assert started["server"] == "eca"
        assert started["details"] == {
            "type": "task",
            "tasks": [
                {"id": 1, "subject": "look", "description": "", "status": "in-progress",
                 "priority": "high", "isBlocked": False},
                {"id": 2, "subject": "mend", "description": "all of it", "status": "pending",
                 "priority": "medium", "isBlocked": True, "blockedBy": [1]},
            ],
            "inProgressTaskIds": [1],
            "summary": {"done": 0, "inProgress": 1, "pending": 1, "total": 2},
            "activeSummary": "Looking",
        }  # fmt: skip
        (done,) = of_tasks(await ours.turn(line(**DONE), model=SCRIPT))
        listed = "1. [done, high] look\n2. [pending, medium] mend: all of it"
        assert done["outputs"][0]["text"] == listed
    async with current(data=tmp_path) as ours:
        await ours.ask("chat/open", {"chatId": "c"})
        again = of_tasks(ours.contents())
        assert [each["details"] for each in again[1:]] == [started["details"], done["details"]]
        (read,) = of_tasks(await ours.turn(line(op="read"), model=SCRIPT))
        assert read["details"] == done["details"]


async def test_an_older_client_has_no_list():
    async with current(capabilities={}) as ours:
        received = await ours.turn(line(**PLAN), model=SCRIPT)
        assert "There is no tool" in str(received)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"op": "plan"}, "`plan` requires `tasks`"),
        ({"op": "add", "task": {"subject": " "}}, "subject: expected a subject"),
        ({"op": "add", "task": {"subject": "x" * 2001}}, "at most 2000 characters"),
        ({"op": "add", "tasks": [{"subject": "x"}] * MOST_TASKS}, "at most 100 tasks, got 102"),
        ({"op": "start", "id": 2}, "Task 2 is blocked: complete 1 first."),
        ({"op": "complete"}, "Expected `id` or `ids` of tasks, got none. Tasks: 1, 2."),
        ({"op": "delete", "ids": [1, 7]}, "got 7"),
        ({"op": "update", "id": 1}, "`update` requires `task`"),
        ({"op": "update", "id": 1, "task": {"blocked_by": [2]}}, "wait for each other: 1, 2"),
        ({"op": "update", "id": 1, "task": {"blocked_by": [9]}}, "for 9, which does not exist"),
    ],
)
def test_what_cannot_be_done_is_reported_and_changes_nothing(arguments, told):
    with pytest.raises(ToolError, match=told):
        Tasks().after(PLAN).after(arguments)


IDS = st.integers(1, 6)
TASKS = st.fixed_dictionaries(
    {"subject": st.sampled_from(["", "a", "b"])},
    optional={"blocked_by": st.lists(IDS, max_size=3), "priority": st.just("low")},
)
CALLS = st.fixed_dictionaries(
    {"op": st.sampled_from(TaskTool.parameters["properties"]["op"]["enum"])},
    optional={
        "id": IDS,
        "ids": st.lists(IDS, max_size=3),
        "task": TASKS,
        "tasks": st.lists(TASKS, max_size=4),
        "active_summary": st.none() | st.text(max_size=3),
    },
)


@given(st.lists(CALLS, max_size=12))
def test_the_list_of_a_history_is_the_list_its_calls_have_made(calls):
    tasks, history = Tasks(), []
    for number, arguments in enumerate(calls):
        is_error = False
        try:
            tasks = tasks.after(check_arguments(arguments, TaskTool.parameters))
        except ToolError:
            is_error = True
        made = ToolCallPart(
            id=str(number), name="eca_task", raw="", arguments=arguments, server="eca", tool="task"
        )
        result = ToolResultPart(call_id=made.id, parts=(TextPart("x"),), is_error=is_error)
        history += [Message(role="assistant", parts=(made,)), Message(role="tool", parts=(result,))]
    found = [each for _, each in lists_in(history)]
    assert (found or [Tasks()])[-1] == tasks
    shown = tasks.details
    counted = shown.summary
    assert counted.done + counted.in_progress + counted.pending == counted.total == len(tasks.items)
    done = {each.id for each in tasks.items if each.status == "done"}
    assert all(each.is_blocked == (not {*(each.blocked_by or ())} <= done) for each in shown.tasks)
    assert len({each.id for each in tasks.items}) == len(tasks.items)
