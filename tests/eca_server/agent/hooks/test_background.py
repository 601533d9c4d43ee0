"""Background hooks: in order, only the newest status, few at once, finished in time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from eca_server.agent.hooks.action import ActionResult, parse_outcome
from eca_server.agent.hooks.background import CLOSE_SECONDS, MAX_CHATS, BackgroundHooks
from eca_server.agent.hooks.hooks import Hooks
from eca_server.config.hook_settings import Hook

quiet = trio.testing.wait_all_tasks_blocked
EVENTS = ("sessionStart", "sessionEnd", "chatEnd", "chatStatusChanged")
HOOKS = Hooks(
    hooks={event: Hook(type=event) for event in EVENTS},
    directory=Path("/"),
    environment={},
    common_payload={},
)


@attrs.define(kw_only=True)
class Log:
    """Records the payloads of hooks, and decides when the running ones end, and how."""

    events: list[Any] = attrs.field(factory=list)
    end: trio.Event = attrs.field(factory=trio.Event)
    status: int = 0
    stderr: str = ""
    running: int = 0

    async def fire(self, event: Any, payload: Mapping[str, Any], reporter: Any) -> None:
        self.events.append((event, *payload.values()))
        self.running += 1
        try:
            await self.end.wait()
        finally:
            self.running -= 1
        ran = ActionResult(status=self.status, stderr=self.stderr)
        reporter.finished("", event, ran, parse_outcome(event, ran))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    monkeypatch.setattr(Hooks, "fire", lambda _, *arguments: log.fire(*arguments))
    return log


async def fire(background: BackgroundHooks, event: Any, chat: str = "c", **payload: Any) -> None:
    background.fire(HOOKS, event, payload, chat)
    await quiet()


async def test_only_the_newest_pending_status_is_reported_and_none_twice(log, nursery):
    background = BackgroundHooks(nursery, pytest.fail)
    for state in (1, 2, 1):
        await fire(background, "chatStatusChanged", state=state)
    first, log.end = log.end, trio.Event()
    first.set()
    await quiet()
    assert log.events == [("chatStatusChanged", 1)]
    for state in (2, 3, 4):
        await fire(background, "chatStatusChanged", state=state)
    background.fire(HOOKS, "chatEnd", {"chat": "c"}, "c")
    log.end.set()
    await quiet()
    assert log.events[1:] == [("chatStatusChanged", 2), ("chatStatusChanged", 4), ("chatEnd", "c")]


async def test_a_status_is_reported_again_for_a_chat_with_the_id_of_a_deleted_one(log, nursery):
    background = BackgroundHooks(nursery, pytest.fail)
    for _ in range(2):
        await fire(background, "chatStatusChanged", status="running")
        background.fire(HOOKS, "chatStatusChanged", {"status": "stopping"}, "c")
        background.forget("c")
        log.end.set()
        await quiet()
    background.forget("c")
    assert log.events == [("chatStatusChanged", "running")] * 2


async def test_few_chats_run_hooks_at_once_and_all_after_session_start(log, nursery):
    background = BackgroundHooks(nursery, pytest.fail)
    background.fire(HOOKS, "sessionStart", {})
    for number in range(MAX_CHATS + 1):
        background.fire(HOOKS, "chatEnd", {}, f"c{number}")
    await quiet()
    assert log.events == [("sessionStart",)]
    starts, log.end = log.end, trio.Event()
    starts.set()
    await background.wait("sessionStart")
    await quiet()
    assert log.running == MAX_CHATS
    log.end.set()
    await quiet()
    assert len(log.events) == MAX_CHATS + 2


async def test_a_failing_hook_is_named_once_and_an_internal_error_stops_no_other(
    log, nursery, monkeypatch
):
    warned: list[str] = []
    background = BackgroundHooks(nursery, warned.append)
    log.status = 2
    log.end.set()
    for state in (1, 2):
        await fire(background, "chatStatusChanged", state=state)
    assert warned == ["The hook chatStatusChanged failed: exit code 2"]
    log.stderr = "x" * 60_000
    await fire(background, "chatEnd")
    assert "57952 bytes left out" in warned[1]
    with monkeypatch.context() as patched:
        patched.setattr(Hooks, "fire", lambda *_: 1 / 0)
        await fire(background, "chatStatusChanged", state=3)
    await fire(background, "chatStatusChanged", state=4)
    assert log.events[-1] == ("chatStatusChanged", 4)


async def test_session_end_hooks_run_last(log, nursery):
    background = BackgroundHooks(nursery, pytest.fail)
    background.fire(HOOKS, "chatEnd", {}, "c")
    background.fire(HOOKS, "sessionStart", {})
    nursery.start_soon(background.close, HOOKS, {})
    for events in (["sessionStart"], ["chatEnd"], ["sessionEnd"]):
        await quiet()
        assert [event for (event,) in log.events] == events
        log.events.clear()
        end, log.end = log.end, trio.Event()
        end.set()


async def test_at_the_sessions_end_hooks_have_a_second_and_none_starts_after_it(
    log, nursery, autojump_clock
):
    background = BackgroundHooks(nursery, pytest.fail)
    background.fire(HOOKS, "sessionStart", {})
    begun = trio.current_time()
    await background.close(HOOKS, {})
    assert trio.current_time() - begun == pytest.approx(CLOSE_SECONDS)
    assert (sorted(log.events), log.running) == ([("sessionEnd",), ("sessionStart",)], 0)
    background.fire(HOOKS, "chatEnd", {}, "c")
    await background.close(HOOKS, {})
    await quiet()
    assert len(log.events) == 2
