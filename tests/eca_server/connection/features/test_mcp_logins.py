"""Logins of MCP servers that another server of the user's makes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from eca_server.agent.mcp.authorization.login import Login
from eca_server.agent.mcp.errors import MCPError
from eca_server.connection.features import mcp
from eca_server.connection.features.settings import Watcher
from eca_server.models.credentials.logins import Logins
from eca_server.models.credentials.oauth import Client, TokenSet
from eca_server.secret import Secret
from tests.eca_server.agent.chat.mcp_session import status
from tests.eca_server.agent.mcp.fake import Place
from tests.eca_server.connection.features.test_mcp_control import SECRET, Home

URL = "https://mcp.example/mcp"


async def no_thread(*_: Any, **__: Any) -> Any:
    """Fail as on a machine at its limit of threads."""
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    ("has_old_login", "is_refused"), [(False, False), (False, True), (True, False)]
)
async def test_a_login_that_another_server_stores_starts_the_server_once(
    tmp_path, monkeypatch, has_old_login, is_refused
):
    client = Client(id="i", token_url="https://login.example/token")
    tokens = TokenSet(access=Secret(SECRET), obtained_at=0, expires_at=None, client=client)
    old = Secret("revoked")
    starts: list[bool] = []

    @asynccontextmanager
    async def connect(*_: Any, login: Any, **__: Any) -> AsyncIterator[Any]:
        token = await login.token()
        starts.append(token is not None)
        if token in {None, old} or is_refused:
            raise MCPError("it wants a login", kind="login", url="https://login.example/page")
        async with Place().connect() as session:
            yield session

    monkeypatch.setattr(mcp, "connect", connect)
    home = Home(tmp_path)
    home.configure(web={"url": URL})
    logins = Logins({"XDG_DATA_HOME": str(home.data)})
    if has_old_login:
        logins.store(f"mcp:{URL}", attrs.evolve(tokens, access=old, logged_in_at=-1))
    async with home.editor() as ours:
        await status(ours, "web", "requires-auth")
        watcher = Watcher(ours.connection.parts.settings)
        for name in ("openai", f"mcp:{URL}", "anthropic"):
            logins.store(name, tokens if name.startswith("mcp") else Secret(SECRET))
            for _ in range(2):
                await watcher.look()
            if name.startswith("mcp"):
                await status(ours, "web", "requires-auth" if is_refused else "running")
        logins.store(f"mcp:{URL}", attrs.evolve(tokens, access=Secret("renewed elsewhere")))
        await ours.connection.parts.mcp.get().follow_logins()
        with monkeypatch.context() as patch:
            patch.setattr(trio.to_thread, "run_sync", no_thread)
            await ours.connection.parts.mcp.get().follow_logins()
    assert starts == [has_old_login, True]


async def test_two_changes_that_show_one_login_start_its_server_once(tmp_path, monkeypatch):
    starts: list[bool] = []
    checks: list[bool] = []
    was_made_elsewhere = Login.was_made_elsewhere

    @asynccontextmanager
    async def connect(*_: Any, login: Any, **__: Any) -> AsyncIterator[Any]:
        starts.append(await login.token() is not None)
        raise MCPError("it wants a login", kind="login", url="https://login.example/page")
        yield

    monkeypatch.setattr(mcp, "connect", connect)
    home = Home(tmp_path)
    home.configure(web={"url": URL})
    client = Client(id="i", token_url="https://login.example/token")
    tokens = TokenSet(access=Secret(SECRET), obtained_at=0, expires_at=None, client=client)
    async with home.editor() as ours:
        await status(ours, "web", "requires-auth")

        async def check(login: Login) -> bool:
            checks.append(await was_made_elsewhere(login))
            if checks == [True, True]:  # both have read the same login: let the first be refused
                await status(ours, "web", "requires-auth")
            return checks[-1]

        monkeypatch.setattr(Login, "was_made_elsewhere", check)
        Logins({"XDG_DATA_HOME": str(home.data)}).store(f"mcp:{URL}", tokens)
        servers = ours.connection.parts.mcp.get()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(servers.follow_logins)
            nursery.start_soon(servers.follow_logins)
        await trio.testing.wait_all_tasks_blocked()
    assert starts == [False, True]
