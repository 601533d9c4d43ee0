"""A chat: its history, its usage, its settings, its turns one after the other.

What a prompt, a stop, a delete do in which state is the table of `states`. The methods called by
handlers never wait: a stop has taken effect when the next message is looked at.
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
from eca_server.chat.instructions import System
from eca_server.chat.memory import Memory
from eca_server.chat.showing import Showing
from eca_server.chat.states import STATUSES, TRANSITIONS, Action, ChatState, Input
from eca_server.chat.store import ChatSettings, Noted
from eca_server.chat.tool_call import ToolCall
from eca_server.chat.turn import Prompt, Steer, Turn
from eca_server.chat.usage import SessionUsage
from eca_server.chat.window import Window
from eca_server.content_formatting import Role
from eca_server.llm.history import Message, effective_history
from eca_server.session import Session
from eca_server.tools.ledger import Ledger
from eca_server.tools.tool import FileChange

if TYPE_CHECKING:
    from eca_server.chat.subagents import SubagentChat

__all__ = ["Chat", "Selection"]

_log = logging.getLogger("eca_server.chat")

STOP_SECONDS = 0.3
"""How long a stopped body may take to end before its turn is closed without it (W-23)."""

TOOL_STOP_SECONDS = 0.9
"""The same where a tool ran: its processes are ended, and those deaf to TERM are killed."""

KEEP_SECONDS = 0.05
"""How long a turn that is closed without its body waits for its place on disk."""


@attrs.define(kw_only=True)
class Selection:
    """What the client selected; None: nothing.

    Attributes:
        model: as `provider/model`.
        variant: of that model.
        behavior: by its name.
    """

    model: str | None = None
    variant: str | None = None
    behavior: str | None = None


class Chat:
    """One chat of the connected client.

    Attributes:
        history: all that was said, oldest first; append-only until it is cleared.
        unheard: prompts that were shown and are no part of it, by id: the place where they came.
        told: what of it the model is told; kept, since to find it takes a look at everything.
        usage: tokens and costs of the whole chat.
        window: how much of a model's context it takes.
        ledger: which files the chat's model has seen.
        is_unread: what is stored of it could not be read yet: of that everything stays.
        unkept: changes of files before which it could not be kept, or not in time, what they were.
        systems: the instructions by behaviour, written once (design decision 20).
        showing: what of its past the client is being told again.
        between_turns: what is done to its past.
        title: what the chat is called, once the model or the user has found a name.
        settings: what is kept of it beside its history; changed by `set`.
        selection: what the client selected for this chat alone.
        created: when it began, in seconds since the epoch.
        updated: when it was last prompted.
        awaits_key_of: the provider whose key the next prompt is; a stop ends the wait.
        watch: told when its status changes, or that of a call.
        parent_id: the chat whose agent has another one work for it in this one.
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
        self.history: list[Message] = []
        self.unheard: dict[str, int] = {}
        self.told: tuple[Message, ...] = ()
        self.usage = SessionUsage()
        self.window = Window()
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
        self.unkept: list[Noted] = []
        self.systems: dict[str, System] = {}
        self.showing = Showing(chat_id, session)
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
        """Begin a turn, or queue it behind what runs (W-22)."""
        if self.between_turns.is_at_work and self.state is ChatState.IDLE:
            self._queue.append(prompt)
            return
        action = self._move(Input.PROMPT)
        if action is Action.BEGIN:
            self._begin(prompt)
        elif action is Action.QUEUE:
            self._queue.append(prompt)

    def stop(self) -> None:
        """End the running turn and drop the queued prompts; ignored when there are none."""
        self.awaits_key_of = None
        self._cancel_title()
        if self._move(Input.STOP) is not Action.CANCEL:
            self._drop_waiting()
            return
        assert self._turn is not None
        self._dropped.extend(self._queue)
        self._queue.clear()
        if not self._turn.stopped:
            self._tell_status()
            self._turn.stop()
            self.nursery.start_soon(self._close_late, self._turn)

    def delete(self) -> None:
        """End everything inside and say nothing more (W-24)."""
        self._cancel_title()
        self.showing.end()
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
        """Put a text into the running turn's next request; ignored when nothing runs.

        One that comes to no request any more is repeated at the turn's end.
        """
        if self._turn is not None:
            self._turn.steers.append(Steer(text=text))

    @property
    def running_turn(self) -> Turn | None:
        """The turn that runs."""
        return self._turn

    def call(self, call_id: str) -> ToolCall | None:
        """The tool call of that id, if it is one of the turn that runs, or of its subagents."""
        return None if self._turn is None else self._turn.call(call_id)

    def emit(self, role: Role, content: ChatContent) -> None:
        """Append a content of this chat."""
        self.session.emit(self.id, role, content)

    @property
    def open_calls(self) -> Iterable[ToolCall]:
        """The tool calls that run, or that wait for the user."""
        return () if self._turn is None else self._turn.open_calls.values()

    @property
    def subagents(self) -> Sequence[SubagentChat]:
        """The chats of the agents that work for the turn that runs."""
        return () if self._turn is None else self._turn.subagents

    def name_with(self, make_title: Callable[[], Awaitable[str | None]]) -> None:
        """Ask for a title beside the turn, if the chat has none (W-25)."""
        if self.title is None and self._title_scope is None and self.state is ChatState.RUNNING:
            self._title_scope = trio.CancelScope()
            self.nursery.start_soon(self._find_title, make_title, self._title_scope)

    @property
    def status(self) -> ChatStatus:
        """Where it stands, in the protocol's words."""
        if self.awaits_key_of is not None and self.state is ChatState.IDLE:
            return "login"
        return STATUSES[self.state]

    @property
    def is_blank(self) -> bool:
        """Whether it is as if it had never been named."""
        is_untouched = self.settings == ChatSettings() and self.selection == Selection()
        return self.status == "idle" and is_untouched and not (self.history or self.title)

    @property
    def is_read(self) -> bool:
        """Whether nothing may be stored of it that it does not know."""
        return self._memory is None or not self._may_be_stored

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs."""
        return self._turn is not None

    @property
    def said(self) -> Sequence[Message]:
        """All messages, those of the running turn and its prompt included."""
        turn = self._turn
        return self.history if turn is None else [*self.history, turn.unsent, *turn.messages]

    def set(self, **changes: Any) -> None:
        """Change some of `settings`; they count more than what is stored, and are kept later."""
        self._set |= changes
        self.settings = attrs.evolve(self.settings, **changes)

    def rename(self, title: str) -> None:
        """Call it what the user calls it, from now on (W-25); it is kept with the settings."""
        if self.state is ChatState.DELETED:
            return
        self._cancel_title()
        self.title = title
        self.set(is_named_by_user=True)
        self.tell_title()

    @property
    def kept_settings(self) -> ChatSettings | None:
        """Those that are to be stored; None: the stored ones stay."""
        return None if self.is_unread else self.settings

    @property
    def kept_title(self) -> str | None:
        """The title that is to be stored; None: the stored one stays."""
        counts = self.settings.is_named_by_user or not self.is_unread
        return self.title if counts else None

    async def keep_settings(self) -> None:
        """Store title and settings; bounded in time."""
        if self._memory is not None and self.state is not ChatState.DELETED:
            await self._memory.keep_settings(self)

    def put_before(self, messages: Sequence[Message]) -> None:
        """Add what was said before all that it knows of."""
        self.history[:0] = messages
        self.unheard = {name: place + len(messages) for name, place in self.unheard.items()}

    def go_back(self, messages: int) -> None:
        """Forget all but so many of the first messages; what the others took stays."""
        del self.history[messages:]
        self.unheard.clear()  # nobody is shown them any more
        self.told = effective_history(self.history)
        self.window = Window()
        self.ledger = Ledger()
        self.set(flags=flags_within(self.settings.flags, self.history))
        if not self.history and not self.settings.is_named_by_user:
            self._cancel_title()
            self.title = None

    def forget(self) -> None:
        """Forget all that was said."""
        self.go_back(0)
        self.unkept.clear()
        self.systems.clear()

    async def close(self) -> None:
        """Stop, and wait until the running turn is closed (bounded by `TOOL_STOP_SECONDS`).

        What is to be forgotten is so then, too, unless the disk is late.
        """
        self.stop()
        await self.turn_closed()
        with trio.move_on_after(STOP_SECONDS):
            await self.between_turns.finish()

    async def turn_closed(self) -> None:
        """Wait until the turn that was stopped, if one was, is closed; bounded likewise."""
        if self._turn is not None:
            await self._close_late(self._turn)

    async def bodies_ended(self, seconds: float) -> bool:
        """Wait until nothing runs any more of a turn that is closed; whether that is so."""
        running = [turn.ended for turn in self._bodies if turn.chat is self]
        with trio.move_on_after(seconds):
            for ended in running:
                await ended.wait()
        return all(ended.is_set() for ended in running)

    async def keep_prompt(self, turn: Turn) -> None:
        """Store the prompt before a model is asked; bounded in time, and never an error."""
        if self._memory is not None and self._is_of_ours(turn):
            await self._memory.keep_prompt(turn, self.nursery)

    async def keep_before_images(
        self, turn: Turn, changes: Sequence[FileChange]
    ) -> Callable[[], None]:
        """Store what files are before a call changes them, and the words that led to that.

        It is done before the turn is kept: killed in between, the file can still be restored.

        Returns:
            To be called if the call has changed nothing.
        """
        memory, noted = self._memory, None
        if memory is not None and changes and self._is_of_ours(turn):
            await memory.keep_words(turn)
            if self._is_of_ours(turn):  # it may be deleted by now
                noted = await memory.keep_before_images(turn, changes)
                self.unkept = [*(each for each in self.unkept if each.numbers is None), noted]

        def forget() -> None:
            if memory is not None and noted is not None:
                self.unkept = [each for each in self.unkept if each is not noted]
                memory.forget_before_images(noted)

        return forget

    async def keep_pictures(self, turn: Turn, pictures: Iterable[bytes]) -> None:
        """Have files of what a client that shows no pictures is to be told of."""
        if self._memory is not None and self._is_of_ours(turn):
            await self._memory.keep_pictures(self, pictures)

    def _is_of_ours(self, turn: Turn) -> bool:
        """Whether the turn is the one that runs, in a chat that is not deleted."""
        return self._turn is turn and self.state is not ChatState.DELETED

    def _move(self, given: Input) -> Action:
        action, self.state = TRANSITIONS[self.state][given]
        return action

    def _begin(self, prompt: Prompt) -> None:
        self.showing.finish()
        turn = self._turn = Turn(self, prompt)
        self.updated = time.time()
        self._bodies.add(turn)
        self._tell_status()
        turn.begin()
        self.nursery.start_soon(self._run, turn)

    async def _run(self, turn: Turn) -> None:
        try:
            with turn.scope:
                await self.restore()
                await turn.prompt.body(turn)
        except Exception:  # noqa: BLE001 - a body's fault must not end the server
            _log.exception("a turn of chat %s failed", self.id)
            turn.fail("The server failed while it answered; its log says more.")
        finally:
            turn.close_messages()
            with trio.CancelScope(shield=True):
                await self._keep(turn)
            self._end(turn)
            turn.ended.set()
            self._bodies.discard(turn)

    async def restore(self) -> None:
        """Read the chat back, once it can be, if its id may be that of a stored one."""
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
                    self.tell_title()

    async def _keep(self, turn: Turn) -> None:
        """Commit what the turn brought, once, before its `finished` (design decision 18)."""
        if self._memory is None or turn.kept or not turn.messages or not self._is_of_ours(turn):
            return
        turn.kept = True
        try:
            await self._memory.keep(turn)
        except Exception:  # noqa: BLE001 - what cannot be stored must not keep the turn from ending
            _log.exception("a turn of chat %s cannot be stored", self.id)

    async def _close_late(self, turn: Turn) -> None:
        with trio.move_on_after(TOOL_STOP_SECONDS if turn.cut_a_call else STOP_SECONDS):
            await turn.ended.wait()
        if self._turn is turn:
            turn.close_messages()
            with trio.move_on_after(KEEP_SECONDS):
                await self._keep(turn)
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
            turn.tell_usage()
        if all(each.content_id != turn.prompt.content_id for each in turn.messages):
            self.unheard[turn.prompt.content_id] = len(self.history)
        self.history.extend(turn.messages)
        self.told = effective_history(turn.messages, self.told)
        self.last_turn_failed = turn.failed
        self._tell_status()
        turn.finish(self._told_of_dropped(turn))
        self.go_on()

    def go_on(self) -> None:
        """Do what waited until nothing runs."""
        if self.between_turns.is_at_work or self.state is not ChatState.IDLE:
            return
        self.between_turns.go_on()
        if self._queue and not self.between_turns.is_at_work:
            self.prompt(self._queue.popleft())

    def _tell_status(self) -> None:
        params = ChatStatusChangedParams(chat_id=self.id, status=STATUSES[self.state])
        self.session.notify("chat/statusChanged", params)
        self.watch(self)

    def _drop_waiting(self) -> None:
        """Drop the prompts that wait for no turn, but for what is done to the chat's past."""
        if self._queue:
            turn = Turn(self, self._queue[0])
            turn.progress("Stopped")
            turn.stopped = True
            self._dropped.extend(self._queue)
            self._queue.clear()
            turn.finish(self._told_of_dropped(turn))

    def _told_of_dropped(self, turn: Turn) -> str:
        texts = [steer.text for steer in turn.steers] + [each.text for each in self._dropped]
        self._dropped = []
        why = "Stopped. Waiting prompts that were dropped" if turn.stopped else "This came too late"
        return "\n\n".join([f"{why}:", *texts]) if texts else "Stopped." * turn.stopped

    def tell_title(self) -> None:
        """Tell the client what the chat is called, if it has a name and is not deleted (W-24)."""
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
        except Exception as error:  # noqa: BLE001 - a chat without a title is no fault of the turn
            _log.info("no title for chat %s: %s", self.id, error)
        if self._title_scope is scope:
            self._title_scope = None
            if title:
                self.title = title
                self.tell_title()
                await self.keep_settings()
