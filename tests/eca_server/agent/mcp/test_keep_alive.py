"""Signs of life: who is asked for them, when, and what comes of it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio

from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.keep_alive import PING_SECONDS, RETRY_SECONDS, keep_alive
from tests.eca_server.agent.mcp.scripted import session_with
from tests.eca_server.agent.mcp.web import serving


class Watched:
    """A server that answers pings as a test says: `ok`, or the kind of a fault."""

    def __init__(self, *answers: str) -> None:
        self.suspect = trio.Event()
        self.is_busy = False
        self.answers = list(answers)
        self.pinged: list[float] = []
        self.given_up: tuple[float, MCPError] | None = None

    async def ping(self, seconds: float) -> None:
        self.pinged.append(trio.current_time())
        answer: Any = self.answers.pop(0) if self.answers else "ok"
        if answer == "timeout":
            await trio.sleep(seconds)
        if answer != "ok":
            raise MCPError("no", kind=answer)

    def give_up(self, error: MCPError) -> None:
        self.given_up = trio.current_time(), error


@pytest.mark.parametrize(
    ("answers", "pings", "ends"),
    [
        (["ok"], [30, 60, 90], None),
        (["refused"], [30, 60, 90], None),
        (["timeout", "ok"], [30, 30 + PING_SECONDS + RETRY_SECONDS], None),
        (["timeout", "timeout"], [30, 90], 90 + PING_SECONDS),
    ],
)
async def test_a_session_ends_only_after_two_unanswered_pings(autojump_clock, answers, pings, ends):
    watched = Watched(*answers)
    begun = trio.current_time()
    with trio.move_on_after(105):
        await keep_alive(watched, 30)
    assert [round(at - begun) for at in watched.pinged] == pings
    if ends is None:
        assert watched.given_up is None
    else:
        assert watched.given_up is not None
        at, error = watched.given_up
        assert (round(at - begun), error.kind) == (ends, "closed")


async def test_a_busy_server_is_not_pinged_and_a_call_that_begins_while_a_ping_waits_is_no_death(
    autojump_clock,
):
    class Calling(Watched):
        async def ping(self, seconds: float) -> None:
            try:
                await super().ping(seconds)
            finally:
                self.is_busy = len(self.pinged) == 2

    watched = Calling("timeout", "timeout")
    for is_busy, pings in ((True, 0), (False, 2)):
        watched.is_busy = is_busy
        with trio.move_on_after(1000):
            await keep_alive(watched, 30)
        assert len(watched.pinged) == pings
        assert watched.given_up is None


async def test_a_program_is_asked_only_when_a_call_was_not_answered(autojump_clock, nursery):
    watched = Watched()
    nursery.start_soon(keep_alive, watched, math.inf)
    await trio.sleep(10_000)
    assert watched.pinged == []
    watched.suspect.set()
    await trio.sleep(1)
    assert len(watched.pinged) == 1
    nursery.cancel_scope.cancel()


async def test_a_remote_server_is_pinged():
    async with serving(keep_alive_seconds=0.02) as (server, _):
        await server.has_seen("ping", 2)


async def test_a_call_without_an_answer_makes_a_server_suspect():
    pinged = trio.Event()
    changed = ["say", {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}]
    script = {"on": {"tools/call": [], "ping": [changed, ["result", {}]]}}
    async with session_with(script) as session:
        session.on_change = lambda _: pinged.set()
        with pytest.raises(MCPError, match="no answer"):
            await session.call_tool("echo", {}, deadline=0.02)
        with trio.fail_after(5):
            await pinged.wait()
        session.give_up(MCPError("enough", kind="closed"))
        with trio.fail_after(5):
            await session.ended.wait()
    assert str(session.error) == "enough"
