"""Runs commands in a real sandbox, and in a home and a workspace made for them."""

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_server.agent.sandbox.detect import capability
from eca_server.agent.sandbox.sandbox import Sandbox
from eca_server.agent.tools.schemas import check_arguments
from eca_server.agent.tools.shell_command import ShellCommand
from eca_server.agent.tools.tool import ToolOutput
from eca_server.config.tool_settings import SandboxSettings
from tests.eca_server.agent.context.conftest import write
from tests.eca_server.agent.tools.file_tools import texts, workspace_of

PYTHON = Path(sys.executable).resolve()
"""The interpreter without its environment, which a sandbox hides if it is below `/tmp`."""

needs_bubblewrap = pytest.mark.skipif(
    capability().kind != "bubblewrap",
    reason=f"no command can run in a bubblewrap sandbox here: {capability().why_not}",
)

SETTINGS = {"mode", "network", "writable"}
SECRET = "not-to-be-read"


class World:
    """A home directory, a workspace in it, and further files of a test."""

    def __init__(self, place: Path) -> None:
        self.home = place / "home"
        self.root = self.home / "work/project"
        self.root.mkdir(parents=True, exist_ok=True)
        self.environ = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LC_ALL": "C"}

    def write(self, path: str, text: str = "") -> Path:
        """Make a file, by its path from the home."""
        return write(self.home / path, text)

    def sandbox(self, roots: tuple[Path, ...] = (), **options: Any) -> Sandbox:
        own = {name: options.pop(name) for name in SETTINGS & options.keys()}
        settings = SandboxSettings(**{"mode": "auto", **own})
        values: dict[str, Any] = {"environ": self.environ, **options}
        return Sandbox(settings=settings, roots=roots or (self.root,), **values)

    def tool(self, sandbox: Sandbox | None = None, **options: Any) -> ShellCommand:
        used = sandbox or self.sandbox()
        workspace = workspace_of(*used.roots)
        options = {"environment": self.environ, **options}
        return ShellCommand(workspace=workspace, sandbox=used, **options)

    async def run(
        self, command: str, tool: ShellCommand | None = None, **arguments: Any
    ) -> ToolOutput:
        tool = tool or self.tool()
        checked = check_arguments({"command": command, **arguments}, tool.parameters)
        with trio.fail_after(30):
            return await (await tool.prepare(checked)).run()

    async def output_of(self, command: str, **options: Any) -> str:
        """Run a command in a sandbox with these options and return its whole output."""
        return "\n".join(texts(await self.run(command, self.tool(self.sandbox(**options)))))


def python(*lines: str) -> str:
    """Return a command that runs these lines of Python."""
    return f"{shlex.quote(str(PYTHON))} -S -c {shlex.quote(chr(10).join(lines))}"


@pytest.fixture
def world() -> Iterator[World]:
    """Create a world outside `/tmp`, which a sandbox replaces by a private one."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    caches.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="eca-sandbox-", dir=caches)).resolve()
    try:
        yield World(place)
    finally:
        shutil.rmtree(place)
