"""Helpers of the tests of file tools: a workspace, and calls as the agent makes them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trio

from eca_protocol.messages import FileChangeDetails, WorkspaceFolder
from eca_protocol.server.roots import parse_roots, uri_of
from eca_server.agent.tools.files import Files
from eca_server.agent.tools.schema_check import check_arguments
from eca_server.agent.tools.tool import PreparedCall, Tool, ToolOutput
from eca_server.models.history import TextPart
from eca_server.workspace.boundary import Workspace


def files_in(*folders: Path, **options: Any) -> Files:
    roots, problems = parse_roots(WorkspaceFolder(uri=uri_of(path)) for path in folders)
    assert not problems
    return Files(workspace=Workspace(roots), **options)


async def prepare(tool: Tool, **arguments: Any) -> PreparedCall:
    """Prepare a call, whose arguments are checked against the schema of the tool."""
    with trio.fail_after(20):
        return await tool.prepare(check_arguments(arguments, tool.parameters))


async def run(tool: Tool, **arguments: Any) -> ToolOutput:
    call = await prepare(tool, **arguments)
    with trio.fail_after(20):
        return await call.run()


def text_of(output: ToolOutput) -> str:
    (part,) = output.parts
    assert isinstance(part, TextPart)
    return part.text


async def output_text(tool: Tool, **arguments: Any) -> str:
    return text_of(await run(tool, **arguments))


def change_of(done: PreparedCall | ToolOutput) -> FileChangeDetails:
    assert isinstance(done.details, FileChangeDetails)
    return done.details


def stop_at_checkpoints(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, scope: trio.CancelScope
) -> None:
    """Stop a call from inside its thread, at the module's next checkpoint."""
    look = trio.from_thread.check_cancelled

    def checkpoint() -> None:
        trio.from_thread.run_sync(scope.cancel)
        look()

    monkeypatch.setattr(module, "checkpoint", checkpoint)
