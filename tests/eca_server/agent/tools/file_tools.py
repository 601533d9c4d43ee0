"""Helpers of the tests of tools: a workspace, and calls as the agent makes them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_protocol.messages import FileChangeDetails, WorkspaceFolder
from eca_protocol.server.roots import parse_roots, uri_of
from eca_server.agent.tools.approval import Policy
from eca_server.agent.tools.files import Files
from eca_server.agent.tools.permissions import Permissions
from eca_server.agent.tools.schemas import check_arguments
from eca_server.agent.tools.tool import PreparedCall, Tool, ToolError, ToolOutput
from eca_server.models.history import TextPart
from eca_server.workspace.boundary import Workspace


def workspace_of(*folders: Path) -> Workspace:
    roots, problems = parse_roots(WorkspaceFolder(uri=uri_of(path)) for path in folders)
    assert not problems
    return Workspace(roots)


def files_in(*folders: Path, **options: Any) -> Files:
    return Files(workspace=workspace_of(*folders), **options)


def write(folder: Path, **contents: str | bytes) -> None:
    """Write files; two underscores in a name stand for a slash."""
    for name, content in contents.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


async def prepare(tool: Tool, **arguments: Any) -> PreparedCall:
    """Prepare a call, whose arguments are checked against the schema of the tool."""
    with trio.fail_after(20):
        return await tool.prepare(check_arguments(arguments, tool.parameters))


async def run(tool: Tool, **arguments: Any) -> ToolOutput:
    call = await prepare(tool, **arguments)
    with trio.fail_after(20):
        return await call.run()


async def refusal(tool: Tool, **arguments: Any) -> str:
    """Return the error of a call that is refused."""
    with pytest.raises(ToolError) as caught:
        await run(tool, **arguments)
    return str(caught.value)


def permissions_in(workspace: Workspace, policy: Policy, **more: Any) -> Permissions:
    more = {"memos": set(), "variables": {}, **more}
    return Permissions(policy=policy, workspace=workspace, **more)


def texts(output: ToolOutput) -> list[str]:
    return [part.text for part in output.parts if isinstance(part, TextPart)]


def text_of(output: ToolOutput) -> str:
    (part,) = output.parts
    return part.text


async def output_text(tool: Tool, **arguments: Any) -> str:
    return text_of(await run(tool, **arguments))


def change_of(done: PreparedCall | ToolOutput) -> FileChangeDetails:
    assert isinstance(done.details, FileChangeDetails)
    return done.details


async def until(holds: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    with trio.fail_after(30):
        while not holds():
            await trio.sleep(0.002)
