"""The parts of a connection: made at their first use, in order of waiting tasks, and their end."""

from __future__ import annotations

import itertools
import os
import subprocess

import pytest
import trio
import trio.testing

from eca_server.connection.features.lazy import Lazy
from eca_server.connection.features.settings import Turnstile
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


async def test_an_abandoned_wait_lets_no_second_holder_in() -> None:
    turnstile = Turnstile()
    told: list[str] = []
    leave = {name: trio.Event() for name in "abc"}
    scopes = {name: trio.CancelScope() for name in "abc"}
    places = {name: turnstile.place() for name in "abc"}

    async def work(name: str) -> None:
        with scopes[name]:
            async with places[name]:
                told.append(name)
                await leave[name].wait()

    async with trio.open_nursery() as nursery:
        for name in "cba":  # the order of places decides, not that of tasks
            nursery.start_soon(work, name)
        await trio.testing.wait_all_tasks_blocked()
        scopes["b"].cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert told == ["a"]
        leave["a"].set()
        await trio.testing.wait_all_tasks_blocked()
        assert told == ["a", "c"]
        scopes["c"].cancel()
    async with turnstile.place():
        told.append("d")
    assert told == ["a", "c", "d"]


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
