"""An ACP client for tests, at an agent in this process."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from eca_protocol import Peer, memory_pair
from eca_protocol.acp import messages as m
from eca_protocol.acp import open_peer
from eca_server.acp.agent import Agent
from eca_server.agent.chat.store.worker import FileThreads
from eca_server.connection.features.host import Options
from eca_server.connection.server import Server

__all__ = ["Editor", "editing"]


@attrs.define
class Editor:
    """An editor; `choice` is its answer to requests for permission, None for no answer.

    The choice `cancelled` is the outcome of a cancelled turn.
    """

    cwd: Path
    choice: str | None = "allow"
    outcome: Any = "selected"
    log: list[Any] = attrs.field(factory=list)
    peer: Peer = attrs.field(init=False)

    async def call(self, method: str, params: Any) -> Any:
        return await self.peer.start_call(method, params).result(deadline=20)

    async def new(self, **more: Any) -> m.NewSessionResponse:
        params = m.NewSessionRequest(cwd=str(self.cwd), mcp_servers=(), **more)
        answer = await self.call("session/new", params)
        assert isinstance(answer, m.NewSessionResponse)
        return answer

    def start_prompt(self, session_id: str, text: str) -> Any:
        blocks = (m.TextContent(text=text),)
        return self.peer.start_call(
            "session/prompt", m.PromptRequest(session_id=session_id, prompt=blocks)
        )

    async def prompt(self, session_id: str, text: str) -> Any:
        response = await self.start_prompt(session_id, text).result(deadline=20)
        self.log.append(response)
        return response.stop_reason

    def of(self, cls: Any) -> list[Any]:
        return [each for each in self.log if isinstance(each, cls)]

    def text(self) -> str:
        chunks = (chunk.content for chunk in self.of(m.AgentMessageChunk))
        return "".join(each.text for each in chunks if isinstance(each, m.TextContent))

    async def wait_for(self, cls: Any) -> Any:
        with trio.fail_after(20):
            while not self.of(cls):
                await trio.sleep(0.005)
        return self.of(cls)[0]

    def _on_update(self, params: m.SessionNotification) -> None:
        self.log.append(params.update)

    async def _on_permission(
        self, params: m.RequestPermissionRequest
    ) -> m.RequestPermissionResponse:
        self.log.append(params)
        if self.choice is None:
            await trio.sleep_forever()
        outcome = m.PermissionOutcome(outcome=self.outcome, option_id=self.choice)
        if self.choice == "cancelled":
            outcome = m.PermissionOutcome(outcome="cancelled")
        return m.RequestPermissionResponse(outcome=outcome)


@asynccontextmanager
async def editing(
    cwd: Path,
    config: str = "{}",
    *,
    command: Sequence[str] | None = None,
    choice: str | None = "allow",
) -> AsyncIterator[Editor]:
    """Run an agent with an editor that has sent `initialize`."""
    here, there = memory_pair()
    environ = {"HOME": str(cwd / "home"), "ECA_CONFIG": config, "PATH": "/usr/bin:/bin"}
    options = Options(environ=environ, keeps_chats=True, chat_threads=FileThreads())
    agent = Agent(there, command=command)
    if not command:
        answering = attrs.evolve(options, only_answers=True)
        agent = Agent(there, server=lambda: Server(options), answering=lambda: Server(answering))
    editor = Editor(cwd, choice=choice)
    editor.peer = open_peer(
        here,
        side="client",
        handlers={
            "session/update": editor._on_update,
            "session/request_permission": editor._on_permission,
        },
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.serve)
        async with editor.peer:
            editor.peer.start_soon(editor.peer.serve)
            await editor.call("initialize", m.InitializeRequest(protocol_version=1))
            yield editor
