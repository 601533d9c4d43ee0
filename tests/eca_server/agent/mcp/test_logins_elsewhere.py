"""A login at an MCP server that another editor of the user's stores, or removes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from eca_protocol.http import HTTPClient
from eca_server.agent.mcp.authorization.login import Login
from eca_server.models.credentials.logins import Logins
from eca_server.models.credentials.oauth import Client, TokenSet
from eca_server.secret import Secret

URL = "https://mcp.example.com/mcp"
A_LOGIN = TokenSet(
    access=Secret("access-1"),
    refresh=None,
    expires_at=None,
    obtained_at=time.time(),
    client=Client(id="c", token_url="https://mcp.example.com/token"),
)


@pytest.fixture
async def login(tmp_path: Path, nursery: trio.Nursery) -> AsyncIterator[Login]:
    async with HTTPClient() as http:
        yield Login(URL, http=http, logins=elsewhere(tmp_path), nursery=nursery)


def elsewhere(folder: Path) -> Logins:
    return Logins({"XDG_DATA_HOME": str(folder)})


async def test_a_login_made_elsewhere_counts_here(login, tmp_path):
    assert await login.token() is None
    assert not login.is_known
    elsewhere(tmp_path).store(login.key, A_LOGIN)
    assert await login.token() == A_LOGIN.access
    assert login.is_known


async def test_a_new_login_of_another_process_replaces_a_refused_one(login, tmp_path):
    elsewhere(tmp_path).store(login.key, A_LOGIN)
    assert await login.token() == A_LOGIN.access
    assert not await login.renew_refused(A_LOGIN.access)
    new = TokenSet(
        access=Secret("access-2"),
        refresh=None,
        expires_at=None,
        obtained_at=time.time(),
        client=A_LOGIN.client,
    )
    elsewhere(tmp_path).store(login.key, new)
    assert await login.renew_refused(A_LOGIN.access)
    assert await login.token() == new.access


async def test_the_file_is_read_again_only_if_it_has_changed(login, tmp_path, monkeypatch):
    reads = []
    read = Logins.read
    monkeypatch.setattr(Logins, "read", lambda logins: reads.append(1) or read(logins))
    elsewhere(tmp_path).store("another", A_LOGIN)
    for _ in range(9):
        assert await login.token() is None
    assert len(reads) == 1


async def test_a_logout_wins_over_a_concurrent_read_of_the_file(login, tmp_path, monkeypatch):
    elsewhere(tmp_path).store(login.key, A_LOGIN)
    is_read, may_go_on, read = trio.Event(), trio.Event(), Logins.read

    def slowly(logins: Logins) -> object:
        found = read(logins)
        trio.from_thread.run_sync(is_read.set)
        trio.from_thread.run(may_go_on.wait)
        return found

    monkeypatch.setattr(Logins, "read", slowly)
    async with trio.open_nursery() as reading:
        reading.start_soon(login.token)
        await is_read.wait()
        assert await login.forget()
        may_go_on.set()
    assert not login.is_known
