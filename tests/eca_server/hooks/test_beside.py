"""Hooks beside a session: in order, the newest state alone, few at once, over in time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from eca_server.config.hook_settings import Hook
from eca_server.hooks import Beside, Hooks, Ran, outcome_of
from eca_server.hooks.beside import CLOSE_SECONDS, MOST

pytestmark = [pytest.mark.trio, pytest.mark.requirement]

EVENTS = ("sessionStart", "sessionEnd", "chatEnd", "chatStatusChanged")
HOOKS = Hooks(
    hooks={event: Hook(type=event) for event in EVENTS},
    directory=Path("/"),
    environment={},
    told={},
)


@attrs.define(kw_only=True)
class Log:
    """What hooks were told, and when those that run end, and how."""

    told: list[Any] = attrs.field(factory=list)
    end: trio.Event = attrs.field(factory=trio.Event)
    status: int = 0
    stderr: str = ""
    running: int = 0

    async def fire(self, event: Any, told: Mapping[str, Any], stage: Any) -> None:
        self.told.append((event, *told.values()))
        self.running += 1
        try:
            await self.end.wait()
        finally:
            self.running -= 1
        ran = Ran(status=self.status, stderr=self.stderr)
        stage.finished("", event, ran, outcome_of(event, ran))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    monkeypatch.setattr(Hooks, "fire", lambda _, *given: log.fire(*given))
    return log


async def test_of_states_that_lag_the_newest_is_told_and_nothing_twice(
    log: Log, nursery: trio.Nursery
) -> None:
    beside = Beside(nursery, pytest.fail)
    for state in (1, 2, 1):
        beside.fire(HOOKS, "chatStatusChanged", {"state": state}, "c")
        await trio.testing.wait_all_tasks_blocked()
    first, log.end = log.end, trio.Event()
    first.set()
    await trio.testing.wait_all_tasks_blocked()
    assert log.told == [("chatStatusChanged", 1)]
    for state in (2, 3, 4):
        beside.fire(HOOKS, "chatStatusChanged", {"state": state}, "c")
        await trio.testing.wait_all_tasks_blocked()
    beside.fire(HOOKS, "chatEnd", {"chat": "c"}, "c")
    log.end.set()
    await trio.testing.wait_all_tasks_blocked()
    assert log.told[1:] == [
        ("chatStatusChanged", 2),
        ("chatStatusChanged", 4),
        ("chatEnd", "c"),
    ]


@pytest.mark.requirement("W-24")
async def test_a_chat_that_was_deleted_while_it_ran_and_is_taken_again_is_told_to_run(
    log: Log, nursery: trio.Nursery
) -> None:
    beside, runs = Beside(nursery, pytest.fail), {"status": "running"}
    for _ in range(2):
        beside.fire(HOOKS, "chatStatusChanged", runs, "c")
        await trio.testing.wait_all_tasks_blocked()
        beside.fire(HOOKS, "chatStatusChanged", {"status": "stopping"}, "c")
        beside.forget("c")
        log.end.set()
        await trio.testing.wait_all_tasks_blocked()
    beside.forget("c")
    assert log.told == [("chatStatusChanged", "running")] * 2


async def test_few_chats_run_theirs_at_once_and_all_behind_the_sessions_start(
    log: Log, nursery: trio.Nursery
) -> None:
    beside = Beside(nursery, pytest.fail)
    beside.fire(HOOKS, "sessionStart", {})
    for number in range(MOST + 1):
        beside.fire(HOOKS, "chatEnd", {}, f"c{number}")
    await trio.testing.wait_all_tasks_blocked()
    assert log.told == [("sessionStart",)]
    starts, log.end = log.end, trio.Event()
    starts.set()
    await beside.wait("sessionStart")
    await trio.testing.wait_all_tasks_blocked()
    assert log.running == MOST
    log.end.set()
    await trio.testing.wait_all_tasks_blocked()
    assert len(log.told) == MOST + 2


async def test_one_that_fails_is_named_once_and_one_that_breaks_hurts_nothing_else(
    log: Log, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    beside = Beside(nursery, warned.append)
    log.status = 2
    log.end.set()
    for state in (1, 2):
        beside.fire(HOOKS, "chatStatusChanged", {"state": state}, "c")
        await trio.testing.wait_all_tasks_blocked()
    assert warned == ["The hook chatStatusChanged failed: exit code 2"]
    log.stderr = "x" * 60_000
    beside.fire(HOOKS, "chatEnd", {}, "c")
    await trio.testing.wait_all_tasks_blocked()
    assert "57952 bytes left out" in warned[1]
    with monkeypatch.context() as patched:
        patched.setattr(Hooks, "fire", lambda *_: 1 / 0)
        beside.fire(HOOKS, "chatStatusChanged", {"state": 3}, "c")
        await trio.testing.wait_all_tasks_blocked()
    beside.fire(HOOKS, "chatStatusChanged", {"state": 4}, "c")
    await trio.testing.wait_all_tasks_blocked()
    assert log.told[-1] == ("chatStatusChanged", 4)


@pytest.mark.requirement("W-13")
async def test_the_sessions_end_is_told_last(log: Log, nursery: trio.Nursery) -> None:
    beside = Beside(nursery, pytest.fail)
    beside.fire(HOOKS, "chatEnd", {}, "c")
    beside.fire(HOOKS, "sessionStart", {})
    nursery.start_soon(beside.close, HOOKS, {})
    for told in (["sessionStart"], ["chatEnd"], ["sessionEnd"]):
        await trio.testing.wait_all_tasks_blocked()
        assert [event for (event,) in log.told] == told
        log.told.clear()
        end, log.end = log.end, trio.Event()
        end.set()


@pytest.mark.requirement("W-13")
async def test_at_the_sessions_end_they_have_a_moment_and_none_begins_after_it(
    log: Log, nursery: trio.Nursery, autojump_clock: object
) -> None:
    beside = Beside(nursery, pytest.fail)
    beside.fire(HOOKS, "sessionStart", {})
    begun = trio.current_time()
    await beside.close(HOOKS, {})
    assert trio.current_time() - begun == pytest.approx(CLOSE_SECONDS)
    assert (sorted(log.told), log.running) == ([("sessionEnd",), ("sessionStart",)], 0)
    beside.fire(HOOKS, "chatEnd", {}, "c")
    await beside.close(HOOKS, {})
    await trio.testing.wait_all_tasks_blocked()
    assert len(log.told) == 2
