"""The parts of a connection: loaded and made at their first use, and closed at its end."""

import errno
import itertools
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from eca_protocol import connect
from eca_server.connection.features.handlers import Handlers
from eca_server.connection.features.hooks import SessionHooks
from eca_server.connection.features.host import Options
from eca_server.connection.features.lazy import Lazy
from eca_server.connection.features.settings import Turnstile
from eca_server.connection.server import Server
from tests.eca_server.agent.chat.editor import SCRIPT, editor


def test_a_part_is_made_once_at_its_first_use_and_anew_after_a_reset() -> None:
    numbers = itertools.count(1)
    part = Lazy(lambda: [next(numbers)])
    assert part.made is None
    made = part.get()
    assert made == [1]
    made.clear()  # a part that is false is made once, too
    assert part.get() is part.made is made
    part.reset()
    assert part.made is None
    assert part.get() == [2]


async def test_no_part_is_used_in_a_worker_thread_where_a_reset_could_come_between(monkeypatch):
    get, users = Lazy.get, set()

    def note(part: Lazy[object]) -> object:
        users.add(threading.current_thread())
        return get(part)

    monkeypatch.setattr(Lazy, "get", note)
    async with editor() as ours:
        await ours.turn("hi")
    assert users == {threading.current_thread()}


async def test_an_abandoned_wait_lets_no_second_holder_in() -> None:
    turnstile = Turnstile()
    holders: list[str] = []
    leave = {name: trio.Event() for name in "abc"}
    scopes = {name: trio.CancelScope() for name in "abc"}
    places = {name: turnstile.place() for name in "abc"}

    async def work(name: str) -> None:
        with scopes[name]:
            async with places[name]:
                holders.append(name)
                await leave[name].wait()

    async with trio.open_nursery() as nursery:
        for name in "cba":  # the order of places decides, not that of tasks
            nursery.start_soon(work, name)
        await trio.testing.wait_all_tasks_blocked()
        scopes["b"].cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert holders == ["a"]
        leave["a"].set()
        await trio.testing.wait_all_tasks_blocked()
        assert holders == ["a", "c"]
        scopes["c"].cancel()
    async with turnstile.place():
        holders.append("d")
    assert holders == ["a", "c", "d"]


@pytest.mark.requirement("W-14a")
async def test_a_client_s_process_is_watched_without_a_descriptor_for_it(monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.setattr("eca_protocol.process.WATCH_SECONDS", 0.01)
    with subprocess.Popen(["sleep", "60"]) as client:
        try:
            async with editor(started=False) as ours:
                await ours.start(processId=client.pid)
                client.kill()
                client.wait()
                with pytest.raises(AssertionError, match="the server has closed the connection"):
                    await ours.until(lambda _: False)
        finally:
            client.kill()


def open_files(folder: Path) -> list[str]:
    """Return the files below a folder that this process has open."""
    targets = (each.readlink() for each in Path("/proc/self/fd").iterdir() if each.is_symlink())
    return [target.name for target in targets if target.is_relative_to(folder)]


@pytest.mark.skipif(sys.platform != "linux", reason="the open files are read from /proc")
async def test_a_cancelled_server_has_its_store_closed(tmp_path: Path) -> None:
    options = Options(environ={"HOME": str(tmp_path), "PATH": os.defpath}, keeps_chats=True)
    with trio.CancelScope() as scope:
        async with connect(server=Server(options)) as client:
            assert await client.chat().prompt("Hi.", model="simulator/echo").text() == "Hi."
            assert "chats.sqlite" in open_files(tmp_path)
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert open_files(tmp_path) == []


async def test_hooks_that_cannot_be_ended_leave_the_end_of_the_chats_alone(monkeypatch):
    async def fail(_: SessionHooks) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(SessionHooks, "end_session", fail)
    async with editor({}) as ours:
        await ours.prompt("wait forever", model=SCRIPT)
        request: Any = ours.request("shutdown")
        await ours.send(request)
        await ours.expect_finished()
        answer = await ours.until(lambda each: each.get("id") == request["id"])
        assert "internal error: OSError" in answer["error"]["message"]


LATER = (
    *("agent.chat", "agent.commands", "agent.mcp", "agent.tools", "models", "models.credentials"),
    *("workspace.index", "connection.features.chat", "connection.features.composition"),
    *("config.workspace_roots", "config.workspace_sources", "connection.features.mcp"),
)
SLOW = (
    *("asyncio", "email", "h11", "httpx", "hypothesis", "importlib.metadata", "jinja2"),
    *("eca_protocol.codec.departures", "eca_protocol.http", "eca_protocol.tls"),
)


LISTING = """
import eca_server.cli.stdio, sys
print(*sys.modules)
import eca_server.connection.features.chat
print(*sys.modules)
"""


def test_a_start_loads_neither_what_only_chats_need_nor_slow_libraries_and_chats_no_mcp() -> None:
    command = [sys.executable, "-c", LISTING]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    at_the_start, for_chats = (line.split() for line in done.stdout.splitlines())
    assert not {*at_the_start} & {*SLOW, *(f"eca_server.{name}" for name in LATER)}
    assert not [name for name in for_chats if name.startswith("eca_server.agent.mcp")]


def test_a_method_of_no_chapter_has_no_handler() -> None:
    assert Handlers().get("weather/forecast") is None
