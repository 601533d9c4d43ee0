"""All configured servers together: their starts, changes and ends, with fake sessions."""

import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from typing import Any

import attrs
import pytest
import trio

from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.manager import CLOSE_SECONDS, Manager
from eca_server.agent.mcp.server import Server
from eca_server.config.mcp_settings import MCPServer
from tests.eca_server.agent.mcp.fake import Place

A, B, C = (MCPServer(command=name) for name in "abc")


def changed(value: str) -> dict[str, MCPServer]:
    return {"a": attrs.evolve(A, env={"X": value})}


@attrs.define
class House:
    """A manager, the makers of its sessions, and its announcements."""

    manager: Manager
    places: dict[str, Place]
    announced: list[tuple[str, str]]

    async def configure(self, servers: Mapping[str, MCPServer]) -> None:
        """Configure these servers, and wait a second."""
        self.manager.configure(servers)
        await trio.sleep(1)

    def of(self, name: str) -> list[str]:
        return [status for each, status in self.announced if each == name]

    def opened(self, name: str = "a") -> tuple[int, int]:
        """Return the number of attempts, and of sessions that are open."""
        return self.places[name].attempts, self.places[name].open


@contextlib.asynccontextmanager
async def house(**places: Place) -> AsyncIterator[House]:
    announced: list[tuple[str, str]] = []
    made: dict[str, Place] = defaultdict(Place, places)
    async with trio.open_nursery() as nursery:

        def on_change(server: Server) -> None:
            announced.append((server.name, server.status.value))

        manager = Manager(
            nursery=nursery,
            connect_to=lambda _, settings: made[settings.command or ""].connect,
            on_change=on_change,
            on_removed=lambda server: announced.append((server.name, "removed")),
        )
        yield House(manager, made, announced)
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

    servers = {f"s{n}": MCPServer(command=f"s{n}") for n in range(50)}
    async with house(**{name: Spawning() for name in servers}) as ours:
        trio.lowlevel.add_instrument(rounds)
        ours.manager.configure(servers)
        assert await ours.manager.settled(60) == ()
        trio.lowlevel.remove_instrument(rounds)
    assert len(spawned) == len(set(spawned)) == 50


async def test_servers_start_at_the_same_time_and_a_failing_one_delays_no_other(autojump_clock):
    failing = Place(refuses=MCPError("no", kind="start"))
    async with house(a=Place(opening=1), b=Place(opening=1), c=failing) as ours:
        ours.manager.configure({"a": A, "b": B, "c": C})
        assert await ours.manager.settled() == ()
        assert trio.current_time() == pytest.approx(1)
        assert [server.name for server in ours.manager.running] == ["a", "b"]


async def test_a_renewed_server_is_not_announced_as_stopped(autojump_clock):
    async with house() as ours:
        await ours.configure({"a": A})
        ours.manager.renew("a")
        await trio.sleep(1)
        assert ours.of("a") == ["starting", "running", "starting", "running"]
        assert ours.opened() == (2, 1)


async def test_a_server_is_disabled_and_started_by_the_user(autojump_clock):
    async with house() as ours:
        assert not ours.manager.start("a")
        assert not ours.manager.stop("a")
        off = attrs.evolve(A, disabled=True)
        await ours.configure({"a": off})
        assert ours.of("a") == ["disabled"]
        assert ours.manager.start("a")
        await trio.sleep(1)
        assert ours.of("a") == ["disabled", "starting", "running"]
        await ours.configure({"a": A})
        await ours.configure({"a": off})
        assert ours.of("a")[-1] == "disabled"
        assert ours.places["a"].open == 0


async def test_only_changed_servers_restart_and_not_for_limits_of_calls(autojump_clock):
    async with house() as ours:
        await ours.configure({"a": A, "b": B, "c": C})
        ours.announced.clear()
        before = ours.manager.get("a")
        await ours.configure({"a": A, "b": attrs.evolve(B, args=("x",))})
        assert ours.manager.get("a") is before
        assert ours.of("a") == []
        assert ours.of("b") == ["starting", "running"]
        assert ours.of("c") == ["removed"]
        assert [ours.opened(name) for name in "abc"] == [(1, 1), (2, 1), (1, 0)]
        await ours.configure({"a": attrs.evolve(A, call_timeout=5)})
        (server,) = ours.manager.running
        await server.call_tool("echo", {})
        assert ours.opened() == (1, 1)
        assert ours.places["a"].session.calls[0][2] == 5


@pytest.mark.parametrize("between", [changed("1"), {}])
async def test_a_changed_server_starts_once_after_its_predecessor_has_ended(
    autojump_clock, between
):
    async with house(a=Place(closing=1)) as ours:
        await ours.configure({"a": A})
        ours.manager.configure(between)
        ours.manager.configure(changed("2"))
        ours.manager.start("a")
        await trio.sleep(0.5)
        assert ours.opened() == (1, 1)  # its end is waited for
        await trio.sleep(5)
        assert ours.opened() == (2, 1)


async def test_a_server_stopped_before_its_delayed_start_does_not_start(autojump_clock):
    async with house(a=Place(closing=1)) as ours:
        await ours.configure({"a": A})
        ours.manager.configure(changed("1"))
        ours.manager.stop("a")
        await trio.sleep(5)
        assert ours.of("a")[-1] == "stopped"
        assert ours.opened() == (1, 0)
        ours.manager.start("a")
        await trio.sleep(1)
        assert ours.opened() == (2, 1)


def restart(manager: Manager) -> None:
    manager.stop("a")
    manager.start("a")


@pytest.mark.parametrize("change", [restart, lambda manager: manager.configure(changed("1"))])
async def test_a_prompt_waits_for_a_restart_from_the_end_of_the_previous_process_on(
    autojump_clock, change
):
    async with house(a=Place(closing=1)) as ours:
        await ours.configure({"a": A})
        await ours.manager.settled()
        change(ours.manager)
        assert ours.manager.newly_starting == ("a",)
        assert await ours.manager.settled() == ()
        assert [server.name for server in ours.manager.running] == ["a"]
        assert ours.opened() == (2, 1)


@pytest.mark.parametrize(("slowest", "late"), [(0.9, ()), (1_000, ("9",))])
async def test_all_end_at_once_in_bounded_time_and_late_ones_are_named(
    autojump_clock, slowest, late
):
    servers = {str(number): MCPServer(command=str(number)) for number in range(10)}
    places = {name: Place(closing=0.9) for name in servers}
    async with house(**{**places, "9": Place(closing=slowest)}) as ours:
        await ours.configure(servers)
        begun = trio.current_time()
        assert await ours.manager.close() == late
        assert trio.current_time() - begun == pytest.approx(min(slowest, CLOSE_SECONDS))
        assert sum(place.open for place in ours.places.values()) == len(late)


async def test_after_the_end_nothing_starts_any_more(autojump_clock):
    async with house(a=Place(closing=1)) as ours:
        await ours.configure({"a": A})
        ours.manager.configure(changed("1"))
        await ours.manager.close()
        ours.manager.start("a")
        await ours.configure({"b": B})
        assert ours.opened() == (1, 0)
        assert "b" not in ours.places
