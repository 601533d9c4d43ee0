"""The terminal's view of a tool call that needs approval.

Invariants: every argument is shown, with the directory and the tool. Each row is indented and fits
the terminal, so nothing in a call can imitate the server's question. Every cut is marked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eca_protocol import json
from eca_protocol import messages as m
from eca_protocol.errors import LocalProtocolError
from eca_server.agent.tools.output import Cap, cut_middle
from eca_server.agent.tools.shell_command import SANDBOX_PLACES, ShellCommand
from eca_server.client.content_formatting import NATIVE, PREFIX
from eca_server.printable import printable_line, printable_lines, rows

if TYPE_CHECKING:
    from eca_server.agent.tools.approval import Memo

_ARGUMENT: Final = Cap(lines=200, size=20_000)
_BEFORE_DIFF: Final = Cap(lines=6, size=500)  # of an argument, if a diff follows
_DIFF: Final = Cap(lines=1000, size=100_000)
_NAME: Final = 100  # characters
_NARROWEST: Final = 20  # columns
_STYLES: Final[Mapping[str, str]] = {"+": "green", "-": "red", "@": "cyan"}  # of a line in a diff
_QUESTIONS: Final[Mapping[str, str]] = {
    "ask_user": "Let the model ask you {question}",
    "bg_job kill": "Kill the background job {job_id}",
    "bg_job list": "List the background jobs",
    "bg_job read_output": "Read the output of the background job {job_id}",
    "call_tool": "Call {name}",
    "directory_tree": "List the files in {path}",
    "edit_file": "Edit {path}",
    "editor_definition": "Ask the editor where {symbol} is defined",
    "editor_diagnostics": "Read the diagnostics of the editor",
    "editor_references": "Ask the editor where {symbol} is used",
    "grep": "Search for {pattern} in {path}",
    "move_file": "Move {source} to {destination}",
    "preview_file_change": "Preview a change of {path}",
    "read_file": "Read {path}",
    "search_tools": "Search the tools for {query}",
    "shell_command": "Run {command}",
    "skill": "Load the skill {name}",
    "spawn_agent": "Start the agent {agent}",
    "task": "Update the task list",
    "view_image": "Send the image {path} to the model",
    "write_file": "Write {path}",
}
"""The question for each native tool, without its mark; values are strings of the arguments."""


def question_of(call: m.ChatToolCallRunContent) -> str:
    """Return the approval question about a call, on one line."""
    tool = _name(call.name.removeprefix(PREFIX))
    if call.origin == "mcp":
        return f"Call `{tool}` of server `{_name(call.server)}`?"
    action = f" {call.arguments.get('action')}" if tool == "bg_job" else ""
    texts = ((key, value) for key, value in call.arguments.items() if isinstance(value, str))
    values = {key: f"`{_name(value)}`" for key, value in texts}
    try:
        question = _QUESTIONS[tool + action].format_map(values)
    except KeyError:  # a custom tool, or a call without an argument
        question = f"Run the tool `{tool}`"
    summary = call.summary or ""
    place = next(filter(summary.endswith, SANDBOX_PLACES), "") if tool == ShellCommand.name else ""
    return f"{question}{place}?"


def call_rows(
    call: m.ChatToolCallRunContent, *, directory: Path | None, width: int, remembered: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield a call in rows for a terminal, each with its style.

    `remembered`: what an approval for the session allows; empty: there is none.
    """
    columns = max(width - 1, _NARROWEST)
    for indent, text in _parts(call, directory):
        for row in rows(printable_lines(text), columns - indent):
            yield f"{' ' * indent}{row}", ""
    if isinstance(call.details, m.FileChangeDetails):
        yield from change_rows(call.details, width=width)
    if remembered:
        advice = f"answer a to allow in this session: {remembered}"
        yield from ((f"  {row}", "") for row in rows(advice, columns - 2))


def remembered_by(call: m.ChatToolCallRunContent, memos: Collection[Memo]) -> str:
    """Return what an approval for the session allows, on one line; empty: it has no effect.

    `memos` are what the server stores. It asks again about a command of which a part has no key.
    """
    details = call.details
    parts = details.commands if isinstance(details, m.ShellCommandDetails) else ()
    has_keys = bool(parts) and all(part.approval_key is not None for part in parts)
    if not has_keys and any(memo.command is not None for memo in memos):
        return ""
    return ", ".join(dict.fromkeys(map(_covered_by, memos)))


def _covered_by(memo: Memo) -> str:
    if memo.command is not None:
        return f"`{_name(memo.command)}`"
    origin = "" if memo.server == NATIVE else f" of the MCP server {_name(memo.server)}"
    return f"calls of `{_name(memo.tool)}`{origin}"


def change_rows(change: m.FileChangeDetails, *, width: int) -> Iterator[tuple[str, str]]:
    """Yield the diff of a file's change in rows for a terminal, each with its style."""
    columns = max(width - 1, _NARROWEST)
    text = f"changes {printable_line(change.path)}:"
    if not change.diff:
        text += " nothing, the content is the same"
    yield from ((f"  {row}", "") for row in rows(text, columns - 2))
    if not change.diff:
        return
    for line in cut_middle(change.diff, _DIFF).removesuffix("\n").split("\n"):
        style = _STYLES.get(line[:1], "")
        for row in rows(printable_lines(line), columns - 4):
            yield f"    {row}", style


def _parts(call: m.ChatToolCallRunContent, directory: Path | None) -> Iterator[tuple[int, str]]:
    """Yield each text with its indentation."""
    origin = f" of the MCP server {_name(call.server)}" if call.origin == "mcp" else ""
    yield 2, f"tool: {_name(call.name)}{origin}"
    if directory is not None:
        yield 2, f"directory: {printable_line(str(_directory_of(call, directory)))}"
    cap = _BEFORE_DIFF if isinstance(call.details, m.FileChangeDetails) else _ARGUMENT
    for name, value in call.arguments.items():
        text = printable_lines(cut_middle(_text(value), cap)).removesuffix("\n")
        if "\n" in text:
            yield 2, f"{_name(name)}:"
            yield 6, text
        else:
            yield 2, f"{_name(name)}: {text}"


def _directory_of(call: m.ChatToolCallRunContent, directory: Path) -> Path:
    """Return the directory of a call: a command's own one, else the workspace's."""
    own = call.arguments.get("working_directory")
    return directory / own if call.origin == "native" and isinstance(own, str) else directory


def _name(text: str) -> str:
    return printable_line(text, longest=_NAME)


def _text(value: Any) -> str:
    """Return a string as it is, and any other argument as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value).decode()
    except LocalProtocolError:
        return repr(value)
