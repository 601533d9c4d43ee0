from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.manager import CLOSE_SECONDS, START_WAIT_SECONDS, Manager
from eca_server.agent.mcp.server import Server
from eca_server.config.mcp_settings import MCPServer
from tests.eca_server.agent.mcp.fake import Place

A, B, C = (MCPServer(command=name) for name in "abc")


@attrs.define
class House:
    """A manager, the makers of its sessions, and its notifications."""

    manager: Manager
    places: dict[str, Place]
    told: list[tuple[str, str]]

    def of(self, name: str) -> list[str]:
        return [status for each, status in self.told if each == name]


@contextlib.asynccontextmanager
async def house() -> AsyncIterator[House]:
    places: dict[str, Place] = defaultdict(Place)
    told: list[tuple[str, str]] = []
    async with trio.open_nursery() as nursery:

        def on_change(server: Server) -> None:
            told.append((server.name, server.state.value))

        manager = Manager(
            nursery=nursery,
            connect_to=lambda _, settings: places[settings.command or ""].connect,
            on_change=on_change,
            on_removed=lambda server: told.append((server.name, "removed")),
        )
        yield House(manager, places, told)
        nursery.cancel_scope.cancel()


class Rounds(trio.abc.Instrument):
    """Counts the rounds of the loop: between two of them it looks for input."""

    number = 0

    def before_io_wait(self, timeout: float) -> None:
        self.number += 1


async def test_each_server_is_spawned_in_its_own_step_of_the_event_loop():
    rounds, spawned = Rounds(), []

    class Spawning(Place):
        def connect(self) -> contextlib.AbstractAsyncContextManager[Any]:
            spawned.append(rounds.number)
            return super().connect()

    async with house() as ours:
        trio.lowlevel.add_instrument(rounds)
        servers = {f"s{n}": MCPServer(command=f"s{n}") for n in range(50)}
        ours.places |= {name: Spawning() for name in servers}
        ours.manager.configure(servers)
        assert await ours.manager.settled(60) == ()
        trio.lowlevel.remove_instrument(rounds)
    assert len(spawned) == len(set(spawned)) == 50


async def test_servers_start_at_the_same_time(autojump_clock):
    async with house() as ours:
        for name in "abc":
            ours.places[name].opening = 1
        ours.manager.configure({"a": A, "b": B, "c": C})
        assert await ours.manager.settled() == ()
        assert trio.current_time() == pytest.approx(1)
        assert [server.name for server in ours.manager.running] == ["a", "b", "c"]


async def test_a_disabled_server_starts_when_the_user_says_so(autojump_clock):
    async with house() as ours:
        ours.manager.configure({"a": MCPServer(command="a", disabled=True)})
        await trio.sleep(1)
        assert ours.of("a") == ["disabled"]
        assert ours.manager.start("a")
        await trio.sleep(1)
        assert ours.of("a") == ["disabled", "starting", "running"]


async def test_an_unknown_name_is_reported(autojump_clock):
    async with house() as ours:
        assert not ours.manager.start("a")
        assert not ours.manager.stop("a")


async def test_only_changed_servers_restart(autojump_clock):
    async with house() as ours:
        ours.manager.configure({"a": A, "b": B, "c": C})
        await trio.sleep(1)
        ours.told.clear()
        before = ours.manager.get("a")
        ours.manager.configure({"a": A, "b": attrs.evolve(B, args=("x",))})
        await trio.sleep(1)
        assert ours.manager.get("a") is before
        assert ours.of("a") == []
        assert ours.of("b") == ["starting", "running"]
        assert ours.of("c") == ["removed"]
        assert [ours.places[name].open for name in "abc"] == [1, 1, 0]
        assert ours.places["b"].attempts == 2


async def test_a_new_server_starts_after_its_predecessor_has_ended(autojump_clock):
    async with house() as ours:
        ours.places["a"].closing = 1
        ours.manager.configure({"a": A})
        await trio.sleep(1)
        ours.manager.configure({"a": attrs.evolve(A, env={"X": "1"})})
        await trio.sleep(0.5)
        assert ours.places["a"].attempts == 1
        await trio.sleep(1)
        assert (ours.places["a"].attempts, ours.places["a"].open) == (2, 1)


@pytest.mark.parametrize("between", [{"a": attrs.evolve(A, env={"X": "1"})}, {}])
async def test_a_server_that_is_changed_twice_starts_once_more(autojump_clock, between):
    async with house() as ours:
        ours.places["a"].closing = 1
        ours.manager.configure({"a": A})
        await trio.sleep(1)
        ours.manager.configure(between)
        ours.manager.configure({"a": attrs.evolve(A, env={"X": "2"})})
        ours.manager.start("a")
        await trio.sleep(0.5)
        assert ours.places["a"].attempts == 1  # its end is waited for
        await trio.sleep(5)
        assert (ours.places["a"].attempts, ours.places["a"].open) == (2, 1)


async def test_a_server_stopped_before_its_delayed_start_does_not_start(autojump_clock):
    async with house() as ours:
        ours.places["a"].closing = 1
        ours.manager.configure({"a": A})
        await trio.sleep(1)
        ours.manager.configure({"a": attrs.evolve(A, env={"X": "1"})})
        ours.manager.stop("a")
        await trio.sleep(5)
        assert ours.of("a")[-1] == "stopped"
        assert ours.places["a"].open == 0
        ours.manager.start("a")
        await trio.sleep(1)
        assert ours.places["a"].open == 1


async def test_changed_limits_of_calls_restart_nothing(autojump_clock):
    async with house() as ours:
        ours.manager.configure({"a": A})
        await trio.sleep(1)
        ours.manager.configure({"a": attrs.evolve(A, call_timeout=5)})
        await trio.sleep(1)
        (server,) = ours.manager.running
        await server.call_tool("echo", {})
        assert ours.places["a"].attempts == 1
        assert ours.places["a"].session.calls[0][2] == 5


async def test_one_that_is_switched_off_stops_and_is_disabled(autojump_clock):
    async with house() as ours:
        ours.manager.configure({"a": A})
        await trio.sleep(1)
        ours.manager.configure({"a": attrs.evolve(A, disabled=True)})
        await trio.sleep(1)
        assert ours.of("a") == ["starting", "running", "disabled"]
        assert ours.places["a"].open == 0


async def test_a_prompt_waits_for_a_slow_server_once_and_a_moment(autojump_clock):
    async with house() as ours:
        ours.places["a"].opening = 1_000
        ours.manager.configure({"a": A, "b": B})
        assert await ours.manager.settled() == ("a",)
        assert trio.current_time() == pytest.approx(START_WAIT_SECONDS)
        assert await ours.manager.settled() == ()
        assert trio.current_time() == pytest.approx(START_WAIT_SECONDS)


async def test_a_failing_server_delays_no_other(autojump_clock):
    async with house() as ours:
        ours.places["a"].refuses = MCPError("no", kind="start")
        ours.manager.configure({"a": A, "b": B})
        assert await ours.manager.settled() == ()
        assert trio.current_time() < 0.1
        assert [server.name for server in ours.manager.running] == ["b"]


async def test_ten_servers_end_at_the_same_time(autojump_clock):
    async with house() as ours:
        servers = {str(number): MCPServer(command=str(number)) for number in range(10)}
        for name in servers:
            ours.places[name].closing = 0.9
        ours.manager.configure(servers)
        await trio.sleep(1)
        begun = trio.current_time()
        assert await ours.manager.close() == ()
        assert trio.current_time() - begun == pytest.approx(0.9)
        assert {place.open for place in ours.places.values()} == {0}


async def test_the_end_is_bounded_and_names_the_servers_that_remain(autojump_clock):
    async with house() as ours:
        ours.places["a"].closing = 1_000
        ours.manager.configure({"a": A, "b": B})
        await trio.sleep(1)
        begun = trio.current_time()
        assert await ours.manager.close() == ("a",)
        assert trio.current_time() - begun == pytest.approx(CLOSE_SECONDS)


async def test_after_the_end_nothing_starts_any_more(autojump_clock):
    async with house() as ours:
        ours.places["a"].closing = 1
        ours.manager.configure({"a": A})
        await trio.sleep(1)
        ours.manager.configure({"a": attrs.evolve(A, env={"X": "1"})})
        await ours.manager.close()
        ours.manager.start("a")
        ours.manager.configure({"b": B})
        await trio.sleep(100)
        assert ours.places["a"].attempts == 1
        assert "b" not in ours.places
