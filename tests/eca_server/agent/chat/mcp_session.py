"""Fixtures of tests of turns with MCP servers: fake servers, and their announcements."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from eca_protocol.testing.provider import Provider, Reply
from tests.eca_server.agent.chat.agent_session import older
from tests.eca_server.agent.chat.editor import Editor, editor
from tests.eca_server.agent.mcp.fake import Place

GIT: dict[str, Any] = {"git": {"command": "git-server", "args": ["-v"]}}
URL: dict[str, Any] = {"web": {"url": "https://mcp.example/mcp"}}

Places = Mapping[str, Place]


@contextlib.asynccontextmanager
async def session(
    folder: Path, *script: Reply, servers: Mapping[str, Any] = GIT, **config: Any
) -> AsyncIterator[tuple[Editor, Provider]]:
    """A session in which the first server runs, with a scripted model."""
    async with older(*script, folder=folder, mcpServers=servers, **config) as (ours, provider):
        await status(ours, next(iter(servers)), "running")
        yield ours, provider


@contextlib.asynccontextmanager
async def running(servers: Mapping[str, Any] = GIT, **config: Any) -> AsyncIterator[Editor]:
    """An editor whose first MCP server runs, for tests whose clock jumps."""
    async with with_servers(servers, **config) as ours:
        await status(ours, next(iter(servers)), "running")
        yield ours


def with_servers(
    servers: Mapping[str, Any] = GIT, **config: Any
) -> contextlib.AbstractAsyncContextManager[Editor]:
    """An editor whose server has these MCP servers, for tests whose clock jumps."""
    return editor({"mcpServers": servers, **config})


def updates(ours: Editor, name: str) -> list[dict[str, Any]]:
    return [each for each in ours.notified("tool/serverUpdated") if each["name"] == name]


def statuses(ours: Editor, name: str) -> list[str]:
    return [params["status"] for params in updates(ours, name)]


def shown(ours: Editor) -> list[tuple[str, str]]:
    return [(each["type"], each["message"]) for each in ours.notified("$/showMessage")]


async def status(ours: Editor, name: str, expected: str) -> dict[str, Any]:
    """Read until the server is announced with this status, and return the announcement."""
    return await ours.notice("tool/serverUpdated", name=name, status=expected)
