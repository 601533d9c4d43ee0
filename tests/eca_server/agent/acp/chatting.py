"""An editor whose chat a scripted ACP agent answers, in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import trio

from eca_protocol import json
from eca_protocol.server.roots import uri_of
from tests.eca_server.agent.chat.current import CURRENT
from tests.eca_server.agent.chat.editor import Content, Editor, contents, editor

AGENT = Path(__file__).with_name("scripted_agent.py")
PROJECT = Path(__file__).parents[4]
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

    async def wait_for(self, kind: str, count: int = 1) -> list[list[Any]]:
        with trio.fail_after(20):
            while len(self.of(kind)) < count:
                await trio.sleep(0.005)
        return self.of(kind)


@asynccontextmanager
async def chatting(
    tmp_path: Path,
    *,
    data: Path | None = None,
    config: Any = None,
    environ: Mapping[str, str] = MappingProxyType({}),
    **options: Any,
) -> AsyncIterator[tuple[Editor, Log]]:
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    log = Log(tmp_path / "log")
    run = (
        f"import sys; sys.path.insert(0, {str(PROJECT)!r}); import runpy; sys.argv = sys.argv[1:]; "
    )
    run += f"runpy.run_path({str(AGENT)!r}, run_name='__main__')"
    given = json.dumps({"log": str(log.file), **options}).decode()
    command = [sys.executable, "-P", "-c", run, "agent", given]
    providers = {"robot": {"api": "acp", "command": command}}
    settings = {**(config or {}), "providers": {**providers, **(config or {}).get("providers", {})}}
    variables: dict[str, Any] = {
        **environ,
        **({} if data is None else {"XDG_DATA_HOME": str(data)}),
    }
    folders = [{"name": "w", "uri": uri_of(folder)}]
    async with editor(settings, started=False, keeps_chats=data is not None, **variables) as ours:
        await ours.start(capabilities=CURRENT, workspaceFolders=folders)
        yield ours, log


async def turn(ours: Editor, script: str, **more: Any) -> list[Content]:
    """One turn of the agent; its contents without the echo of the prompt."""
    begun = len(ours.seen)
    await ours.send(ours.prompt_request(script, model=MODEL, **more))
    await ours.expect_finished()
    return since(ours, begun)


def since(ours: Editor, begun: int) -> list[Content]:
    return [content for role, content in contents(ours.seen[begun:]) if role != "user"]


def of_type(got: list[Content], kind: str) -> list[Content]:
    return [content for content in got if content["type"] == kind]


async def approve(ours: Editor, *, accept: bool = True, **more: Any) -> Content:
    """Wait for a call that needs approval, and decide; the call."""
    call = await ours.content("toolCallRun", manualApproval=True)
    method = "chat/toolCallApprove" if accept else "chat/toolCallReject"
    await ours.tell(method, {"chatId": "c", "toolCallId": call["id"], **more})
    return call
