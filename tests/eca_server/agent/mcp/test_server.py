"""One configured server: its states, restarts, lists and calls, with fake sessions."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.messages import Progress, ToolResult
from eca_server.agent.mcp.server import (
    LIST_PAUSE_SECONDS,
    RECONNECT_SECONDS,
    RESTART_SECONDS,
    STABLE_SECONDS,
    Server,
)
from eca_server.agent.mcp.states import TRANSITIONS, Input, State
from eca_server.config.mcp_settings import MCPServer
from tests.eca_server.agent.mcp.fake import ECHO, SETTINGS, Place, server_at

quiet = trio.testing.wait_all_tasks_blocked
REFUSAL = MCPError("no such program", kind="start")


@contextlib.asynccontextmanager
async def started(
    settings: MCPServer = SETTINGS, **changes: Any
) -> AsyncIterator[tuple[Server, Place, list[str]]]:
    """Yield a server that was started, its place and its announced statuses."""
    place = Place(**changes)
    async with server_at(place, settings) as (server, statuses):
        server.start()
        await quiet()
        yield server, place, statuses


@pytest.mark.requirement("W-36e", "W-36f")
async def test_a_start_announces_the_status_and_a_redundant_one_announces_it_again(autojump_clock):
    async with started(instructions="Be kind.") as (server, place, statuses):
        assert statuses == ["starting", "running"]
        assert server.tools == (ECHO,)
        assert [prompt.name for prompt in server.prompts] == ["greet"]
        assert [resource.uri for resource in server.resources] == ["file:///a"]
        assert server.instructions == "Be kind."
        server.start()
        assert (statuses, place.attempts) == (["starting", "running", "running"], 1)
    for before in (State.STOPPED, State.FAILED, State.DISABLED):
        async with server_at(Place()) as (server, statuses):
            server.state = before
            server.stop()
            server.start()
            await quiet()
            assert statuses[-2:] == ["starting", "running"]
            assert (statuses[0] == "stopped") is (before is not State.DISABLED)


@pytest.mark.requirement("CONF-13")
async def test_a_stopped_server_offers_nothing_and_is_announced_before_its_end(autojump_clock):
    async with started(closing=1.5) as (server, place, statuses):
        server.stop()
        assert statuses == ["starting", "running", "stopped"]
        assert (server.tools, server.prompts) == ((), ())
        await trio.sleep(1)
        assert (server.is_alive, place.open) == (True, 1)
        await server.ended()
        assert statuses == ["starting", "running", "stopped"]
        assert (server.tools, server.prompts, place.open) == ((), (), 0)
        with pytest.raises(MCPError, match="stopped"):
            await server.call_tool("echo", {})


async def test_a_list_that_arrives_at_a_stop_is_not_announced(autojump_clock):
    async with started() as (server, place, statuses):

        async def list_tools() -> tuple[()]:
            server.stop()
            return ()

        place.session.list_tools = list_tools  # type: ignore[method-assign]
        place.session.on_change("tools")
        await server.ended()
        assert statuses == ["starting", "running", "stopped"]


async def test_a_server_that_cannot_start_fails_at_once_and_is_not_tried_again(autojump_clock):
    async with started(refuses=REFUSAL) as (server, place, statuses):
        await trio.sleep(100)
        assert statuses == ["starting", "failed"]
        assert str(server.error) == "no such program"
        assert place.attempts == 1
    for settings in (MCPServer(), MCPServer(command="x", is_damaged=True)):
        async with started(settings) as (server, place, statuses):
            assert statuses == ["starting", "failed"]
            assert str(server.error) == settings.config_error
            assert place.attempts == 0
    async with started(refuses=ZeroDivisionError()) as (server, place, statuses):
        assert statuses == ["starting", "failed"]
        assert "internal error" in str(server.error)


async def test_a_server_that_requires_a_login_is_an_error_with_the_reason(autojump_clock):
    login = MCPError("401", kind="login", url="https://x/login")
    async with started(refuses=login) as (server, place, statuses):
        assert statuses == ["starting", "requires-auth"]
        assert server.error.url == "https://x/login"
        place.refuses = None
        server.start()
        await quiet()
        assert statuses[2:] == ["starting", "running"]
        assert server.error is None
        place.refuses = login
        place.session.end()
        await trio.sleep(100)
        assert statuses[4:] == ["starting", "requires-auth"]
        assert place.attempts == 3


async def test_a_crashed_server_is_started_again_ever_later_and_not_for_ever(autojump_clock):
    async with started() as (server, place, statuses):
        for seconds in RESTART_SECONDS:
            before = trio.current_time()
            place.session.end()
            await quiet()
            assert statuses[-1] == "starting"
            assert server.tools == ()
            await server.settled()
            assert trio.current_time() - before == pytest.approx(seconds)
            assert statuses[-1] == "running"
        place.session.end("signal 9")
        await trio.sleep(100)
        assert statuses[-1] == "failed"
        assert str(server.error) == "signal 9"
        assert place.attempts == 1 + len(RESTART_SECONDS)


async def test_a_crash_after_a_long_run_counts_as_the_first(autojump_clock):
    async with started() as (_, place, statuses):
        for _ in range(2 * len(RESTART_SECONDS)):
            await trio.sleep(STABLE_SECONDS + 100)
            place.session.end()
        await trio.sleep(100)
        assert statuses[-1] == "running"


@pytest.mark.parametrize("kind", ["closed", "start", "timeout"])
async def test_a_server_that_has_run_is_given_up_after_all_its_restarts(autojump_clock, kind):
    async with started() as (server, place, statuses):
        place.refuses = MCPError("it does not start", kind=kind)
        place.session.end()
        await trio.sleep(100)
        assert statuses == ["starting", "running", *["starting"] * len(RESTART_SECONDS), "failed"]
        assert place.attempts == 1 + len(RESTART_SECONDS)
        assert str(server.error) == "it does not start"
    async with started() as (server, place, statuses):
        before = trio.current_time()
        place.refuses = MCPError("it does not start yet", kind=kind)
        place.session.end()
        await quiet()
        async with trio.open_nursery() as nursery:  # a prompt waits until a restart succeeds
            nursery.start_soon(server.settled)
            nursery.start_soon(server.listed)
            await trio.sleep(sum(RESTART_SECONDS) - 1)
            assert nursery.child_tasks
            place.refuses = None
        assert trio.current_time() - before == pytest.approx(sum(RESTART_SECONDS))
        assert (statuses[-1], server.error) == ("running", None)


@pytest.mark.long
async def test_a_server_at_a_url_is_reached_again_however_long_the_network_was_away(autojump_clock):
    async with started(MCPServer(url="http://server.example/mcp")) as (server, place, statuses):
        place.refuses = MCPError("it cannot be reached", kind="start")
        place.session.end()
        await trio.sleep(100)
        announced = ["starting", "running", *["starting"] * len(RESTART_SECONDS)]
        assert statuses == announced
        await server.settled()  # a prompt waits no longer
        await server.listed()
        await trio.sleep(100_000)
        assert statuses == announced
        place.refuses = None
        await trio.sleep(RECONNECT_SECONDS)
        assert (statuses[-1], server.error) == ("running", None)
        place.session.end()
        place.refuses = REFUSAL
        await trio.sleep(100_000)
        server.stop()
        await quiet()
        assert statuses[-3:] == ["running", "starting", "stopped"]


async def test_a_server_that_could_not_be_reached_has_failed_until_it_can_be(autojump_clock):
    away = MCPError("it cannot be reached", kind="unreachable")
    async with started(refuses=away) as (server, place, statuses):
        await trio.sleep(1_000)
        assert (statuses, server.error) == (["starting", "failed"], away)
        assert place.attempts == 1 + 1_000 // RECONNECT_SECONDS
        place.refuses = None
        await trio.sleep(RECONNECT_SECONDS)
        assert (statuses[2:], server.error) == (["starting", "running"], None)
    async with started(refuses=away) as (server, place, statuses):
        place.refuses = None
        server.start()  # the user does not wait
        await trio.sleep(100)
        assert (statuses[2:], place.attempts) == (["starting", "running"], 2)
    for refusal, status in ((REFUSAL, "failed"), (MCPError("no", kind="login"), "requires-auth")):
        async with started(refuses=away) as (server, place, statuses):
            place.refuses = refusal
            await trio.sleep(1_000)
            assert (statuses[2:], place.attempts) == (["starting", status], 2)
    async with started(refuses=away) as (server, place, statuses):
        server.stop()
        await server.ended()
        place.refuses = None
        await trio.sleep(1_000)
        assert (statuses[2:], place.attempts) == (["stopped"], 1)


async def test_a_stop_counts_at_any_moment(autojump_clock):
    async with started() as (server, place, statuses):
        place.session.end()
        await quiet()
        server.stop()  # in the wait before a restart
        await trio.sleep(100)
        assert statuses == ["starting", "running", "starting", "stopped"]
        assert place.attempts == 1
    async with started(opening=50) as (server, _, statuses):
        begun = trio.current_time()
        server.stop()
        await server.ended()
        assert trio.current_time() - begun < 2
        assert statuses == ["starting", "stopped"]
    async with started(refuses=REFUSAL, gate=trio.Event()) as (server, place, statuses):
        place.gate.set()
        server.stop()  # in the instant of the refusal
        await server.ended()
        assert statuses == ["starting", "stopped"]
    for command, last in (("stop", "stopped"), ("start", "running")):
        async with started() as (server, place, statuses):
            place.session.end()
            getattr(server, command)()
            await trio.sleep(100)
            assert statuses[-1] == last


async def test_a_start_while_it_stops_starts_it_when_it_has_ended(autojump_clock):
    async with started(closing=1) as (server, place, statuses):
        server.stop()
        server.start()
        assert statuses == ["starting", "running", "stopped", "starting"]
        await trio.sleep(0.5)
        assert (server.state, place.attempts) == (State.STOPPING, 1)
        await trio.sleep(5)
        assert statuses[3:] == ["starting", "starting", "running"]
        assert place.open == 1


WORDS = ["start", "stop", "end", "refuse", "accept", "login", "unreachable", "wait", "tick"]


@given(st.lists(st.sampled_from(WORDS), max_size=30), st.sampled_from([0.0, 0.5]))
def test_after_any_sequence_of_events_the_last_command_wins(words, closing):
    async def live() -> None:
        place = Place(closing=closing)
        async with server_at(place) as (server, statuses):
            for word in words:
                match word:
                    case "start" | "stop":
                        getattr(server, word)()
                    case "end":
                        if place.sessions:
                            place.session.end()
                    case "refuse":
                        place.refuses = REFUSAL
                    case "login" | "unreachable":
                        place.refuses = MCPError("no", kind=word)
                    case "accept":
                        place.refuses = None
                    case "wait":
                        await trio.sleep(30)
                    case _:
                        await trio.lowlevel.checkpoint()
                assert place.open <= 1
            server.stop()
            await server.ended()
            assert server.state in {State.STOPPED, State.DISABLED}
            assert place.open == 0
            place.refuses = None
            server.start()
            await server.settled()
            assert server.state is State.RUNNING
            assert "stopping" not in statuses

    trio.run(live, clock=trio.testing.MockClock(autojump_threshold=0))


def test_every_state_can_be_reached_and_left_and_takes_every_command():
    reached = {each for inputs in TRANSITIONS.values() for each in inputs.values()}
    assert reached | {State.DISABLED} == set(State) == set(TRANSITIONS)
    for inputs in TRANSITIONS.values():
        assert inputs[Input.START] in TRANSITIONS
        assert inputs[Input.STOP] not in {State.STARTING, State.RUNNING}


async def test_slow_lists_delay_nothing_and_the_wait_for_them_ends_with_the_server(autojump_clock):
    hangs = {"prompts", "resources"}
    async with started(prepare=lambda each: setattr(each, "hangs", hangs)) as parts:
        server, place, statuses = parts
        assert statuses == ["starting", "running"]
        with trio.fail_after(0.1):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(server.listed)
                await trio.testing.wait_all_tasks_blocked()
                place.session.end()
    async with server_at(Place(opening=1, refuses=REFUSAL)) as (server, statuses):
        await server.listed()
        server.start()
        with trio.fail_after(2):
            await server.listed()
        assert statuses == ["starting", "failed"]


async def test_many_changes_cause_one_update_of_the_lists(autojump_clock):
    async with started() as (server, place, statuses):
        session = place.session
        session.listed.clear()
        for _ in range(1_000):
            session.on_change("tools")
        await trio.sleep(5)
        assert session.listed == ["tools"]
        assert statuses == ["starting", "running"]
        session.tools = (ECHO, attrs.evolve(ECHO, name="other"), attrs.evolve(ECHO, name="x" * 999))
        session.on_change("tools")
        session.on_change("prompts")
        await trio.sleep(5)
        assert sorted(session.listed) == ["prompts", "tools", "tools"]
        assert statuses == ["starting", "running", "running"]
        assert [tool.name for tool in server.tools] == ["echo", "other"]  # without the long name
        for number in range(1_000):
            session.tools = (attrs.evolve(ECHO, description=str(number)),)
            session.on_change("tools")
            await trio.sleep(0.01)
        assert len(statuses) <= 3 + 10 / LIST_PAUSE_SECONDS


async def test_calls_have_the_limits_of_their_tool_and_their_server(autojump_clock):
    settings = MCPServer(command="x", call_timeout=7, tool_timeouts={"slow": 70}, max_calls=2)
    async with started(settings) as (server, place, _):
        await server.call_tool("echo", {"a": 1})
        await server.call_tool("slow", {})
        assert place.session.calls == [("echo", {"a": 1}, 7), ("slow", {}, 70)]

        async def answer(_: str) -> ToolResult:
            await trio.sleep(1)
            return ToolResult()

        place.session.answers = answer
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(server.call_tool, "echo", {})
            await trio.sleep(0.5)
            assert len(place.session.calls) == 2 + 2
        assert trio.current_time() - begun == pytest.approx(3)


async def test_progress_is_reported_at_a_limited_rate(autojump_clock):
    shown: list[str] = []
    async with started() as (server, place, _):
        place.session.progress = tuple(
            Progress(token=1, progress=number, total=9, message="on") for number in range(1_000)
        )
        await server.call_tool("echo", {}, shown.append)
    assert shown == ["0 of 9 on"]
