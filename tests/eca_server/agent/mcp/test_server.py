from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.messages import Progress, ToolResult
from eca_server.agent.mcp.server import LIST_PAUSE_SECONDS, RESTART_SECONDS, STABLE_SECONDS, Server
from eca_server.agent.mcp.states import State
from eca_server.config.mcp_settings import MCPServer
from tests.eca_server.agent.mcp.fake import ECHO, Place, server_at

quiet = trio.testing.wait_all_tasks_blocked


async def started(server: Server) -> None:
    """Start the server, and wait until nothing happens any more."""
    server.start()
    await quiet()


async def test_a_starting_server_announces_its_status_and_its_tools(autojump_clock):
    place = Place(instructions="Be kind.")
    async with server_at(place) as (server, told):
        await started(server)
        assert told == ["starting", "running"]
        assert server.tools == (ECHO,)
        assert [prompt.name for prompt in server.prompts] == ["greet"]
        assert [resource.uri for resource in server.resources] == ["file:///a"]
        assert server.instructions == "Be kind."


@pytest.mark.requirement("CONF-13")
async def test_a_stopped_server_offers_nothing_and_announces_its_end(autojump_clock):
    place = Place()
    place.closing = 1.5
    async with server_at(place) as (server, told):
        await started(server)
        server.stop()
        await trio.sleep(1)
        assert told == ["starting", "running"]
        assert server.is_alive
        await server.ended()
        assert told == ["starting", "running", "stopped"]
        assert (server.tools, server.prompts, place.open) == ((), (), 0)


async def test_a_list_that_arrives_at_a_stop_is_not_announced(autojump_clock):
    place = Place()
    async with server_at(place) as (server, told):
        await started(server)

        async def list_tools() -> tuple[()]:
            server.stop()
            return ()

        place.session.list_tools = list_tools  # type: ignore[method-assign]
        place.session.on_change("tools")
        await server.ended()
        assert told == ["starting", "running", "stopped"]


@pytest.mark.requirement("W-36e")
@pytest.mark.parametrize("before", [State.STOPPED, State.FAILED, State.DISABLED])
async def test_every_idle_server_can_be_started(autojump_clock, before):
    place = Place()
    async with server_at(place) as (server, told):
        server.state = before
        await started(server)
        assert told == ["starting", "running"]


@pytest.mark.requirement("W-36f")
async def test_a_redundant_start_or_stop_announces_the_status_again(autojump_clock):
    place = Place()
    async with server_at(place) as (server, told):
        server.stop()
        await started(server)
        server.start()
        assert told == ["stopped", "starting", "running", "running"]
        assert place.attempts == 1


async def test_a_server_that_cannot_start_fails_at_once_and_is_not_tried_again(autojump_clock):
    place = Place()
    place.refuses = MCPError("no such program", kind="start")
    async with server_at(place) as (server, told):
        server.start()
        await trio.sleep(100)
        assert told == ["starting", "failed"]
        assert str(server.error) == "no such program"
        assert place.attempts == 1


@pytest.mark.parametrize("settings", [MCPServer(), MCPServer(command="x", is_damaged=True)])
async def test_a_server_that_is_configured_wrongly_is_not_tried(autojump_clock, settings):
    place = Place()
    async with server_at(place, settings) as (server, told):
        await started(server)
        assert told == ["starting", "failed"]
        assert str(server.error) == settings.config_error
        assert place.attempts == 0


async def test_a_server_that_requires_a_login_is_an_error_with_the_reason(autojump_clock):
    place = Place()
    place.refuses = MCPError("401", kind="login", url="https://x/login")
    async with server_at(place) as (server, told):
        await started(server)
        assert told == ["starting", "requires-auth"]
        assert server.error is not None
        assert server.error.url == "https://x/login"
        place.refuses = None
        await started(server)
        assert told[2:] == ["starting", "running"]
        assert server.error is None


async def test_a_crashed_server_is_started_again_ever_later_and_not_for_ever(autojump_clock):
    place = Place()
    async with server_at(place) as (server, told):
        await started(server)
        for seconds in RESTART_SECONDS:
            before = trio.current_time()
            place.session.end()
            await quiet()
            assert told[-1] == "starting"
            assert server.tools == ()
            await server.settled()
            assert trio.current_time() - before == pytest.approx(seconds)
            assert told[-1] == "running"
        place.session.end("signal 9")
        await trio.sleep(100)
        assert told[-1] == "failed"
        assert str(server.error) == "signal 9"
        assert place.attempts == 1 + len(RESTART_SECONDS)


async def test_a_crash_after_a_long_run_counts_as_the_first(autojump_clock):
    place = Place()
    async with server_at(place) as (server, told):
        server.start()
        for _ in range(2 * len(RESTART_SECONDS)):
            await trio.sleep(STABLE_SECONDS + 100)
            place.session.end()
        await trio.sleep(100)
        assert told[-1] == "running"


FAILED_RESTARTS = [
    MCPError("it exits at once", kind="closed"),
    MCPError("connection refused", kind="start"),
    MCPError("no answer", kind="timeout"),
]


@pytest.mark.parametrize("error", FAILED_RESTARTS)
async def test_a_server_that_has_run_is_given_up_after_all_its_restarts(autojump_clock, error):
    place = Place()
    async with server_at(place) as (server, told):
        await started(server)
        place.refuses = error
        place.session.end()
        await trio.sleep(100)
        assert told == ["starting", "running", *["starting"] * len(RESTART_SECONDS), "failed"]
        assert place.attempts == 1 + len(RESTART_SECONDS)
        assert str(server.error) == str(error)


@pytest.mark.parametrize("error", FAILED_RESTARTS)
async def test_a_prompt_waits_until_a_later_restart_succeeds(autojump_clock, error):
    place = Place()
    async with server_at(place) as (server, told):
        await started(server)
        before = trio.current_time()
        place.refuses = error
        place.session.end()
        await quiet()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.settled)
            nursery.start_soon(server.listed)
            await trio.sleep(sum(RESTART_SECONDS) - 1)
            assert nursery.child_tasks
            place.refuses = None
        assert trio.current_time() - before == pytest.approx(sum(RESTART_SECONDS))
        assert (told[-1], server.error) == ("running", None)


async def test_a_restart_that_requires_a_login_is_not_tried_again(autojump_clock):
    place = Place()
    async with server_at(place) as (server, told):
        await started(server)
        place.refuses = MCPError("401", kind="login")
        place.session.end()
        await trio.sleep(100)
        assert told == ["starting", "running", "starting", "requires-auth"]
        assert place.attempts == 2


async def test_a_stop_ends_the_wait_before_another_start(autojump_clock):
    place = Place()
    async with server_at(place) as (server, told):
        await started(server)
        place.session.end()
        await quiet()
        server.stop()
        await trio.sleep(100)
        assert told == ["starting", "running", "starting", "stopped"]
        assert place.attempts == 1


async def test_a_stop_in_the_middle_of_a_start_counts_at_once(autojump_clock):
    place = Place()
    place.opening = 50
    async with server_at(place) as (server, told):
        server.start()
        await trio.sleep(1)
        server.stop()
        await server.ended()
        assert trio.current_time() < 2
        assert told == ["starting", "stopped"]


async def test_a_start_while_it_stops_starts_it_when_it_has_ended(autojump_clock):
    place = Place()
    place.closing = 1
    async with server_at(place) as (server, told):
        await started(server)
        server.stop()
        server.start()
        await trio.sleep(5)
        assert told == ["starting", "running", "stopped", "starting", "running"]
        assert place.open == 1


@pytest.mark.parametrize("given", ["stop", "start"])
async def test_a_notification_at_the_end_does_no_harm(autojump_clock, given):
    place = Place()
    async with server_at(place) as (server, told):
        await started(server)
        place.session.end()
        getattr(server, given)()
        await trio.sleep(100)
        assert told[-1] == {"stop": "stopped", "start": "running"}[given]


async def test_a_stop_in_the_instant_of_a_refusal_counts(autojump_clock):
    place = Place()
    place.refuses = MCPError("no", kind="start")
    place.gate = trio.Event()
    async with server_at(place) as (server, told):
        await started(server)
        place.gate.set()
        server.stop()
        await server.ended()
        assert told == ["starting", "stopped"]


async def test_an_internal_error_affects_only_its_server(autojump_clock):
    place = Place()
    place.refuses = ZeroDivisionError()
    async with server_at(place) as (server, told):
        await started(server)
        assert told == ["starting", "failed"]
        assert "internal error" in str(server.error)


async def test_slow_lists_of_prompts_and_resources_delay_nothing(autojump_clock):
    place = Place()
    async with server_at(place) as (server, told):
        server.start()
        await trio.lowlevel.checkpoint()
        while not place.sessions:
            await trio.lowlevel.checkpoint()
        place.session.hangs = {"prompts", "resources"}
        await quiet()
        assert told == ["starting", "running"]


async def test_waiting_for_the_lists_of_a_stopped_server_returns_at_once(autojump_clock):
    place = Place()
    place.opening, place.refuses = 1, MCPError("no such program", kind="start")
    async with server_at(place) as (server, told):
        await server.listed()
        server.start()
        with trio.fail_after(2):
            await server.listed()
        assert told == ["starting", "failed"]


async def test_waiting_for_the_lists_of_a_server_that_crashes_returns(autojump_clock):
    place = Place()
    place.hangs = {"prompts"}
    async with server_at(place) as (server, _):
        await started(server)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.listed)
            await quiet()
            place.session.end()
            nursery.cancel_scope.deadline = trio.current_time() + 0.1
        assert not nursery.cancel_scope.cancelled_caught


async def test_many_changes_cause_one_update_of_the_lists(autojump_clock):
    place = Place()
    async with server_at(place) as (server, told):
        await started(server)
        session = place.session
        session.listed.clear()
        for _ in range(1_000):
            session.on_change("tools")
        await trio.sleep(5)
        assert session.listed == ["tools"]
        assert told == ["starting", "running"]
        session.tools = (ECHO, attrs.evolve(ECHO, name="other"))
        session.on_change("tools")
        session.on_change("prompts")
        await trio.sleep(5)
        assert sorted(session.listed) == ["prompts", "tools", "tools"]
        assert told == ["starting", "running", "running"]
        assert [tool.name for tool in server.tools] == ["echo", "other"]


async def test_endless_changes_of_lists_are_announced_at_a_limited_rate(autojump_clock):
    place = Place()
    async with server_at(place) as (server, told):
        await started(server)
        for number in range(1_000):
            place.session.tools = (attrs.evolve(ECHO, description=str(number)),)
            place.session.on_change("tools")
            await trio.sleep(0.01)
        assert len(told) <= 2 + 10 / LIST_PAUSE_SECONDS


async def test_a_tool_with_a_too_long_name_is_left_out(autojump_clock):
    place = Place(tools=(ECHO, attrs.evolve(ECHO, name="x" * 100_000)))
    async with server_at(place) as (server, _):
        await started(server)
        assert server.tools == (ECHO,)


async def test_a_call_has_the_limit_of_its_tool(autojump_clock):
    place = Place()
    settings = MCPServer(command="x", call_timeout=7, tool_timeouts={"slow": 70})
    async with server_at(place, settings) as (server, _):
        await started(server)
        await server.call_tool("echo", {"a": 1})
        await server.call_tool("slow", {})
        assert place.session.calls == [("echo", {"a": 1}, 7), ("slow", {}, 70)]


async def test_no_more_calls_run_at_once_than_the_server_takes(autojump_clock):
    place = Place()
    async with server_at(place, MCPServer(command="x", max_calls=2)) as (server, _):
        await started(server)

        async def answer(_: str) -> ToolResult:
            await trio.sleep(1)
            return ToolResult()

        place.session.answers = answer
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(server.call_tool, "echo", {})
            await trio.sleep(0.5)
            assert len(place.session.calls) == 2
        assert trio.current_time() - begun == pytest.approx(3)


async def test_a_call_of_a_server_that_does_not_run_is_an_error(autojump_clock):
    async with server_at(Place()) as (server, _):
        with pytest.raises(MCPError, match="stopped"):
            await server.call_tool("echo", {})


async def test_progress_is_reported_at_a_limited_rate(autojump_clock):
    place = Place()
    told: list[str] = []
    async with server_at(place) as (server, _):
        await started(server)
        place.session.progress = tuple(
            Progress(token=1, progress=number, total=9, message="on") for number in range(1_000)
        )
        await server.call_tool("echo", {}, told.append)
    assert told == ["0 of 9 on"]
