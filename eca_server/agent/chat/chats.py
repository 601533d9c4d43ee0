"""All chats of a connection, by id, and their stored parts."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence

import attrs
import trio

from eca_server.agent.chat.chat import Chat
from eca_server.agent.chat.memory import Memory, RestoreState
from eca_server.agent.chat.outlet import ChatServices, Outlet
from eca_server.agent.chat.store.rows import ChatRecord, ChatSettings
from eca_server.agent.chat.subagents import SubagentChat
from eca_server.agent.chat.tool_call import ToolCall
from eca_server.agent.chat.turn import STOP_SECONDS, TOOL_STOP_SECONDS, Turn
from eca_server.client.session import Session
from eca_server.models.history import Message

_MOST_TITLES = 200  # of stored chats


class Chats:
    """The chats of a connection, by id.

    Args:
        memory: stores the chats; None: they are not stored.
        watch: called when the status of a chat or of a call changes.
    """

    def __init__(
        self,
        session: Session,
        nursery: trio.Nursery,
        memory: Memory | None = None,
        watch: Callable[[Outlet], None] = lambda _: None,
    ) -> None:
        self.memory = memory
        self.working_subagents: dict[str, SubagentChat] = {}
        self._services = ChatServices(session=session, nursery=nursery, watch=watch)
        self._chats: dict[str, Chat] = {}
        self._deleted: set[str] = set()
        self._deletions: dict[str, trio.Event] = {}
        self._bodies: set[Turn] = set()

    def open(self, chat_id: str | None) -> Chat:
        """Return the user's chat with this id, or make it; without an id, generate one (W-21)."""
        known = chat_id or str(uuid.uuid4())
        chat = self._chats.get(known)
        if chat is None:
            if self.memory is not None and not self._chats:  # opens the file early
                self._services.nursery.start_soon(self.memory.rollbacks.recover)
            may_be_stored = bool(chat_id) and known not in self._deleted
            state = RestoreState.UNKNOWN if may_be_stored else RestoreState.NEW
            chat = Chat(known, self._services, self.memory, state, bodies=self._bodies)
            self._chats[known] = chat
            if known in self._deletions:
                chat.mailbox.do(self._deletions[known].wait)
        return chat

    def get(self, chat_id: str | None) -> Chat | None:
        """Return the user's chat with this id, or None."""
        return self._chats.get(chat_id or "")

    def subagent(self, chat_id: str | None) -> SubagentChat | None:
        """Return the chat with this id of a working subagent that the client is shown, or None."""
        subagent = self.working_subagents.get(chat_id or "")
        return subagent if subagent is not None and subagent.is_shown else None

    def at(self, chat_id: str | None) -> Chat | SubagentChat | None:
        """Return the working subagent's chat, or the user's chat, with this id, or None."""
        return self.subagent(chat_id) or self.get(chat_id)

    def call(self, chat_id: str, call_id: str) -> ToolCall | None:
        """Return the call with this id of a chat's running turn or its subagents, or None."""
        chat = self.at(chat_id)
        return None if chat is None or chat.turn is None else chat.turn.call(call_id)

    def __iter__(self) -> Iterator[Chat]:
        """Yield the open chats."""
        return iter(self._chats.values())

    async def find(self, chat_id: str) -> Chat | None:
        """Return the chat with this id and its history, loaded if it is stored, or None."""
        if not chat_id or self.subagent(chat_id) is not None:
            return None
        chat = self.open(chat_id)
        await chat.restore()
        if self._chats.get(chat_id) is not chat:  # deleted meanwhile
            return None
        return None if self.drop_blank(chat) else chat

    async def begin(
        self,
        messages: Sequence[Message],
        *,
        title: str | None,
        settings: ChatSettings,
        chat: Chat | None = None,
    ) -> Chat:
        """Make and store a chat that begins with existing messages."""
        chat = chat or self.open(None)
        chat.history.extend(messages)
        chat.titling.title = title or None
        chat.set(**attrs.asdict(settings, recurse=False))
        if messages:
            await chat.storage.store(ChatRecord(messages=messages))
        return chat

    async def titles(self) -> frozenset[str]:
        """Return the titles of this connection's chats and of the latest stored ones."""
        stored = () if self.memory is None else await self.memory.latest(_MOST_TITLES)
        return frozenset(each.title for each in (*stored, *self) if each.title is not None)

    def drop_blank(self, chat: Chat) -> bool:
        """Remove a chat that is blank, and that no prompt waits for; return whether it was."""
        is_unused = chat.is_blank and not chat.mailbox.has_prompts
        is_blank = is_unused and self._chats.get(chat.id) is chat
        if is_blank:
            del self._chats[chat.id]
        return is_blank

    def delete(self, chat_id: str | None) -> None:
        """Delete a chat with everything in it; an unknown id is no error (W-24)."""
        if not chat_id:
            return
        subagent = self.subagent(chat_id)
        if subagent is not None:
            subagent.delete()
        chat = self._chats.pop(chat_id, None)
        if chat is not None:
            chat.delete()
        if self.memory is not None:
            self._deleted.add(chat_id)
            if chat is None and chat_id in self._deletions:
                return
            if chat is None or chat.mailbox.idle.is_set():
                self._services.nursery.start_soon(self.memory.delete, chat_id)
            else:
                deleted = self._deletions[chat_id] = trio.Event()
                self._services.nursery.start_soon(self._delete_later, self.memory, chat, deleted)

    async def _delete_later(self, memory: Memory, chat: Chat, deleted: trio.Event) -> None:
        """Delete once a running rollback has restored its files; a new chat of this id waits."""
        await chat.mailbox.idle.wait()
        await memory.delete(chat.id)
        if self._deletions.get(chat.id) is deleted:  # and the id was not taken and deleted again
            del self._deletions[chat.id]
        deleted.set()

    async def close(self) -> Sequence[str]:
        """Stop every chat, wait until all turns are closed, and finish storing.

        Returns:
            A sentence for each failure within the time limits: a tool that could not be ended,
            chats that could not be stored or deleted.
        """
        for chat in self._chats.values():
            chat.stop()
        async with trio.open_nursery() as closing:
            for chat in self._chats.values():
                closing.start_soon(chat.close)
            with trio.move_on_after(TOOL_STOP_SECONDS):
                for turn in tuple(self._bodies):  # those of deleted chats, too; one may run a hook
                    await turn.ended.wait()
            with trio.move_on_after(STOP_SECONDS):
                for deleted in tuple(self._deletions.values()):
                    await deleted.wait()
        failures = [
            f"a tool of the chat {turn.outlet.id} could not be ended"
            for turn in self._bodies
            if turn.stopped_during_tool
        ]
        if self.memory is not None and not await self.memory.store.close():
            failures.append("the last changes of the chats could not be written to the disk")
        return failures
