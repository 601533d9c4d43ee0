"""An editor whose chat a scripted ACP agent answers, in a process of its own."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import trio

from eca_protocol import json
from tests.eca_server import fork_server
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import Content, Editor, contents

MODEL = "acp/robot"


class Log:
    """The log of the agent."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def of(self, kind: str) -> list[list[Any]]:
        if not self.file.exists():
            return []
        entries = map(json.loads, self.file.read_bytes().splitlines())
        return [each[1:] for each in entries if each[0] == kind]

    async def wait_for(self, kind: str) -> list[list[Any]]:
        with trio.fail_after(20):
            while not self.of(kind):
                await trio.sleep(0.005)
        return self.of(kind)


def editor_with(
    command: tuple[str, ...], folder: Path, config: Any = None, **options: Any
) -> AbstractAsyncContextManager[Editor]:
    """Return an editor of a folder; the program is the model `robot`."""
    config = config or {}
    robot = {"robot": {"api": "acp", "command": [*command]}}
    settings = {**config, "providers": {**robot, **config.get("providers", {})}}
    return current(settings, folder=folder, **options)


@asynccontextmanager
async def chatting(
    tmp_path: Path,
    *,
    config: Any = None,
    is_stored: bool = False,
    environ: Mapping[str, str] = MappingProxyType({}),
    **options: Any,
) -> AsyncIterator[tuple[Editor, Log]]:
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    log = Log(tmp_path / "log")
    script = json.dumps({"log": str(log.file), **options}).decode()
    command = (*fork_server.command("tests.eca_server.agent.acp.scripted_agent"), script)
    data = tmp_path / "data" if is_stored else None
    async with editor_with(command, folder, config, data=data, environ=environ) as ours:
        yield ours, log


async def begin(ours: Editor, script: str, **more: Any) -> None:
    await ours.send(ours.prompt_request(script, model=MODEL, **more))


async def turn(ours: Editor, script: str, *decisions: bool, **more: Any) -> list[Content]:
    """Return the contents of a turn, in which the user decides calls in this order."""
    begun = len(ours.received)
    await begin(ours, script, **more)
    for accept in decisions:
        await decide(ours, accept=accept)
    await ours.expect_finished()
    return since(ours, begun)


async def decide(ours: Editor, *, accept: bool) -> Content:
    """Wait for a call that needs approval, and decide; the call."""
    call = await ours.content("toolCallRun", manualApproval=True)
    await (ours.approve(call) if accept else ours.reject(call))
    return call


def since(ours: Editor, begun: int) -> list[Content]:
    """Return the contents since a moment, without the echo of the prompt."""
    return [content for role, content in contents(ours.received[begun:]) if role != "user"]


def of_type(got: list[Content], kind: str) -> list[Content]:
    return [content for content in got if content["type"] == kind]


def ask(call_id: str = "t", **members: Any) -> str:
    """Return the line of a script that asks for a permission."""
    return f"ask {as_json({'id': call_id, 'kind': 'edit', 'input': {}, **members})}"


def tool(**members: Any) -> str:
    """Return the line of a script that shows a call."""
    return f"tool {as_json({'id': 't', 'kind': 'execute', **members})}"


def as_json(value: Any) -> str:
    return json.dumps(value).decode()


DONE = tool(update=True, status="completed")
