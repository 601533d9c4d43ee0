"""Background hooks: hooks whose output is ignored, so that the session does not wait for them.

Rules: hooks of one chat run one after the other, in the order of the events and after the
`sessionStart` hooks; of a chat's pending statuses only the newest is reported; at most `MAX_CHATS`
chats run hooks at once; the user is warned once of each failing hook. When the session ends, hooks
have `CLOSE_SECONDS`, of which `sessionEnd` hooks get at least half; then they are killed with their
children.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final

import attrs
import trio

from eca_server.agent.hooks.hooks import HookReporter, HookResults, Hooks
from eca_server.agent.tools.output import Cap, cut_middle
from eca_server.config.hook_settings import HookEvent

_log = logging.getLogger("eca_server.agent.hooks")

_SHOWN: Final = Cap(lines=20, size=2048)  # of a failure's reason

MAX_CHATS: Final = 4
"""Maximum number of chats whose hooks run at once."""

CLOSE_SECONDS: Final = 1.0
"""Time that hooks have once the session ends: `shutdown` is answered within 2 s (W-13), and a hook
that ignores SIGTERM takes half a second more."""


@attrs.frozen
class _FiredEvent:
    hooks: Hooks
    event: HookEvent
    payload: Mapping[str, Any]


@attrs.define
class _Lane:
    """The queue of events of one chat, or of one event of the session.

    Attributes:
        limiter: limits the chats that run hooks at once.
        pending: events whose hooks have not run yet.
        scope: the running hooks' cancel scope; None: no hook runs.
    """

    limiter: AbstractAsyncContextManager[object]
    pending: deque[_FiredEvent] = attrs.field(factory=deque)
    last_status: Mapping[str, Any] | None = None
    scope: trio.CancelScope | None = None
    finished: trio.Event = attrs.field(factory=trio.Event)


class _ChatStart:
    """The running `chatStart` hooks of one chat.

    Attributes:
        results: their results, or the exception that ended them.
    """

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.results: HookResults | Exception | None = None
        self.finished = trio.Event()


class BackgroundHooks:
    """Runs hooks in the background of a session.

    Args:
        nursery: the nursery in which they run.
    """

    def __init__(self, nursery: trio.Nursery, warn: Callable[[str], None]) -> None:
        self._nursery = nursery
        self._reporter = _FailureReporter(warn)
        self._limiter = trio.CapacityLimiter(MAX_CHATS)
        self._lanes: dict[Hashable, _Lane] = {}
        self._starts: dict[str, _ChatStart] = {}
        self._is_closing = False

    async def run_start(
        self,
        chat_id: str,
        run: Callable[[], Awaitable[HookResults]],
        outlives_caller: Callable[[], bool],
    ) -> HookResults:
        """Run the `chatStart` hooks of a chat; its `chatEnd` hooks wait for them.

        `outlives_caller`: returns whether they continue when the caller is cancelled.
        """
        start = self._starts[chat_id] = _ChatStart()
        self._nursery.start_soon(self._run_start, chat_id, start, run)
        try:
            await start.finished.wait()
        except trio.Cancelled:
            if not outlives_caller():
                start.scope.cancel()
                with trio.CancelScope(shield=True):
                    await start.finished.wait()
            raise
        if isinstance(start.results, Exception):
            raise start.results
        assert start.results is not None
        return start.results

    def fire(
        self, hooks: Hooks, event: HookEvent, payload: Mapping[str, Any], chat_id: str = ""
    ) -> None:
        """Schedule the hooks of an event; do nothing once the session ends.

        Args:
            hooks: the configured hooks.
            event: the event; an unchanged `chatStatusChanged` is dropped.
            payload: the event's data for the hooks.
            chat_id: the chat of the event; empty: an event of the session.
        """
        if self._is_closing or not hooks.has(event):
            return
        key = chat_id or (event,)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(self._limiter if chat_id else nullcontext())
        if event == "chatStatusChanged":
            lane.pending = deque(each for each in lane.pending if each.event != event)
            if payload == lane.last_status:
                return
        lane.pending.append(_FiredEvent(hooks, event, payload))
        if lane.scope is None:
            lane.scope, lane.finished = trio.CancelScope(), trio.Event()
            self._nursery.start_soon(self._run, key, lane, lane.scope)

    def forget(self, chat_id: str) -> None:
        """Drop the pending statuses and the last status of a deleted chat."""
        lane = self._lanes.get(chat_id)
        if lane is not None:
            lane.last_status = None
            lane.pending = deque(each for each in lane.pending if each.event != "chatStatusChanged")
            if lane.scope is None:
                del self._lanes[chat_id]

    async def wait(self, event: HookEvent) -> None:
        """Wait until the hooks of a session event have finished."""
        lane = self._lanes.get((event,))
        if lane is not None:
            await lane.finished.wait()

    async def close(self, hooks: Hooks, payload: Mapping[str, Any]) -> None:
        """Run the `sessionEnd` hooks, wait `CLOSE_SECONDS` for all hooks, then kill the rest.

        `payload`: the data for the `sessionEnd` hooks.
        """
        self.fire(hooks, "sessionEnd", payload)
        self._is_closing = True
        lanes = [lane for lane in self._lanes.values() if lane.scope is not None]
        running: list[_Lane | _ChatStart] = [*lanes, *self._starts.values()]
        with trio.move_on_after(CLOSE_SECONDS):
            for each in running:
                await each.finished.wait()
        for each in running:
            if each.scope is not None:
                each.scope.cancel()
        for each in running:
            await each.finished.wait()

    async def _run_start(
        self, chat_id: str, start: _ChatStart, run: Callable[[], Awaitable[HookResults]]
    ) -> None:
        try:
            with start.scope:
                start.results = await run()
        except Exception as error:  # noqa: BLE001 - raised again in the caller
            start.results = error
        finally:
            if self._starts.get(chat_id) is start:
                del self._starts[chat_id]
            start.finished.set()

    async def _run(self, key: Hashable, lane: _Lane, scope: trio.CancelScope) -> None:
        try:
            with scope:
                await self._wait_for_turn(key)
                while lane.pending:
                    async with lane.limiter:
                        if lane.pending:  # `fire` may have dropped a status meanwhile
                            await self._run_one(lane, lane.pending.popleft())
        finally:
            lane.scope = None
            if lane.last_status is None or lane.last_status.get("status") == "idle":
                del self._lanes[key]
            lane.finished.set()

    async def _wait_for_turn(self, key: Hashable) -> None:
        """Wait for `sessionStart` before a chat's hooks, and for all others before `sessionEnd`."""
        if isinstance(key, str):
            await self.wait("sessionStart")
        elif key == ("sessionEnd",):
            with trio.move_on_after(CLOSE_SECONDS / 2):
                for other, lane in tuple(self._lanes.items()):
                    if other != key and lane.scope is not None:
                        await lane.finished.wait()

    async def _run_one(self, lane: _Lane, fired: _FiredEvent) -> None:
        lane.last_status = fired.payload if fired.event == "chatStatusChanged" else None
        start = self._starts.get(fired.payload.get("chat_id", ""))
        if fired.event == "chatEnd" and start is not None:
            await start.finished.wait()
        try:
            await fired.hooks.fire(fired.event, fired.payload, self._reporter)
        except Exception:  # noqa: BLE001 - an error of a hook must not end the server
            _log.exception("the hooks at %s failed", fired.event)


class _FailureReporter(HookReporter):
    """A reporter without a chat: it warns the user of each failing hook, the first time."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._failed: set[str] = set()

    def failed(self, name: str, why: str) -> None:
        message = f"The hook {name} failed: {cut_middle(why, _SHOWN)}"
        _log.warning("%s", message)
        if name not in self._failed:
            self._failed.add(name)
            self._warn(message)

    def say(self, text: str) -> None:
        self._warn(text)
