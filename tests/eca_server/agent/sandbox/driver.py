"""Runs commands in a real sandbox, and in a home and a workspace made for them."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_protocol.messages import WorkspaceFolder
from eca_protocol.server.roots import parse_roots, uri_of
from eca_server.agent.sandbox.detect import capability
from eca_server.agent.sandbox.sandbox import Sandbox
from eca_server.agent.tools.schema_check import check_arguments
from eca_server.agent.tools.shell_command import ShellCommand
from eca_server.agent.tools.tool import Tool, ToolOutput
from eca_server.models.history import TextPart
from eca_server.workspace.boundary import Workspace

needs_bubblewrap = pytest.mark.skipif(
    capability().kind != "bubblewrap",
    reason=f"no command can run in a bubblewrap sandbox here: {capability().why_not}",
)

SECRET = "not-to-be-read"


class World:
    """A home directory, a workspace in it, and further files of a test."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.home = place / "home"
        self.root = self.home / "work/project"
        self.root.mkdir(parents=True)
        self.environ: dict[str, str] = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "LC_ALL": "C",
        }

    def write(self, path: str, text: str = "") -> Path:
        """Make a file, by its path from the home."""
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def sandbox(self, **options: Any) -> Sandbox:
        roots = options.pop("roots", (self.root,))
        values: dict[str, Any] = {"mode": "auto", "environ": self.environ, **options}
        return Sandbox(roots=tuple(roots), **values)

    def tool(
        self, sandbox: Sandbox | None = None, more: Mapping[str, str] | None = None, **options: Any
    ) -> ShellCommand:
        used = sandbox or self.sandbox()
        roots, problems = parse_roots(WorkspaceFolder(uri=uri_of(path)) for path in used.roots)
        assert not problems
        environment = {**self.environ, **(more or {})}
        return ShellCommand(
            workspace=Workspace(roots), environment=environment, sandbox=used, **options
        )

    async def run(self, command: str, **arguments: Any) -> ToolOutput:
        return await run(self.tool(), command, **arguments)

    async def output_of(self, command: str, **options: Any) -> str:
        """Run a command in a sandbox with these options and return its whole output."""
        return texts(await run(self.tool(self.sandbox(**options)), command))


def python(*lines: str) -> str:
    """Return a command that runs these lines of Python."""
    return f"{shlex.quote(sys.executable)} -S -c {shlex.quote(chr(10).join(lines))}"


async def run(tool: Tool, command: str, **arguments: Any) -> ToolOutput:
    call = await tool.prepare(check_arguments({"command": command, **arguments}, tool.parameters))
    with trio.fail_after(30):
        return await call.run()


def texts(output: ToolOutput) -> str:
    return "\n".join(part.text for part in output.parts if isinstance(part, TextPart))
