"""All chats of a connection, by id, and what of them is stored."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from eca_server.chat.chat import STOP_SECONDS, TOOL_STOP_SECONDS, Chat
from eca_server.chat.memory import Memory
from eca_server.chat.store import ChatSettings
from eca_server.chat.turn import Turn
from eca_server.llm.history import Message, effective_history
from eca_server.session import Session

if TYPE_CHECKING:
    from eca_server.chat.subagents import SubagentChat

__all__ = ["Chats"]

_MOST_TITLES = 200  # of stored chats


class Chats:
    """The chats of a connection, by id.

    Args:
        session: the client's.
        nursery: where they run.
        memory: where they are kept; None: nowhere.
        watch: told when the status of one changes, or of a call in it.
    """

    def __init__(
        self,
        session: Session,
        nursery: trio.Nursery,
        memory: Memory | None = None,
        watch: Callable[[Chat], None] = lambda _: None,
    ) -> None:
        self.memory = memory
        self._session = session
        self._nursery = nursery
        self._watch = watch
        self._chats: dict[str, Chat] = {}
        self._deleted: set[str] = set()
        self._going: dict[str, trio.Event] = {}
        self._bodies: set[Turn] = set()

    def open(self, chat_id: str | None) -> Chat:
        """The chat of that id, made if there is none; without an id, one of ours (W-21).

        While a subagent works in it, it is that one's, as for `get`.
        """
        known = chat_id or str(uuid.uuid4())
        chat = self.get(known)
        if chat is None:
            if self.memory is not None and not self._chats:
                self._nursery.start_soon(self.memory.wake)
            may_be_stored = bool(chat_id) and known not in self._deleted
            chat = self._chats[known] = Chat(
                known,
                self._session,
                self._nursery,
                self.memory,
                bodies=self._bodies,
                may_be_stored=may_be_stored,
                watch=self._watch,
            )
            if known in self._going:
                chat.between_turns.do(self._going[known].wait)
        return chat

    def get(self, chat_id: str | None) -> Chat | None:
        """The chat of that id, if it exists, or the subagent's that works in it now."""
        return self.subagent(chat_id) or self._chats.get(chat_id or "")

    def subagent(self, chat_id: str | None) -> SubagentChat | None:
        """The chat of that id, if a subagent works in it now and the client is shown that."""
        subagents = (each for chat in self for each in chat.subagents if each.is_shown)
        return next((each for each in subagents if each.id == chat_id), None)

    def __iter__(self) -> Iterator[Chat]:
        """Those that exist."""
        return iter(self._chats.values())

    async def find(self, chat_id: str) -> Chat | None:
        """The chat of that id with its history, read back if it is stored; None: there is none."""
        if not chat_id:
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
        """A new chat that begins with what was said elsewhere, and is stored.

        Args:
            messages: what was said.
            title: what it is called.
            settings: what it is set to.
            chat: itself, if it has an id already.
        """
        chat = chat or self.open(None)
        chat.history.extend(messages)
        chat.told = effective_history(chat.history)
        chat.title = title or None
        chat.set(**attrs.asdict(settings, recurse=False))
        if self.memory is not None and messages:
            await self.memory.keep_copy(chat)
        return chat

    async def titles(self) -> frozenset[str]:
        """Those that chats have: all of this connection, and the latest that are stored."""
        stored = () if self.memory is None else await self.memory.latest(_MOST_TITLES)
        return frozenset(each.title for each in (*stored, *self) if each.title is not None)

    def drop_blank(self, chat: Chat) -> bool:
        """Forget a chat that is as if it had never been named; whether it is."""
        is_blank = chat.is_blank and self._chats.get(chat.id) is chat
        if is_blank:
            del self._chats[chat.id]
        return is_blank

    def clear(self, chat_id: str) -> trio.Event:
        """Let a chat forget what was said in it; see `BetweenTurns.clear`."""
        return self.open(chat_id).between_turns.clear()

    def delete(self, chat_id: str | None) -> None:
        """Forget a chat with everything in it; an unknown one is no fault (W-24)."""
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
            if chat is None and chat_id in self._going:
                return
            if chat is None or chat.between_turns.at_rest.is_set():
                self._nursery.start_soon(self.memory.delete, chat_id)
            else:
                gone = self._going[chat_id] = trio.Event()
                self._nursery.start_soon(self._delete_later, self.memory, chat, gone)

    async def _delete_later(self, memory: Memory, chat: Chat, gone: trio.Event) -> None:
        """Files that are being put back are put back whole; who takes the id again waits."""
        await chat.between_turns.at_rest.wait()
        await memory.delete(chat.id)
        if self._going.get(chat.id) is gone:  # and the id was not taken and deleted again
            del self._going[chat.id]
        gone.set()

    async def close(self) -> Sequence[str]:
        """Stop every chat, wait until all turns are closed, and store what is left.

        Returns:
            What did not succeed within its bounds: a tool that could not be ended, chats that
            could not be stored or deleted.
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
                for gone in tuple(self._going.values()):
                    await gone.wait()
        left = [
            f"a tool of the chat {turn.chat.id} cannot be ended"
            for turn in self._bodies
            if turn.cut_a_call
        ]
        if self.memory is not None and not await self.memory.close():
            left.append("the last changes of the chats could not be written to the disk")
        return left
