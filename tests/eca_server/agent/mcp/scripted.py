"""Sessions with the scripted server."""

import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pytest

from eca_server.agent.mcp.connection import connect
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.agent.mcp.session import Session
from eca_server.config.mcp_settings import MCPServer

STATELESS = "2026-07-28"
SERVER = Path(__file__).with_name("scripted_server.py")


def scripted(script: dict[str, Any] | None = None, **changes: Any) -> MCPServer:
    """Return the settings of a server that follows a script."""
    arguments = ("-S", "-E", str(SERVER), json.dumps(script or {}))
    settings: dict[str, Any] = {"command": sys.executable, "args": arguments, **changes}
    return MCPServer(**settings)


@contextlib.asynccontextmanager
async def talking_to(
    settings: MCPServer,
    log: ServerLog | None = None,
    roots: Any = lambda: (),
    **options: Any,
) -> AsyncIterator[Session]:
    """Open a session with a server, in the environment of the tests."""
    async with connect(
        settings, environment=dict(os.environ), roots=roots, log=log or ServerLog("bad"), **options
    ) as session:
        yield session


@contextlib.asynccontextmanager
async def session_with(
    script: dict[str, Any] | None = None, log: ServerLog | None = None, **changes: Any
) -> AsyncIterator[Session]:
    """Open a session with a server that follows a script."""
    async with talking_to(scripted(script, **changes), log) as session:
        yield session


@contextlib.asynccontextmanager
async def stateless_session(
    on: dict[str, Any], log: ServerLog | None = None, **capabilities: Any
) -> AsyncIterator[Session]:
    """Open a session without a handshake, with a server that follows a script."""
    discovery = {"supportedVersions": [STATELESS], "capabilities": {"tools": {}, **capabilities}}
    script = {"on": {"server/discover": [["result", discovery]], **on}}
    async with session_with(script, log, protocol=STATELESS) as session:
        yield session


async def error_of(call: Awaitable[Any]) -> MCPError:
    """Return the error of a call that fails."""
    with pytest.raises(MCPError) as raised:
        await call
    return raised.value


async def failure(session: contextlib.AbstractAsyncContextManager[Session]) -> MCPError:
    """Return the error of a session that cannot start."""
    with pytest.raises(MCPError) as raised:
        async with session:
            pass
    return raised.value


def pid_in(log: ServerLog, which: str = "child") -> int:
    """Return the process id of the server, or of its child, that the server has logged."""
    lines = log.last_lines(20).splitlines()
    return int(next(line for line in lines if line.startswith(f"{which} ")).split()[1])
