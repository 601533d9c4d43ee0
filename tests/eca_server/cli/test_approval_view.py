"""The approval questions of the terminal."""

from typing import Any

import attrs
import pytest

from eca_protocol import messages as m
from eca_server.agent.chat.subagents import SPAWN_TOOL
from eca_server.agent.skills.skills import SKILL_TOOL
from eca_server.agent.tools.approval import Memo
from eca_server.agent.tools.native import NATIVE_NAMES
from eca_server.cli.approval_view import call_rows, change_rows, question_of, remembered_by

ARGUMENTS = {
    "action": "kill",
    "agent": "explorer",
    "command": "touch z.txt",
    "destination": "docs/b.md",
    "job_id": "job-1",
    "name": "db__query",
    "path": "src/a.py",
    "pattern": "TODO",
    "query": "issues",
    "question": "Which port?",
    "source": "a.md",
    "symbol": "main",
}
QUESTIONS = {
    "ask_user": "Let the model ask you `Which port?`?",
    "bg_job": "Kill the background job `job-1`?",
    "call_tool": "Call `db__query`?",
    "directory_tree": "List the files in `src/a.py`?",
    "edit_file": "Edit `src/a.py`?",
    "editor_definition": "Ask the editor where `main` is defined?",
    "editor_diagnostics": "Read the diagnostics of the editor?",
    "editor_references": "Ask the editor where `main` is used?",
    "grep": "Search for `TODO` in `src/a.py`?",
    "move_file": "Move `a.md` to `docs/b.md`?",
    "preview_file_change": "Preview a change of `src/a.py`?",
    "read_file": "Read `src/a.py`?",
    "search_tools": "Search the tools for `issues`?",
    "shell_command": "Run `touch z.txt`?",
    "skill": "Load the skill `db__query`?",
    "spawn_agent": "Start the agent `explorer`?",
    "task": "Update the task list?",
    "view_image": "Send the image `src/a.py` to the model?",
    "write_file": "Write `src/a.py`?",
}


def question(name: str, **members: Any) -> str:
    members = {"server": "eca", "origin": "native", "arguments": ARGUMENTS, **members}
    return question_of(m.ChatToolCallRunContent(id="1", name=name, **members))


def test_every_native_tool_has_a_question() -> None:
    names = {*NATIVE_NAMES, SKILL_TOOL, SPAWN_TOOL}
    assert QUESTIONS.keys() == names, "write it in _QUESTIONS of approval_view.py and here"
    assert {name: question(name) for name in QUESTIONS} == QUESTIONS
    assert {name: question(f"eca_{name}") for name in QUESTIONS} == QUESTIONS


LISTED = {"action": "list"}
READ = {"action": "read_output", "job_id": "job-1"}
INSIDE = "Running 'touch z.txt' in docs in the sandbox"
OUTSIDE = "Running 'touch z.txt' in docs outside of the sandbox"


@pytest.mark.parametrize(
    ("name", "members", "expected"),
    [
        ("query", {"server": "db", "origin": "mcp"}, "Call `query` of server `db`?"),
        ("read_file", {"server": "db", "origin": "mcp"}, "Call `read_file` of server `db`?"),
        ("deploy", {"summary": "Running deploy"}, "Run the tool `deploy`?"),
        ("shell_command", {"arguments": {}}, "Run the tool `shell_command`?"),
        ("shell_command", {"arguments": {"command": 7}}, "Run the tool `shell_command`?"),
        ("shell_command", {"summary": INSIDE}, "Run `touch z.txt` in the sandbox?"),
        ("shell_command", {"summary": OUTSIDE}, "Run `touch z.txt` outside of the sandbox?"),
        ("read_file", {"summary": INSIDE}, "Read `src/a.py`?"),
        ("bg_job", {"arguments": LISTED}, "List the background jobs?"),
        ("bg_job", {"arguments": READ}, "Read the output of the background job `job-1`?"),
    ],
)
def test_a_call_has_a_question_of_its_own(name: str, members: Any, expected: str) -> None:
    assert question(name, **members) == expected


COMMAND = m.ShellCommandBreakdown(command="git", args=("add", "."), approval_key="git add")
UNKNOWN_COMMAND = m.ShellCommandBreakdown(command="bash", args=("x.sh",))
GIT_ADD = Memo(server="eca", tool="shell_command", command="git add")
DB_QUERY = Memo(server="db", tool="query")


@pytest.mark.parametrize(
    ("name", "commands", "memos", "expected"),
    [
        ("write_file", (), [Memo(server="eca", tool="write_file")], "calls of `write_file`"),
        ("write_file", (), [], ""),  # outside the workspace
        ("shell_command", (COMMAND, COMMAND), [GIT_ADD, GIT_ADD], "`git add`"),
        ("shell_command", (COMMAND, UNKNOWN_COMMAND), [GIT_ADD], ""),
        ("shell_command", (), [attrs.evolve(GIT_ADD, command="$(x)")], ""),
        ("query", (), [DB_QUERY], "calls of `query` of the MCP server db"),
        ("call_tool", (), [DB_QUERY], "calls of `query` of the MCP server db"),
    ],
)
def test_an_approval_for_the_session_says_what_it_allows_where_it_has_an_effect(
    name: str, commands: Any, memos: Any, expected: str
) -> None:
    details = m.ShellCommandDetails(commands=commands) if commands else None
    values: dict[str, Any] = {"arguments": {}, "manual_approval": True, "details": details}
    call = m.ChatToolCallRunContent(id="1", name=name, origin="native", server="eca", **values)
    assert remembered_by(call, memos) == expected
    last = [row for row, _ in call_rows(call, directory=None, width=100, remembered=expected)][-1]
    assert last.endswith(f"answer a to allow in this session: {expected}") is bool(expected)


def test_a_change_to_the_same_content_is_named_as_such() -> None:
    change = m.FileChangeDetails(path="/a", diff="", lines_added=0, lines_removed=0)
    rows = [row for row, _ in change_rows(change, width=80)]
    assert rows == ["  changes /a: nothing, the content is the same"]
