"""The first trial of the SDK by a stranger; trials of a connection are in its own tests."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import eca_protocol
from eca_protocol import sync
from eca_server.models.simulator import DIRECTIVES
from tests.test_documents import BLOCKS, REPOSITORY

FOREIGN = re.compile(r"^(?:import acp|from mcp|from lsprotocol)\b", re.MULTILINE)
"""The imports of other SDKs, whose examples are not for a type checker."""


def public(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


def test_help_shows_no_internals_of_chats_and_turns() -> None:
    chat = {
        *("approve", "clear", "delete", "history", "prompt", "query_commands", "query_context"),
        *("reject", "steer", "stop", "title", "update", "usage"),
    }
    turn = {"contents_with_roles", "start", "stop", "stopped", "text"}
    assert public(eca_protocol.Chat) == chat
    assert public(eca_protocol.Turn) == turn
    assert public(sync.Chat) == chat | {"behavior", "id", "model"}
    assert public(sync.Turn) == turn | {"arguments_texts", "params", "response"}


def test_help_describes_each_option_of_a_connection() -> None:
    for connect in (eca_protocol.connect, sync.connect):
        assert connect.__doc__ is not None
        assert "on_approval: decides about tool calls" in connect.__doc__
        with pytest.raises(TypeError, match="on_aproval"):
            connect(command=["x"], on_aproval="allow")  # type: ignore[call-arg]


def test_the_types_of_a_signature_are_exported() -> None:
    assert {"SERVER_COMMAND", "Transport", "TurnFailed", "memory_pair"} <= set(eca_protocol.__all__)


def test_each_directive_of_the_simulator_is_documented() -> None:
    guide = (REPOSITORY / "docs" / "guides" / "sdk.md").read_text("utf-8")
    for directive, effect in DIRECTIVES.items():
        assert f"| `{directive}` | {effect} |" in guide


@pytest.mark.long
def test_the_examples_hold_for_a_type_checker(tmp_path: Path) -> None:
    for block in BLOCKS:
        if block.kind == "python" and not FOREIGN.search(block.code):
            name = f"{block.path.stem.lower()}_{block.line}.py"
            (tmp_path / name).write_text(block.code, "utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file=", f"--cache-dir={tmp_path}"]
    done = subprocess.run(
        [*command, "--strict", "--no-error-summary", *tmp_path.glob("*.py")],
        cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("", "")


def tasks(nodes: Iterable[ast.AST], lines: list[str], outer: list[str]) -> Iterator[str]:
    """Yield the task of each statement: that of its comment, else that of the one around it."""
    for node in nodes:
        inner = outer
        if isinstance(node, ast.stmt):
            for first in (node, *getattr(node, "decorator_list", ())):
                comment = re.search(r"  # (.+)", lines[first.lineno - 1])
                named = comment[1].split("; ") if comment else outer
                yield from named
                inner = named if first is node else inner
        yield from tasks(ast.iter_child_nodes(node), lines, inner)


def test_the_comparison_counts_the_lines_of_its_programs() -> None:
    text = (REPOSITORY / "docs" / "guides" / "comparison.md").read_text("utf-8")
    counts: dict[str, Counter[str]] = {}
    for section in text.split("\n## ")[1:]:
        sdk = section.partition("\n")[0]
        for code in re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE):
            counts.setdefault(sdk, Counter()).update(
                tasks([ast.parse(code)], code.splitlines(), [])
            )
    rows = [row.strip("| ").split(" | ") for row in re.findall(r"^\|.*", text, re.MULTILINE)]
    (_, *sdks), _, *rows = rows
    assert sdks == list(counts)
    for task, *cells in rows:
        for sdk, cell in zip(sdks, cells, strict=True):
            assert not cell.isdecimal() or counts[sdk][task] == int(cell), (task, sdk)
