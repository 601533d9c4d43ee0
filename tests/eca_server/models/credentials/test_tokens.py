"""The renewal of tokens: its time, its owner, and the storage of new tokens."""

import fcntl
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from eca_protocol.errors import ECAError, HTTPError
from eca_protocol.http import HTTPClient
from eca_server.config import lock
from eca_server.models.credentials.logins import Logins
from eca_server.models.credentials.oauth import Client, LoggedOut, OAuthError, TokenSet
from eca_server.models.credentials.tokens import Tokens
from eca_server.secret import Secret
from tests.eca_server.models.credentials.fake_keyring import FakeKeyring
from tests.eca_server.models.credentials.login_server import (
    LoginServer,
    login_server,
    tokens_of,
)
from tests.tasks import run_in

NOW = 1_000_000.0
OLD, NEW = Secret("access-0"), Secret("access-1")


@attrs.define
class World:
    server: LoginServer
    http: HTTPClient
    logins: Logins
    now: float = NOW
    hidden: set[Secret] = attrs.field(factory=set)

    def stored(self) -> TokenSet:
        return self.logins.read().tokens["p"]

    def tokens(self, *, lock_seconds: float = 60, **changed: Any) -> Tokens:
        """Return the tokens as a newly started server has them."""
        return Tokens(
            "p",
            attrs.evolve(self.stored(), **changed),
            logins=self.logins,
            http=self.http,
            hide=self.hidden.update,
            clock=lambda: self.now,
            lock_seconds=lock_seconds,
        )

    def change(self, **changed: Any) -> None:
        """Change the stored login, as another server does."""
        self.logins.store("p", attrs.evolve(self.stored(), **changed))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with login_server() as server, HTTPClient() as http:
        logins = Logins({"XDG_DATA_HOME": str(tmp_path)})
        logins.store("p", tokens_of(server.url, expires_at=NOW + 30, obtained_at=NOW - 3600))
        with trio.fail_after(20):
            yield World(server, http, logins)


@pytest.mark.parametrize(
    ("ends_at", "now", "is_renewed"),
    [
        (NOW + 61, NOW, False),
        (NOW + 59, NOW, True),
        (NOW - 1, NOW, True),
        (None, NOW, False),
        (NOW + 3600, NOW - 7200, True),  # the clock was set back
    ],
)
async def test_tokens_are_renewed_a_minute_before_their_end(world, ends_at, now, is_renewed):
    world.change(expires_at=ends_at)
    world.now = now
    assert await world.tokens().current() == (NEW if is_renewed else OLD)
    assert len(world.server.requests) == is_renewed


async def test_short_tokens_are_used_for_half_of_their_life(world):
    world.server.says["/token"] = [
        (200, {"access_token": name, "expires_in": 60}) for name in ("short-1", "short-2")
    ]
    tokens = world.tokens()
    for seconds, name in ((0, "short-1"), (29, "short-1"), (31, "short-2")):
        world.now = NOW + seconds
        assert await tokens.current() == Secret(name)


async def test_new_tokens_are_stored_and_hidden_and_used_from_then_on(world):
    tokens = world.tokens()
    assert await tokens.current() == await tokens.current() == NEW
    fields = {"grant_type": "refresh_token", "refresh_token": "refresh-0", "client_id": "ours"}
    assert world.server.requests == [("/token", fields)]
    assert world.stored().refresh == Secret("refresh-1")
    assert world.stored().expires_at == NOW + 3600
    assert world.hidden == {NEW, Secret("refresh-1")}
    world.server.says["/token"] = [(200, {"access_token": "access-1", "expires_in": 10})]
    world.now += 3600
    await world.tokens().current()
    assert world.stored().refresh == Secret("refresh-1"), "the old one stays in force"


async def test_many_tasks_and_servers_renew_once(world):
    servers = [world.tokens() for _ in range(5)]
    async with trio.open_nursery() as nursery:
        got = [run_in(nursery, tokens.current) for tokens in servers * 3]
    assert got == [[NEW]] * 15
    assert len(world.server.requests) == 1


async def test_a_waiting_task_takes_what_the_holder_of_the_lock_stored(world, monkeypatch):
    descriptor = os.open(world.logins.renewal_lock("p"), os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    tokens, is_waiting = world.tokens(), trio.Event()

    original = lock._try

    def try_lock(path: Path) -> int | None:
        result = original(path)
        if result is None:
            trio.from_thread.run_sync(is_waiting.set)
        return result

    monkeypatch.setattr(lock, "_try", try_lock)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tokens.current)
        await is_waiting.wait()
        world.change(access=Secret("of another"), expires_at=NOW + 9999)
        assert world.server.requests == []
        os.close(descriptor)
    assert await tokens.current() == Secret("of another")
    assert world.server.requests == []


async def test_a_turn_that_is_stopped_meanwhile_loses_no_tokens(world):
    request_came, go_on = trio.Event(), trio.Event()

    async def hold() -> None:
        request_came.set()
        await go_on.wait()

    world.server.before_answer = hold
    tokens = world.tokens()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tokens.current)
        await request_came.wait()
        nursery.cancel_scope.cancel()
    assert world.stored().access == OLD
    go_on.set()
    assert await tokens.current() == NEW
    assert world.stored().access == NEW
    assert len(world.server.requests) == 1


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_logout_or_a_new_login_wins_over_a_renewal(world, is_replaced):
    async def log_out() -> None:
        before = world.stored()
        world.logins.remove("p")
        if is_replaced:
            world.logins.store("p", attrs.evolve(before, access=Secret("new"), logged_in_at=NOW))

    world.server.before_answer = log_out
    await world.tokens().current()
    stored = world.logins.read().tokens
    assert [each.access for each in stored.values()] == ([Secret("new")] if is_replaced else [])


async def test_a_new_login_in_the_keyring_wins_over_a_renewal(world, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "keyring", FakeKeyring())
    ours, other = (
        Logins({"XDG_DATA_HOME": str(tmp_path)}, in_keyring=lambda: True) for _ in range(2)
    )
    replaced = world.stored()
    world.logins = ours
    ours.store("p", replaced)

    async def log_in() -> None:
        other.store("p", attrs.evolve(replaced, access=Secret("new"), logged_in_at=NOW))

    world.server.before_answer = log_in
    await world.tokens().current()
    ours.unlock()
    assert world.stored().access == Secret("new")


async def test_a_renewal_leaves_a_file_alone_that_was_damaged_meanwhile(world):
    async def damage() -> None:
        world.logins.path.write_text("{")

    world.server.before_answer = damage
    assert await world.tokens().current() == NEW
    assert world.logins.path.read_text() == "{"


async def test_a_refused_token_is_renewed_whatever_the_clock_says(world):
    world.change(expires_at=NOW + 3600)
    tokens = world.tokens()
    assert await tokens.current() == OLD
    assert await tokens.replace_refused(OLD)
    assert await tokens.current() == NEW
    assert await tokens.replace_refused(OLD), "another request had it renewed"
    assert len(world.server.requests) == 1


@pytest.mark.parametrize("is_refused", [False, True])
async def test_a_login_that_was_withdrawn_is_over_until_another_server_stores_one(
    world, is_refused: bool
):
    world.server.valid.clear()
    tokens = world.tokens()
    for _ in range(2):
        with pytest.raises(LoggedOut, match="used before"):
            await tokens.current()
    assert tokens.have_ended
    world.change(access=Secret("access-x"), expires_at=None)
    if is_refused:
        assert await tokens.replace_refused(OLD)
    assert await tokens.current() == Secret("access-x")
    assert not tokens.have_ended
    assert Secret("access-x") in world.hidden
    assert len(world.server.requests) == 1


async def test_the_file_of_a_login_that_was_removed_is_read_again_only_if_it_has_changed(
    world, monkeypatch
):
    tokens = world.tokens()
    world.logins.remove("p")
    reads = []
    read = world.logins.read
    monkeypatch.setattr(world.logins, "read", lambda: reads.append(1) or read())
    for tries, count in ((9, 2), (1, 3)):
        for _ in range(tries):
            with pytest.raises(LoggedOut, match="removed"):
                await tokens.current()
        assert len(reads) == count
        world.logins.store("q", Secret("another-one"))
    assert world.server.requests == []


async def test_a_refused_token_without_another_gives_way_to_a_new_login(world):
    tokens = world.tokens(refresh=None)
    assert not await tokens.replace_refused(OLD)
    world.change(access=NEW, expires_at=None)
    assert await tokens.replace_refused(OLD)
    assert await tokens.current() == NEW
    assert world.server.requests == []


async def test_a_new_login_serves_every_task_that_asks_meanwhile(world):
    async def at_once(ask: Callable[..., Awaitable[object]], *arguments: Any) -> list[list[object]]:
        async with trio.open_nursery() as tasks:
            return [run_in(tasks, ask, *arguments) for _ in range(3)]

    world.server.says["/token"] = [(400, {"error": "invalid_grant"})]
    tokens = world.tokens()
    with pytest.raises(LoggedOut):
        await tokens.current()
    one, other = Secret("stored-1"), Secret("stored-2")
    world.change(access=one, refresh=None, expires_at=None)
    assert await at_once(tokens.current) == [[one]] * 3
    world.change(access=other)
    assert await at_once(tokens.replace_refused, one) == [[True]] * 3
    assert await tokens.current() == other


async def test_a_file_that_cannot_be_read_now_does_not_end_the_login(world):
    tokens = world.tokens(expires_at=NOW)
    good = world.logins.path.read_text()
    for broken in ("{", '{"version": 2}'):
        world.logins.path.write_text(broken)
        with pytest.raises(ECAError, match="expected"):
            await tokens.current()
    world.logins.path.write_text(good)
    assert await tokens.current() == NEW


async def test_a_failed_renewal_is_no_error_while_the_token_is_valid(world):
    odd = (200, {"access_token": "a\nb"})
    world.server.says["/token"] = [(500, {}), (500, b"<html>"), (200, {}), odd]
    tokens = world.tokens()
    assert await tokens.current() == OLD
    world.now += 30
    for expected in ("status 500", "access_token", "control character"):
        with pytest.raises(OAuthError, match=expected):
            await tokens.current()
    assert await tokens.current() == NEW, "the next try may work"


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://127.0.0.1:1/token", HTTPError),
        *((url, OAuthError) for url in ("http://login.example/token", "ftp://127.0.0.1/")),
        *((url, OAuthError) for url in ("x", "http://[")),
    ],
)
async def test_tokens_go_only_over_https_or_to_this_machine(world, url, error):
    world.change(client=Client(id="ours", token_url=url), expires_at=NOW)
    with pytest.raises(error, match="https" if error is OAuthError else None):
        await world.tokens().current()


@pytest.mark.parametrize("way", ["client_secret_basic", "client_secret_post"])
async def test_a_servers_error_is_shown_without_the_token(world, way):
    words = {"error": "invalid_request", "error_description": "refresh-0 of the-secret is odd"}
    world.server.says["/token"] = [(400, words), (200, {"x" * 9999: 1})]
    client = attrs.evolve(world.stored().client, secret=Secret("the-secret"), authentication=way)
    world.change(client=client)
    with pytest.raises(OAuthError) as caught:
        await world.tokens(expires_at=NOW).replace_refused(OLD)
    assert str(caught.value) == "*** of *** is odd"
    with pytest.raises(OAuthError, match="expected access_token") as caught:
        await world.tokens(expires_at=NOW).replace_refused(OLD)
    assert len(str(caught.value)) < 1000


async def test_a_renewal_waits_for_no_other_login(world):
    with lock.lock_in_thread(world.logins.renewal_lock("mcp:https://slow.example"), seconds=1):
        assert await world.tokens().current() == NEW


async def test_a_store_that_fails_keeps_the_new_tokens_in_use(world, monkeypatch):
    """Use the new tokens while this server runs: the old ones are invalid."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    tokens = world.tokens()
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        assert await tokens.current() == NEW
    assert world.stored().access == OLD
    world.now += 3600
    assert await tokens.current() == Secret("access-2")
    assert world.stored().access == Secret("access-2")


async def test_a_lock_that_is_held_too_long_is_reported(world):
    with (
        lock.lock_in_thread(world.logins.renewal_lock("p"), seconds=1),
        pytest.raises(OAuthError, match="another server"),
    ):
        await world.tokens(lock_seconds=0.05, expires_at=NOW).replace_refused(OLD)
