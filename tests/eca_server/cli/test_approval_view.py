"""The approval questions of the terminal."""

from __future__ import annotations

from typing import Any

import pytest

from eca_protocol import messages as m
from eca_server.agent.chat.subagents import SPAWN_TOOL
from eca_server.agent.skills.tool import SKILL_TOOL
from eca_server.agent.tools.native import NATIVE_NAMES
from eca_server.cli.approval_view import question_of

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
    assert QUESTIONS.keys() == {*NATIVE_NAMES, SKILL_TOOL, SPAWN_TOOL}
    assert {name: question(name) for name in QUESTIONS} == QUESTIONS
    assert {name: question(f"eca_{name}") for name in QUESTIONS} == QUESTIONS


def test_a_tool_of_an_mcp_server_is_named_with_its_server() -> None:
    assert question("query", server="db", origin="mcp") == "Call `query` of server `db`?"
    assert question("read_file", server="db", origin="mcp") == "Call `read_file` of server `db`?"


def test_a_custom_tool_is_named() -> None:
    assert question("deploy", summary="Running deploy") == "Run the tool `deploy`?"


@pytest.mark.parametrize("arguments", [{}, {"command": 7}, {"path": "a"}])
def test_a_call_without_usable_arguments_names_its_tool(arguments: dict[str, Any]) -> None:
    assert question("shell_command", arguments=arguments) == "Run the tool `shell_command`?"


@pytest.mark.parametrize("place", [" in the sandbox", " outside of the sandbox", ""])
def test_the_question_about_a_command_names_the_sandbox(place: str) -> None:
    summary = f"Running 'touch z.txt' in docs{place}"
    assert question("shell_command", summary=summary) == f"Run `touch z.txt`{place}?"
    assert question("read_file", summary=summary) == "Read `src/a.py`?"


def test_the_actions_of_a_job_have_questions_of_their_own() -> None:
    listed = question("bg_job", arguments={"action": "list"})
    read = question("bg_job", arguments={"action": "read_output", "job_id": "job-1"})
    assert listed == "List the background jobs?"
    assert read == "Read the output of the background job `job-1`?"
