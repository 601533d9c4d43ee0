"""Work on a chat's history between turns, such as a rollback or a clear.

Rules: the work runs to its end even if its caller is cancelled; prompts that arrive meanwhile wait;
an error in the work ends neither the chat nor the server.
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
    """The work on one chat's history.

    Attributes:
        idle: set while no work runs.
        was_cleared: the stored messages of the chat do not belong to it any more.
    """

    def __init__(self, chat: Chat, nursery: trio.Nursery, memory: Memory | None) -> None:
        self.idle = trio.Event()
        self.idle.set()
        self.was_cleared = False
        self._chat = chat
        self._nursery = nursery
        self._memory = memory
        self._running = 0
        self._waiting: list[tuple[Callable[[], Awaitable[None]], trio.Event]] = []
        self._turnstile = trio.Lock()
        self._to_be_cleared: trio.Event | None = None
        self._cleared = trio.Event()
        self._cleared.set()

    @property
    def is_busy(self) -> bool:
        """True if a prompt must wait."""
        return self._running > 0

    def do(self, work: Callable[[], Awaitable[None]]) -> trio.Event:
        """Stop the running turn and start work on the history; prompts wait for it.

        Returns:
            An event that is set when the work is done.
        """
        self._chat.stop()
        done = trio.Event()
        self._start(work, done)
        return done

    def later(self, work: Callable[[], Awaitable[None]]) -> trio.Event:
        """Start work on the history once no turn runs; later prompts wait for it.

        Returns:
            An event that is set when the work is done.
        """
        done = trio.Event()
        if self._chat.is_busy:
            self._waiting.append((work, done))
        else:
            self._start(work, done)
        return done

    def clear(self) -> trio.Event:
        """Stop the running turn and clear the history; prompts wait for it.

        Returns:
            An event that is set, within a time limit, when the client was notified and the stored
            messages are deleted.
        """
        if self._to_be_cleared is not None:
            return self._to_be_cleared
        self._to_be_cleared = cleared = trio.Event()
        if self._chat.state is ChatState.DELETED:
            cleared.set()
        elif self._chat.is_busy:
            self._chat.stop()
        elif not self._running:
            self._clear(cleared)
        return cleared

    def resume(self) -> None:
        """Start the work that waited for the turn to end."""
        if self._to_be_cleared is not None:
            self._clear(self._to_be_cleared)
        waiting, self._waiting = self._waiting, []
        for work, done in waiting:
            self._start(work, done)

    def delete(self) -> None:
        """Release the callers that wait for the deleted chat to be cleared."""
        if self._to_be_cleared is not None:
            self._to_be_cleared.set()

    async def finish(self) -> None:
        """Wait until all work is done."""
        await self.idle.wait()
        await self._cleared.wait()

    def _start(self, work: Callable[[], Awaitable[None]], done: trio.Event) -> None:
        self._running += 1
        if self.idle.is_set():
            self.idle = trio.Event()
        self._nursery.start_soon(self._do, work, done)

    async def _do(self, work: Callable[[], Awaitable[None]], done: trio.Event) -> None:
        try:
            await self._chat.turn_closed()
            async with self._turnstile:
                await self._chat.restore()
                await work()
        except Exception:  # noqa: BLE001 - an error must not end the server
            _log.exception("work on the history of chat %s failed", self._chat.id)
        finally:
            self._running -= 1
            if not self._running:
                self.idle.set()
            done.set()
            self._chat.resume()

    def _clear(self, cleared: trio.Event) -> None:
        """Clear the history now; the stored messages are deleted soon after."""
        self.was_cleared = True
        self._chat.replayer.end()
        self._chat.forget()
        params = ChatClearedParams(chat_id=self._chat.id, messages=True)
        self._chat.session.notify("chat/cleared", params, newest=True)
        before, self._cleared = self._cleared, cleared
        self._to_be_cleared = None
        erasure = None
        if self._memory is not None and self._chat.is_read:
            erasure = self._memory.clear(self._chat)
        self._nursery.start_soon(self._store_cleared, erasure, before, cleared)

    async def _store_cleared(
        self, erasure: Awaitable[None] | None, before: trio.Event, cleared: trio.Event
    ) -> None:
        try:
            if erasure is None:
                await self._chat.restore()  # settings, costs and the user's title stay
                if self._memory is not None and self._chat.state is not ChatState.DELETED:
                    erasure = self._memory.clear(self._chat)
            if erasure is not None:
                await erasure
            await before.wait()
        except Exception:  # noqa: BLE001 - an error must not end the server
            _log.exception("the stored messages of chat %s cannot be deleted", self._chat.id)
        finally:
            cleared.set()
