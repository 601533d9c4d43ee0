"""The mailbox of a chat: its state, its queue of prompts, and the work on its history in between.

Rules: `prompt`, `stop`, `delete` and `clear` act at once. What must wait starts in order: clears
and work on the history, then prompts. Work runs to its end even if its caller is cancelled, and an
error in it ends neither the chat nor the server.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import anyio
import attrs

from eca_protocol.server.chat_states import TRANSITIONS, Action, ChatState, Input

__all__ = ["Mailbox", "Tasks"]

_log = logging.getLogger("eca_protocol.server")

Work: TypeAlias = Callable[[], Awaitable[None]]


class Tasks(Protocol):
    """A group of tasks: a nursery of trio, or a task group of anyio."""

    @property
    def start_soon(self) -> Callable[..., Any]:
        """Start a task: a function and its arguments."""
        ...


class _Prompt(Protocol):
    @property
    def text(self) -> str:
        """The exact text."""
        ...


P = TypeVar("P", bound=_Prompt)


@attrs.define
class Mailbox(Generic[P]):
    """The queue of one chat.

    Attributes:
        tasks: the group of the task that does the work.
        begin: starts the turn of a prompt.
        clear: clears the history, and returns the deletion of its stored messages.
        restore: loads the stored chat before work on the history.
        idle: set while no work on the history runs or waits, clears not counted.
        dropped: the prompts that a stop has dropped, until they are shown to the user.
        clearing: the event of a clear that waits for the turn or for work; None: there is none.
    """

    _chat_id: str
    _tasks: Tasks
    _begin: Callable[[P], None] = attrs.field(kw_only=True)
    _clear: Callable[[], Awaitable[None]] = attrs.field(kw_only=True)
    _restore: Callable[[], Awaitable[None]] = attrs.field(kw_only=True)
    state: ChatState = attrs.field(init=False, default=ChatState.IDLE)
    idle: anyio.Event = attrs.field(init=False, factory=anyio.Event)
    dropped: list[P] = attrs.field(init=False, factory=list)
    clearing: anyio.Event | None = attrs.field(init=False, default=None)
    _prompts: deque[P] = attrs.field(init=False, factory=deque)
    _work: deque[tuple[Work | None, anyio.Event]] = attrs.field(init=False, factory=deque)
    _is_working: bool = attrs.field(init=False, default=False)
    _erasures: set[anyio.Event] = attrs.field(init=False, factory=set)

    def __attrs_post_init__(self) -> None:
        self.idle.set()

    def prompt(self, prompt: P) -> None:
        """Start a turn, or queue the prompt behind the running turn and the work (W-22)."""
        if self._is_working and self.state is ChatState.IDLE:
            self._prompts.append(prompt)
            return
        action = self._move(Input.PROMPT)
        if action is Action.BEGIN:
            self._begin(prompt)
        elif action is Action.QUEUE:
            self._prompts.append(prompt)

    def stop(self) -> bool:
        """Drop the queued prompts; return whether a turn must be stopped."""
        action = self._move(Input.STOP)
        self.dropped += self._prompts
        self._prompts.clear()
        return action is Action.CANCEL

    def delete(self) -> bool:
        """Drop the queued prompts; return whether the chat was not deleted before."""
        is_new = self._move(Input.DELETE) is Action.SILENCE
        self._prompts.clear()
        self.dropped.clear()
        if self.clearing is not None:
            self.clearing.set()
        return is_new

    def end_turn(self) -> bool:
        """Note that the running turn is closed; return whether the chat takes its messages."""
        return self._move(Input.ENDED) is Action.CLOSE

    def clear(self) -> anyio.Event:
        """Clear the history once no turn runs, after the work that waits.

        Returns:
            An event that is set, within a time limit, when the client was notified and the stored
            messages are deleted.
        """
        cleared = self.clearing
        if cleared is None:
            cleared = self.clearing = anyio.Event()
            self._work.append((None, cleared))
            self.resume()
        return cleared

    def do(self, work: Work) -> anyio.Event:
        """Start work on the history once no turn runs; waiting and later prompts wait for it.

        Returns:
            An event that is set when the work is done.
        """
        done = anyio.Event()
        self._work.append((work, done))
        if self.idle.is_set():
            self.idle = anyio.Event()
        self.resume()
        return done

    def resume(self) -> None:
        """Start what waited for the end of a turn or of work."""
        if self._is_working or self.state not in {ChatState.IDLE, ChatState.DELETED}:
            return
        while self._work and self._work[0][0] is None:
            _, cleared = self._work.popleft()
            self._start_clear(cleared)
        if self._work:
            self._is_working = True
            self._tasks.start_soon(self._drain)
            return
        self.idle.set()
        if self._prompts:
            self.prompt(self._prompts.popleft())

    def _start_clear(self, cleared: anyio.Event) -> None:
        """Clear the history now; its stored messages are deleted soon after."""
        self.clearing = None
        if self.state is ChatState.DELETED:
            cleared.set()
        else:
            self._erasures.add(cleared)
            self._tasks.start_soon(self._erase, self._clear(), cleared)

    @property
    def has_prompts(self) -> bool:
        """True if prompts wait, for work or for the end of a turn."""
        return bool(self._prompts)

    def take_dropped(self) -> Sequence[str]:
        """Return and forget the texts of dropped prompts."""
        texts = [each.text for each in self.dropped]
        self.dropped.clear()
        return texts

    async def finish(self) -> None:
        """Wait until all work is done."""
        await self.idle.wait()
        for erased in tuple(self._erasures):
            await erased.wait()

    async def _drain(self) -> None:
        """Do the work that waits, in order, up to a clear."""
        while self._work and (work := self._work[0][0]) is not None:
            _, done = self._work.popleft()
            try:
                await self._restore()
                await work()
            except Exception:  # noqa: BLE001 - an error must not end the server
                _log.exception("work on the history of chat %s failed", self._chat_id)
            finally:
                done.set()
        self._is_working = False
        self.resume()

    async def _erase(self, erasure: Awaitable[None], erased: anyio.Event) -> None:
        try:
            await erasure
        except Exception:  # noqa: BLE001 - an error must not end the server
            _log.exception("the stored messages of chat %s cannot be deleted", self._chat_id)
        finally:
            self._erasures.discard(erased)
            erased.set()

    def _move(self, event: Input) -> Action:
        action, self.state = TRANSITIONS[self.state][event]
        return action
