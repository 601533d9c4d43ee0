"""The terminal's view of a tool call that needs approval.

Invariants: every argument is shown, with the directory and the tool. Each row is indented and fits
the terminal, so nothing in a call can imitate the server's question. Every cut is marked.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from eca_protocol import json
from eca_protocol import messages as m
from eca_protocol.errors import LocalProtocolError
from eca_server.printable import printable_line, printable_lines, rows
from eca_server.tools.output import Cap, cut_middle

__all__ = ["call_rows", "question_of"]

_ARGUMENT: Final = Cap(lines=200, size=20_000)
_BEFORE_DIFF: Final = Cap(lines=6, size=500)  # of an argument, if a diff follows
_DIFF: Final = Cap(lines=1000, size=100_000)
_SUMMARY: Final = 200  # characters
_NAME: Final = 100
_NARROWEST: Final = 20  # columns


def question_of(call: m.ChatToolCallRunContent) -> str:
    """Return the approval question about a call, on one line."""
    return f"{printable_line(call.summary or call.name, longest=_SUMMARY)}?"


def call_rows(call: m.ChatToolCallRunContent, *, directory: Path | None, width: int) -> str:
    """Return a call in rows for a terminal.

    Args:
        call: the waiting call.
        directory: the directory of the workspace, if there is one.
        width: columns of the terminal.
    """
    columns = max(width - 1, _NARROWEST)
    return "".join(
        f"{' ' * indent}{row}\n"
        for indent, text in _parts(call, directory)
        for row in rows(printable_lines(text), columns - indent)
    )


def _parts(call: m.ChatToolCallRunContent, directory: Path | None) -> Iterator[tuple[int, str]]:
    """Yield each text with its indentation."""
    origin = f" of the MCP server {_name(call.server)}" if call.origin == "mcp" else ""
    yield 2, f"tool: {_name(call.name)}{origin}"
    if directory is not None:
        yield 2, f"directory: {printable_line(str(_directory_of(call, directory)))}"
    change = call.details if isinstance(call.details, m.FileChangeDetails) else None
    cap = _ARGUMENT if change is None else _BEFORE_DIFF
    for name, value in call.arguments.items():
        text = printable_lines(cut_middle(_text(value), cap)).removesuffix("\n")
        if "\n" in text:
            yield 2, f"{_name(name)}:"
            yield 6, text
        else:
            yield 2, f"{_name(name)}: {text}"
    if change is not None:
        yield 2, f"changes {printable_line(change.path)}:"
        yield 4, cut_middle(change.diff, _DIFF).removesuffix("\n")


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
