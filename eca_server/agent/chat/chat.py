"""A chat: its settings and its usage, wired to its history, its mailbox, its turn and its storage.

The methods that handlers call never wait: a stop has taken effect before the next message is read.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import trio

from eca_protocol.messages import (
    ChatClearedParams,
    ChatStatus,
    ChatStatusChangedParams,
    ChatUsageContent,
)
from eca_protocol.server.chat_states import STATUSES, ChatState
from eca_protocol.server.mailbox import Mailbox
from eca_server.agent.chat.flags import flags_within
from eca_server.agent.chat.history import context_used
from eca_server.agent.chat.memory import Memory, RestoreState, Storage
from eca_server.agent.chat.outlet import ChatServices, Outlet, Selection
from eca_server.agent.chat.replay import Replayer
from eca_server.agent.chat.store.rows import ChatRecord, ChatSettings, StoredChat
from eca_server.agent.chat.title import MakeTitle, Titling
from eca_server.agent.chat.tool_call import ToolCall
from eca_server.agent.chat.turn import STOP_SECONDS, Prompt, Turn
from eca_server.agent.chat.usage import SessionUsage, with_use
from eca_server.agent.tools.files import Ledger
from eca_server.models.history import Message

if TYPE_CHECKING:
    import anyio


class Chat(Outlet):
    """One chat of the connected client: the outlet of its turns.

    Attributes:
        created: the time the chat started, in seconds since the epoch.
        updated: the time of the last prompt.
        awaits_key_of: the provider whose key is expected as the next prompt; a stop or a clear
            ends the wait.
        last_turn_failed: the last turn has no complete answer.
        replayer: replays the history to the client.
        mailbox: the state, the queued prompts and the work on the history.
        bodies: the turns of all chats whose bodies have not ended.
    """

    def __init__(
        self,
        chat_id: str,
        services: ChatServices,
        memory: Memory | None = None,
        state: RestoreState = RestoreState.NEW,
        *,
        bodies: set[Turn] | None = None,
    ) -> None:
        super().__init__(chat_id, services, Storage(chat_id, memory, state, self.describe))
        self.created = self.updated = time.time()
        self.awaits_key_of: str | None = None
        self.last_turn_failed = False
        self.replayer = Replayer(chat_id, services.session)
        self.titling = Titling(services.nursery, partial(self.emit, "system"), self.storage.store)
        self.mailbox = Mailbox(
            chat_id,
            services.nursery,
            begin=self._begin,
            clear=self._clear,
            restore=self.restore,
        )
        self.turn: Turn | None = None
        self.bodies = set() if bodies is None else bodies
        self._changes: dict[str, Any] = {}

    def prompt(self, prompt: Prompt) -> None:
        """Start a turn, or queue the prompt behind the running turn (W-22)."""
        self.mailbox.prompt(prompt)

    def stop(self) -> None:
        """End the running turn and drop the queued prompts; do nothing if there are none."""
        self.awaits_key_of = None
        self.titling.cancel()
        if self.mailbox.stop():
            assert self.turn is not None
            if not self.turn.stopped:
                self._announce_status()
                self.turn.stop(self.mailbox.dropped)
                self.services.nursery.start_soon(self.turn.close_late)
        elif self.mailbox.dropped:  # they waited for work on the history, not for a turn
            turn = Turn(self, self.mailbox.dropped[0])
            turn.progress("Stopped")
            turn.stopped = True
            turn.finish(turn.last_words(self.mailbox.take_dropped()))

    def delete(self) -> None:
        """End everything inside and write nothing more (W-24)."""
        self.titling.end()
        self.replayer.end()
        if self.mailbox.delete() and self.turn is not None:
            self.turn.delete()
            self.services.nursery.start_soon(self.turn.close_late)

    def clear(self) -> anyio.Event:
        """Stop the running turn and clear the history; see `Mailbox.clear`."""
        self.awaits_key_of = None
        if self.turn is not None and self.mailbox.clearing is None:
            self.stop()
        return self.mailbox.clear()

    @property
    def title(self) -> str | None:
        """The title, once the model or the user has given one."""
        return self.titling.title

    @property
    def open_calls(self) -> Iterable[ToolCall]:
        """The tool calls that run or wait for the user."""
        return () if self.turn is None else self.turn.calls.open.values()

    @property
    def state(self) -> ChatState:
        """The state of the mailbox."""
        return self.mailbox.state

    @property
    def status(self) -> ChatStatus:
        """The status, as the protocol names it."""
        waits = self.awaits_key_of is not None and self.state is ChatState.IDLE
        return "login" if waits else super().status

    @property
    def is_blank(self) -> bool:
        """True if the chat has no history, title, settings or selection, and is idle."""
        is_untouched = self.settings == ChatSettings() and self.selection == Selection()
        return self.status == "idle" and is_untouched and not (self.history or self.title)

    @property
    def is_busy(self) -> bool:
        """True if a turn runs."""
        return self.turn is not None

    @property
    def all_messages(self) -> Sequence[Message]:
        """All messages, including the running turn's and its prompt."""
        turn = self.turn
        return [*self.history, *(() if turn is None else (turn.unsent, *turn.messages))]

    def set(self, **changes: Any) -> None:
        """Change some of `settings`; they override stored ones, and are stored later."""
        self._changes |= changes
        super().set(**changes)

    def describe(self) -> ChatRecord | None:
        """Return the title and the settings to store; None: the chat is deleted."""
        if self.state is ChatState.DELETED:
            return None
        is_restored = self.storage.is_restored
        return ChatRecord(
            title=self.title if is_restored or self.settings.is_named_by_user else None,
            settings=self.settings if is_restored else None,
        )

    def show_usage(self) -> None:
        """Write the usage of the last turn, after a replay; a running turn writes its own."""
        if self.state is ChatState.IDLE:
            is_gauge = self.services.session.writes(ChatUsageContent, "context_breakdown")
            usage = self.usage.shown_again(self.settings.context, is_gauge=is_gauge)
            if usage is not None:
                self.emit("system", usage)

    def truncate(self, messages: int) -> None:
        """Keep the first `messages` of the history; the usage of the removed ones still counts."""
        self.history.truncate(messages)
        self.ledger = Ledger()
        context = with_use(self.settings.context, context_used(self.history[:]))
        self.set(flags=flags_within(self.settings.flags, self.history), context=context)
        if not self.history and not self.settings.is_named_by_user:
            self.titling.rename(None)

    async def close(self) -> None:
        """Stop, and wait until the running turn is closed.

        Pending work on the history is finished too, unless the disk is late.
        """
        self.stop()
        if self.turn is not None:
            await self.turn.close_late()
        with trio.move_on_after(STOP_SECONDS):
            await self.mailbox.finish()

    async def restore(self) -> None:
        """Load the stored chat, if its id may be that of one and the store can be read."""
        loaded = await self.storage.load()
        if loaded is not None:
            was_cleared = self.storage.state is RestoreState.CLEARED
            self.storage.state = RestoreState.RESTORED
            self.storage.note_last(loaded.last)
            if loaded.chat is not None:
                self._adopt(loaded.chat, was_cleared=was_cleared)
            self.storage.erase_cleared()

    def _adopt(self, stored: StoredChat, *, was_cleared: bool) -> None:
        """Take a stored chat, to which the changes since are added."""
        title, turn = self.title, self.turn
        if not was_cleared:
            running = () if turn is None else (turn.unsent, *turn.messages)
            self.history.restore(stored.messages, running)
        if stored.title and not (title and self.settings.is_named_by_user):
            self.titling.title = stored.title
        flags = {**stored.settings.flags, **self._changes.get("flags", {})}
        self.settings = attrs.evolve(stored.settings, **{**self._changes, "flags": flags})
        self.created = stored.created
        if turn is None:
            self.updated = stored.updated
        self.usage = SessionUsage(stored.usages)  # the turns of an unread chat are stored, too
        if was_cleared and not self.history:
            self._forget()
        if title and title != self.title:
            self.titling.announce()

    def request_title(self, make_title: MakeTitle) -> None:
        """Request a title in the background, if the chat has none (W-25)."""
        if self.state is ChatState.RUNNING:
            self.titling.request(make_title)

    def closed(self) -> None:
        """Take the messages of the turn, which is closed, and write its end."""
        turn, self.turn = self.turn, None
        if turn is not None and self.mailbox.end_turn():
            if all(each.content_id != turn.prompt.content_id for each in turn.messages):
                self.history.unrecorded_prompts[turn.prompt.content_id] = len(self.history)
            self.history.extend(turn.messages)
            self.last_turn_failed = turn.failed
            self._announce_status()
            turn.finish(turn.last_words(self.mailbox.take_dropped()))
        self.mailbox.resume()

    def _begin(self, prompt: Prompt) -> None:
        self.replayer.finish()
        turn = self.turn = Turn(self, prompt)
        self.updated = time.time()
        self.bodies.add(turn)

        async def run() -> None:
            try:
                await turn.run()
            finally:
                self.bodies.discard(turn)

        self._announce_status()
        turn.begin()
        self.services.nursery.start_soon(run)

    def _announce_status(self) -> None:
        params = ChatStatusChangedParams(chat_id=self.id, status=STATUSES[self.state])
        self.services.session.notify("chat/statusChanged", params)
        self.changed()

    def _forget(self) -> None:
        self.truncate(0)
        self.systems.clear()

    def _clear(self) -> Awaitable[None]:
        """Clear the history now; return the deletion of the stored messages."""
        self.replayer.end()
        self._forget()
        params = ChatClearedParams(chat_id=self.id, messages=True)
        self.services.session.notify("chat/cleared", params, newest=True)
        return self.storage.clear(self.restore)
