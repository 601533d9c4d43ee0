"""Hooks that have no say: they run beside everything else, and what happens does not wait for them.

The rules it keeps: those about one chat run one after the other, in the order of what happened and
behind the session's start, and of its states only the newest waits; few run at once; one that fails
is named to the user once; when the session ends they have `CLOSE_SECONDS`, those at its end the
last half at least, and are then killed with their children.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final

import attrs
import trio

from eca_server.config.hook_settings import HookEvent
from eca_server.hooks.hooks import Heard, Hooks
from eca_server.hooks.outcome import Outcome
from eca_server.hooks.running import Ran
from eca_server.tools.output import Cap, cut_middle

__all__ = ["Beside"]

_log = logging.getLogger("eca_server.hooks")

_SHOWN: Final = Cap(lines=20, size=2048)  # of why one failed

MOST: Final = 4
"""Chats whose hooks run at once."""

CLOSE_SECONDS: Final = 1.0
"""How long hooks may run on once the session ends: `shutdown` is answered within 2 s (W-13), and a
hook that is deaf to TERM takes half a second more."""


@attrs.frozen
class _Happened:
    hooks: Hooks
    event: HookEvent
    told: Mapping[str, Any]


@attrs.define
class _Lane:
    """What happened to one chat, or to the session.

    Attributes:
        places: lets it run hooks.
        waiting: what hooks were not told of yet.
        state: the last that they were told of.
        scope: in which they run; None: none does.
        over: set when none runs any more.
    """

    places: AbstractAsyncContextManager[object]
    waiting: deque[_Happened] = attrs.field(factory=deque)
    state: Mapping[str, Any] | None = None
    scope: trio.CancelScope | None = None
    over: trio.Event = attrs.field(factory=trio.Event)


class _Start:
    """The hooks at a chat's start.

    Attributes:
        scope: in which they run.
        heard: what they said, once they have.
        over: set when none runs any more.
    """

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.heard: Heard | Exception | None = None
        self.over = trio.Event()


class Beside:
    """The hooks beside a session.

    Args:
        nursery: where they run.
        warn: given what the user is to be told.
    """

    def __init__(self, nursery: trio.Nursery, warn: Callable[[str], None]) -> None:
        self._nursery = nursery
        self._stage = _Unseen(warn)
        self._places = trio.CapacityLimiter(MOST)
        self._lanes: dict[Hashable, _Lane] = {}
        self._starts: dict[str, _Start] = {}
        self._is_closing = False

    async def begin(
        self, chat_id: str, run: Callable[[], Awaitable[Heard]], outlives: Callable[[], bool]
    ) -> Heard:
        """Run the hooks at a chat's start; those at its end wait for them.

        Args:
            chat_id: the chat.
            run: runs them.
            outlives: whether they run to their end though the caller is cancelled.
        """
        start = self._starts[chat_id] = _Start()
        self._nursery.start_soon(self._begin, chat_id, start, run)
        try:
            await start.over.wait()
        except trio.Cancelled:
            if not outlives():
                start.scope.cancel()
                with trio.CancelScope(shield=True):
                    await start.over.wait()
            raise
        if isinstance(start.heard, Exception):
            raise start.heard
        assert start.heard is not None
        return start.heard

    def fire(
        self, hooks: Hooks, event: HookEvent, told: Mapping[str, Any], chat_id: str = ""
    ) -> None:
        """Let those that an event concerns run, in a moment; once the session ends, none.

        Args:
            hooks: the configured ones.
            event: what happens; of a chat's state only what is new is told.
            told: what each is told of it.
            chat_id: to which chat it happens; empty: to the session.
        """
        if self._is_closing or not hooks.has(event):
            return
        key = chat_id or (event,)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(self._places if chat_id else nullcontext())
        if event == "chatStatusChanged":
            lane.waiting = deque(each for each in lane.waiting if each.event != event)
            if told == lane.state:
                return
        lane.waiting.append(_Happened(hooks, event, told))
        if lane.scope is None:
            lane.scope, lane.over = trio.CancelScope(), trio.Event()
            self._nursery.start_soon(self._run, key, lane, lane.scope)

    def forget(self, chat_id: str) -> None:
        """The chat is deleted: no state of it is told any more, and the last one not remembered."""
        lane = self._lanes.get(chat_id)
        if lane is not None:
            lane.state = None
            lane.waiting = deque(each for each in lane.waiting if each.event != "chatStatusChanged")
            if lane.scope is None:
                del self._lanes[chat_id]

    async def wait(self, event: HookEvent) -> None:
        """Until the session's hooks at an event are over."""
        lane = self._lanes.get((event,))
        if lane is not None:
            await lane.over.wait()

    async def close(self, hooks: Hooks, told: Mapping[str, Any]) -> None:
        """Run those at the session's end and wait for all, `CLOSE_SECONDS` at most, then end them.

        Args:
            hooks: the configured ones.
            told: what each at the session's end is told.
        """
        self.fire(hooks, "sessionEnd", told)
        self._is_closing = True
        lanes = [lane for lane in self._lanes.values() if lane.scope is not None]
        running: list[_Lane | _Start] = [*lanes, *self._starts.values()]
        with trio.move_on_after(CLOSE_SECONDS):
            for each in running:
                await each.over.wait()
        for each in running:
            if each.scope is not None:
                each.scope.cancel()
        for each in running:
            await each.over.wait()

    async def _begin(
        self, chat_id: str, start: _Start, run: Callable[[], Awaitable[Heard]]
    ) -> None:
        try:
            with start.scope:
                start.heard = await run()
        except Exception as fault:  # noqa: BLE001 - the caller's
            start.heard = fault
        finally:
            if self._starts.get(chat_id) is start:
                del self._starts[chat_id]
            start.over.set()

    async def _run(self, key: Hashable, lane: _Lane, scope: trio.CancelScope) -> None:
        try:
            with scope:
                await self._wait_for_others(key)
                while lane.waiting:
                    async with lane.places:
                        if lane.waiting:  # a state may have become the last one told meanwhile
                            await self._tell(lane, lane.waiting.popleft())
        finally:
            lane.scope = None
            if lane.state is None or lane.state.get("status") == "idle":
                del self._lanes[key]
            lane.over.set()

    async def _wait_for_others(self, key: Hashable) -> None:
        """The session's start is first, and its end is last unless that comes too late."""
        if isinstance(key, str):
            await self.wait("sessionStart")
        elif key == ("sessionEnd",):
            with trio.move_on_after(CLOSE_SECONDS / 2):
                for other, lane in tuple(self._lanes.items()):
                    if other != key and lane.scope is not None:
                        await lane.over.wait()

    async def _tell(self, lane: _Lane, happened: _Happened) -> None:
        lane.state = happened.told if happened.event == "chatStatusChanged" else None
        start = self._starts.get(happened.told.get("chat_id", ""))
        if happened.event == "chatEnd" and start is not None:
            await start.over.wait()
        try:
            await happened.hooks.fire(happened.event, happened.told, self._stage)
        except Exception:  # noqa: BLE001 - a fault of a hook's must not end the server
            _log.exception("the hooks at %s failed", happened.event)


class _Unseen:
    """No chat shows them; the user is told of each that fails, the first time."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._failed: set[str] = set()

    def started(self, key: str, name: str) -> None:
        pass

    def finished(self, key: str, name: str, ran: Ran, outcome: Outcome) -> None:
        if outcome.fails:
            self.failed(name, outcome.why)

    def failed(self, name: str, why: str) -> None:
        words = f"The hook {name} failed: {cut_middle(why, _SHOWN)}"
        _log.warning("%s", words)
        if name not in self._failed:
            self._failed.add(name)
            self._warn(words)

    def say(self, text: str) -> None:
        self._warn(text)
