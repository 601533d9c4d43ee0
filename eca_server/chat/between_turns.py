"""What is done to a chat's past while no turn runs: work on it, and that it is forgotten.

The rules it keeps: it is done whether or not anybody waits for it, prompts that come meanwhile
wait, and a fault of it ends neither the chat nor the server.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio

from eca_protocol.messages import ChatClearedParams
from eca_server.chat.memory import Memory
from eca_server.chat.states import ChatState

if TYPE_CHECKING:
    from eca_server.chat.chat import Chat

__all__ = ["BetweenTurns"]

_log = logging.getLogger("eca_server.chat")


class BetweenTurns:
    """The work on one chat's past.

    Attributes:
        at_rest: set while nobody works on it.
        was_cleared: what may be stored of the chat is no part of it any more.
    """

    def __init__(self, chat: Chat, nursery: trio.Nursery, memory: Memory | None) -> None:
        self.at_rest = trio.Event()
        self.at_rest.set()
        self.was_cleared = False
        self._chat = chat
        self._nursery = nursery
        self._memory = memory
        self._works = 0
        self._waiting: list[tuple[Callable[[], Awaitable[None]], trio.Event]] = []
        self._turnstile = trio.Lock()
        self._to_be_cleared: trio.Event | None = None
        self._cleared = trio.Event()
        self._cleared.set()

    @property
    def is_at_work(self) -> bool:
        """Whether a prompt must wait."""
        return self._works > 0

    def do(self, work: Callable[[], Awaitable[None]]) -> trio.Event:
        """Do something to the past; a turn that runs is stopped, prompts that come now wait.

        Returns:
            Set when it is done.
        """
        self._chat.stop()
        done = trio.Event()
        self._start(work, done)
        return done

    def later(self, work: Callable[[], Awaitable[None]]) -> trio.Event:
        """Do something to the past once no turn runs; none is stopped, prompts that come then wait.

        Returns:
            Set when it is done.
        """
        done = trio.Event()
        if self._chat.is_busy:
            self._waiting.append((work, done))
        else:
            self._start(work, done)
        return done

    def clear(self) -> trio.Event:
        """Forget what was said; a turn that runs is stopped, prompts that come now wait for it.

        Returns:
            Set when the client was told and nothing is stored any more; bounded in time.
        """
        if self._to_be_cleared is not None:
            return self._to_be_cleared
        self._to_be_cleared = cleared = trio.Event()
        if self._chat.state is ChatState.DELETED:
            cleared.set()
        elif self._chat.is_busy:
            self._chat.stop()
        elif not self._works:
            self._clear(cleared)
        return cleared

    def go_on(self) -> None:
        """Begin what waited for the turn that has ended."""
        if self._to_be_cleared is not None:
            self._clear(self._to_be_cleared)
        waiting, self._waiting = self._waiting, []
        for work, done in waiting:
            self._start(work, done)

    def delete(self) -> None:
        """Nobody waits any more for a deleted chat to be cleared."""
        if self._to_be_cleared is not None:
            self._to_be_cleared.set()

    async def finish(self) -> None:
        """Wait until all of it is done."""
        await self.at_rest.wait()
        await self._cleared.wait()

    def _start(self, work: Callable[[], Awaitable[None]], done: trio.Event) -> None:
        self._works += 1
        if self.at_rest.is_set():
            self.at_rest = trio.Event()
        self._nursery.start_soon(self._do, work, done)

    async def _do(self, work: Callable[[], Awaitable[None]], done: trio.Event) -> None:
        try:
            await self._chat.turn_closed()
            async with self._turnstile:
                await self._chat.restore()
                await work()
        except Exception:  # noqa: BLE001 - a fault of it must not end the server
            _log.exception("what was to be done to chat %s failed", self._chat.id)
        finally:
            self._works -= 1
            if not self._works:
                self.at_rest.set()
            done.set()
            self._chat.go_on()

    def _clear(self, cleared: trio.Event) -> None:
        """Forget now; what may be stored is no part of this chat any more, and goes in a moment."""
        self.was_cleared = True
        self._chat.showing.end()
        self._chat.forget()
        told = ChatClearedParams(chat_id=self._chat.id, messages=True)
        self._chat.session.notify("chat/cleared", told, newest=True)
        before, self._cleared = self._cleared, cleared
        self._to_be_cleared = None
        asked = None
        if self._memory is not None and self._chat.is_read:
            asked = self._memory.clear(self._chat)
        self._nursery.start_soon(self._keep_cleared, asked, before, cleared)

    async def _keep_cleared(
        self, asked: Awaitable[None] | None, before: trio.Event, cleared: trio.Event
    ) -> None:
        try:
            if asked is None:
                await self._chat.restore()  # what stays: settings, costs, the user's name for it
                if self._memory is not None and self._chat.state is not ChatState.DELETED:
                    asked = self._memory.clear(self._chat)
            if asked is not None:
                await asked
            await before.wait()
        except Exception:  # noqa: BLE001 - a fault of it must not end the server
            _log.exception("chat %s cannot be cleared where it is stored", self._chat.id)
        finally:
            cleared.set()
