"""The order of waiting tasks."""

from __future__ import annotations

import trio
import trio.testing

from eca_server.connection.features.settings import Turnstile


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
