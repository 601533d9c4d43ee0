"""A chat: its history, its usage, its settings, and its turns, one at a time.

The table in `states` decides what a prompt, a stop or a delete does in each state. The methods that
handlers call never wait: a stop has taken effect before the next message is read.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import trio

from eca_protocol.messages import (
    ChatContent,
    ChatMetadataContent,
    ChatStatus,
    ChatStatusChangedParams,
)
from eca_server.chat.between_turns import BetweenTurns
from eca_server.chat.flags import flags_within
from eca_server.chat.history import History
from eca_server.chat.instructions import System
from eca_server.chat.memory import Memory
from eca_server.chat.showing import Replayer
from eca_server.chat.states import STATUSES, TRANSITIONS, Action, ChatState, Input
from eca_server.chat.store import BeforeImageBatch, ChatSettings
from eca_server.chat.tool_call import ToolCall
from eca_server.chat.turn import Prompt, Steer, Turn
from eca_server.chat.usage import SessionUsage
from eca_server.content_formatting import Role
from eca_server.llm.history import Message
from eca_server.session import Session
from eca_server.tools.ledger import Ledger
from eca_server.tools.tool import FileChange

if TYPE_CHECKING:
    from eca_server.chat.subagents import SubagentChat

__all__ = ["Chat", "Selection"]

_log = logging.getLogger("eca_server.chat")

STOP_SECONDS = 0.3
"""Seconds a stopped body may take to end before its turn is closed without it (W-23)."""

TOOL_STOP_SECONDS = 0.9
"""The same if a tool was running: its processes are ended, and killed if they ignore TERM."""

STORE_SECONDS = 0.05
"""Seconds that a turn closed without its body waits to be stored."""


@attrs.define(kw_only=True)
class Selection:
    """The client's selection; None: not selected.

    Attributes:
        model: as `provider/model`.
        variant: the variant of that model.
        behavior: the name of the behavior.
    """

    model: str | None = None
    variant: str | None = None
    behavior: str | None = None


class Chat:
    """One chat of the connected client.

    Attributes:
        history: all messages, oldest first; append-only until a rollback or a clear.
        usage: tokens and costs of the whole chat.
        ledger: the files that the chat's model has seen.
        is_unread: the stored part could not be read yet, and must not be overwritten.
        unstored_changes: file changes whose before-images are not stored, or not yet.
        systems: the instructions by behavior, built once (design decision 20).
        replayer: replays the history to the client.
        between_turns: the work on the history.
        title: the chat's title, once the model or the user has given one.
        settings: the stored settings; changed by `set`.
        selection: the client's selection for this chat alone.
        created: the time the chat started, in seconds since the epoch.
        updated: the time of the last prompt.
        awaits_key_of: the provider whose key is expected as the next prompt; a stop ends the wait.
        watch: called when the status of the chat or of a call changes.
        parent_id: the chat whose agent started this subagent chat.
    """

    parent_id: str | None = None

    def __init__(
        self,
        chat_id: str,
        session: Session,
        nursery: trio.Nursery,
        memory: Memory | None = None,
        *,
        bodies: set[Turn] | None = None,
        may_be_stored: bool = False,
        watch: Callable[[Chat], None] = lambda _: None,
    ) -> None:
        self.id = chat_id
        self.session = session
        self.history = History()
        self.usage = SessionUsage()
        self.title: str | None = None
        self.settings = ChatSettings()
        self.selection = Selection()
        self.created = self.updated = time.time()
        self.awaits_key_of: str | None = None
        self.watch = watch
        self.state = ChatState.IDLE
        self.last_turn_failed = False
        self.ledger = Ledger()
        self.is_unread = False
        self.unstored_changes: list[BeforeImageBatch] = []
        self.systems: dict[str, System] = {}
        self.replayer = Replayer(chat_id, session)
        self.between_turns = BetweenTurns(self, nursery, memory)
        self.nursery = nursery
        self._memory = memory
        self._bodies = set() if bodies is None else bodies
        self._may_be_stored = may_be_stored
        self._restoring = trio.Lock()
        self._set: dict[str, Any] = {}
        self._turn: Turn | None = None
        self._queue: deque[Prompt] = deque()
        self._dropped: list[Prompt] = []
        self._title_scope: trio.CancelScope | None = None

    def prompt(self, prompt: Prompt) -> None:
        """Start a turn, or queue the prompt behind the running turn (W-22)."""
        if self.between_turns.is_busy and self.state is ChatState.IDLE:
            self._queue.append(prompt)
            return
        action = self._move(Input.PROMPT)
        if action is Action.BEGIN:
            self._begin(prompt)
        elif action is Action.QUEUE:
            self._queue.append(prompt)

    def stop(self) -> None:
        """End the running turn and drop the queued prompts; do nothing if there are none."""
        self.awaits_key_of = None
        self._cancel_title()
        if self._move(Input.STOP) is not Action.CANCEL:
            self._drop_waiting()
            return
        assert self._turn is not None
        self._dropped.extend(self._queue)
        self._queue.clear()
        if not self._turn.stopped:
            self._announce_status()
            self._turn.stop()
            self.nursery.start_soon(self._close_late, self._turn)

    def delete(self) -> None:
        """End everything inside and write nothing more (W-24)."""
        self._cancel_title()
        self.replayer.end()
        if self._move(Input.DELETE) is not Action.SILENCE:
            return
        self.between_turns.delete()
        self._queue.clear()
        if self._turn is not None:
            if self.session.profile.finishes_deleted:
                self._turn.finish()
            self._turn.silence()
            self._turn.stop()

    def steer(self, text: str) -> None:
        """Add a text to the running turn's next request; do nothing if no turn runs."""
        if self._turn is not None:
            self._turn.steers.append(Steer(text=text))

    @property
    def running_turn(self) -> Turn | None:
        """The running turn, or None."""
        return self._turn

    def call(self, call_id: str) -> ToolCall | None:
        """Return the call with this id of the running turn or its subagents, or None."""
        return None if self._turn is None else self._turn.call(call_id)

    def emit(self, role: Role, content: ChatContent) -> None:
        """Send a content of this chat to the client."""
        self.session.emit(self.id, role, content)

    @property
    def open_calls(self) -> Iterable[ToolCall]:
        """The tool calls that run or wait for the user."""
        return () if self._turn is None else self._turn.open_calls.values()

    @property
    def subagents(self) -> Sequence[SubagentChat]:
        """The chats of the running turn's subagents."""
        return () if self._turn is None else self._turn.subagents

    def name_with(self, make_title: Callable[[], Awaitable[str | None]]) -> None:
        """Request a title in the background, if the chat has none (W-25)."""
        if self.title is None and self._title_scope is None and self.state is ChatState.RUNNING:
            self._title_scope = trio.CancelScope()
            self.nursery.start_soon(self._find_title, make_title, self._title_scope)

    @property
    def status(self) -> ChatStatus:
        """The status, as the protocol names it."""
        if self.awaits_key_of is not None and self.state is ChatState.IDLE:
            return "login"
        return STATUSES[self.state]

    @property
    def is_blank(self) -> bool:
        """True if the chat has no history, title, settings or selection, and is idle."""
        is_untouched = self.settings == ChatSettings() and self.selection == Selection()
        return self.status == "idle" and is_untouched and not (self.history or self.title)

    @property
    def is_read(self) -> bool:
        """True if the chat has everything that may be stored of it."""
        return self._memory is None or not self._may_be_stored

    @property
    def is_busy(self) -> bool:
        """True if a turn runs."""
        return self._turn is not None

    @property
    def all_messages(self) -> Sequence[Message]:
        """All messages, including the running turn's and its prompt."""
        turn = self._turn
        return self.history if turn is None else [*self.history, turn.unsent, *turn.messages]

    def set(self, **changes: Any) -> None:
        """Change some of `settings`; they override stored ones, and are stored later."""
        self._set |= changes
        self.settings = attrs.evolve(self.settings, **changes)

    def rename(self, title: str) -> None:
        """Set the user's title, which no generated title replaces (W-25)."""
        if self.state is ChatState.DELETED:
            return
        self._cancel_title()
        self.title = title
        self.set(is_named_by_user=True)
        self.announce_title()

    @property
    def settings_to_store(self) -> ChatSettings | None:
        """The settings to be stored; None: keep the stored ones."""
        return None if self.is_unread else self.settings

    @property
    def title_to_store(self) -> str | None:
        """The title to be stored; None: keep the stored one."""
        counts = self.settings.is_named_by_user or not self.is_unread
        return self.title if counts else None

    async def store_settings(self) -> None:
        """Store title and settings, within a time limit."""
        if self._memory is not None and self.state is not ChatState.DELETED:
            await self._memory.store_settings(self)

    def truncate(self, messages: int) -> None:
        """Keep the first `messages` of the history; the usage of the removed ones still counts."""
        self.history.truncate(messages)
        self.ledger = Ledger()
        self.set(flags=flags_within(self.settings.flags, self.history))
        if not self.history and not self.settings.is_named_by_user:
            self._cancel_title()
            self.title = None

    def forget(self) -> None:
        """Forget the whole history."""
        self.truncate(0)
        self.unstored_changes.clear()
        self.systems.clear()

    async def close(self) -> None:
        """Stop, and wait up to `TOOL_STOP_SECONDS` until the running turn is closed.

        Pending work on the history is finished too, unless the disk is late.
        """
        self.stop()
        await self.turn_closed()
        with trio.move_on_after(STOP_SECONDS):
            await self.between_turns.finish()

    async def turn_closed(self) -> None:
        """Wait up to `TOOL_STOP_SECONDS` until the stopped turn, if any, is closed."""
        if self._turn is not None:
            await self._close_late(self._turn)

    async def bodies_ended(self, seconds: float) -> bool:
        """Wait until the bodies of closed turns have ended; return whether they have."""
        running = [turn.ended for turn in self._bodies if turn.chat is self]
        with trio.move_on_after(seconds):
            for ended in running:
                await ended.wait()
        return all(ended.is_set() for ended in running)

    async def store_prompt(self, turn: Turn) -> None:
        """Store the prompt before the model is called, within a time limit; never raise."""
        if self._memory is not None and self._is_current(turn):
            await self._memory.store_prompt(turn, self.nursery)

    async def store_before_images(
        self, turn: Turn, changes: Sequence[FileChange]
    ) -> Callable[[], None]:
        """Store the prompts that led to a call and the files' content before the call changes them.

        Returns:
            A function to call if the call has changed nothing.
        """
        memory, batch = self._memory, None
        if memory is not None and changes and self._is_current(turn):
            await memory.store_prompts(turn)
            if self._is_current(turn):  # it may have been deleted meanwhile
                batch = await memory.store_before_images(turn, changes)
                unstored = [each for each in self.unstored_changes if each.numbers is None]
                self.unstored_changes = [*unstored, batch]

        def forget() -> None:
            if memory is not None and batch is not None:
                others = [each for each in self.unstored_changes if each is not batch]
                self.unstored_changes = others
                memory.forget_before_images(batch)

        return forget

    async def store_pictures(self, turn: Turn, pictures: Iterable[bytes]) -> None:
        """Store pictures as files for a client that cannot show pictures."""
        if self._memory is not None and self._is_current(turn):
            await self._memory.store_pictures(self, pictures)

    def _is_current(self, turn: Turn) -> bool:
        """Return whether the turn is the running one of a chat that is not deleted."""
        return self._turn is turn and self.state is not ChatState.DELETED

    def _move(self, event: Input) -> Action:
        action, self.state = TRANSITIONS[self.state][event]
        return action

    def _begin(self, prompt: Prompt) -> None:
        self.replayer.finish()
        turn = self._turn = Turn(self, prompt)
        self.updated = time.time()
        self._bodies.add(turn)
        self._announce_status()
        turn.begin()
        self.nursery.start_soon(self._run, turn)

    async def _run(self, turn: Turn) -> None:
        try:
            with turn.scope:
                await self.restore()
                await turn.prompt.body(turn)
        except Exception:  # noqa: BLE001 - a body's error must not end the server
            _log.exception("a turn of chat %s failed", self.id)
            turn.fail("An internal error ended this turn. See the server's log for details.")
        finally:
            turn.close_messages()
            with trio.CancelScope(shield=True):
                await self._store_turn(turn)
            self._end(turn)
            turn.ended.set()
            self._bodies.discard(turn)

    async def restore(self) -> None:
        """Load the stored chat, if its id may be that of one and the store can be read."""
        async with self._restoring:
            if self._memory is None or self.is_read:
                return
            title = self.title
            if await self._memory.restore(self):
                flags = {**self.settings.flags, **self._set.get("flags", {})}
                self.settings = attrs.evolve(self.settings, **{**self._set, "flags": flags})
                if self.between_turns.was_cleared and not self.history:
                    self.forget()
                self._may_be_stored = False  # not before: a stop may have cut it short
                if title and title != self.title:
                    self.announce_title()

    async def _store_turn(self, turn: Turn) -> None:
        """Store the turn's messages, once, before its `finished` (design decision 18)."""
        if self._memory is None or turn.is_stored or not (turn.messages and self._is_current(turn)):
            return
        turn.is_stored = True
        try:
            await self._memory.store_turn(turn)
        except Exception:  # noqa: BLE001 - what cannot be stored must not keep the turn from ending
            _log.exception("a turn of chat %s cannot be stored", self.id)

    async def _close_late(self, turn: Turn) -> None:
        with trio.move_on_after(TOOL_STOP_SECONDS if turn.stopped_during_tool else STOP_SECONDS):
            await turn.ended.wait()
        if self._turn is turn:
            turn.close_messages()
            with trio.move_on_after(STORE_SECONDS):
                await self._store_turn(turn)
        self._end(turn)

    def _end(self, turn: Turn) -> None:
        if self._turn is not turn:
            return
        action = self._move(Input.ENDED)
        self._turn = None
        if action is not Action.CLOSE:
            return
        turn.close_messages()
        turn.flush()
        self.usage.add(turn.usages)
        if turn.usages and (not turn.stopped or self.session.profile.counts_stopped):
            turn.write_usage()
        if all(each.content_id != turn.prompt.content_id for each in turn.messages):
            self.history.unrecorded_prompts[turn.prompt.content_id] = len(self.history)
        self.history.extend(turn.messages)
        self.last_turn_failed = turn.failed
        self._announce_status()
        turn.finish(self._dropped_text(turn))
        self.resume()

    def resume(self) -> None:
        """Start the work and the prompt that waited for the running turn to end."""
        if self.between_turns.is_busy or self.state is not ChatState.IDLE:
            return
        self.between_turns.resume()
        if self._queue and not self.between_turns.is_busy:
            self.prompt(self._queue.popleft())

    def _announce_status(self) -> None:
        params = ChatStatusChangedParams(chat_id=self.id, status=STATUSES[self.state])
        self.session.notify("chat/statusChanged", params)
        self.watch(self)

    def _drop_waiting(self) -> None:
        """Drop the prompts that wait for work on the history, not for a turn."""
        if self._queue:
            turn = Turn(self, self._queue[0])
            turn.progress("Stopped")
            turn.stopped = True
            self._dropped.extend(self._queue)
            self._queue.clear()
            turn.finish(self._dropped_text(turn))

    def _dropped_text(self, turn: Turn) -> str:
        texts = [steer.text for steer in turn.steers] + [each.text for each in self._dropped]
        self._dropped = []
        why = "Stopped. Prompts that were dropped" if turn.stopped else "Not sent to the model"
        return "\n\n".join([f"{why}:", *texts]) if texts else "Stopped." * turn.stopped

    def announce_title(self) -> None:
        """Notify the client of the title, if there is one and the chat is not deleted (W-24)."""
        if self.title and self.state is not ChatState.DELETED:
            self.emit("system", ChatMetadataContent(title=self.title))

    def _cancel_title(self) -> None:
        if self._title_scope is not None:
            self._title_scope.cancel()
            self._title_scope = None

    async def _find_title(
        self, make_title: Callable[[], Awaitable[str | None]], scope: trio.CancelScope
    ) -> None:
        title = None
        try:
            with scope:
                title = await make_title()
        except Exception as error:  # noqa: BLE001 - a missing title must not fail the turn
            _log.info("no title for chat %s: %s", self.id, error)
        if self._title_scope is scope:
            self._title_scope = None
            if title:
                self.title = title
                self.announce_title()
                await self.store_settings()
