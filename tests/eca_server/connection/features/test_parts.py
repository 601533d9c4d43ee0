"""The parts of a connection: made at their first use, in order of waiting tasks, and their end."""

import itertools
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio
import trio.testing

from eca_protocol import connect
from eca_server.connection.features.host import Options
from eca_server.connection.features.lazy import Lazy
from eca_server.connection.features.settings import Turnstile
from eca_server.connection.server import Server
from tests.eca_server.agent.chat.editor import editor


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
