"""A chat of a server: its queue of prompts, its running turn, its contents (W-20 to W-24)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeAlias

import anyio.lowlevel

from eca_protocol import messages as m
from eca_protocol.server.chat_states import STATUSES, ChatState
from eca_protocol.server.mailbox import Mailbox, Tasks
from eca_protocol.server.texts import Role
from eca_protocol.server.turn import Turn
from eca_protocol.server.values import ChatMessage, Prompt

__all__ = ["Conversation"]

Notify: TypeAlias = Callable[[str, Any], None]
"""Sends a notification; never waits, and does nothing on a closed connection."""

_NOT_RECORDED = (m.ChatProgressContent, m.ChatUsageContent, m.ChatMetadataContent)


class Conversation:
    """A chat.

    Args:
        chat_id: its id.
        tasks: the group of its tasks.
        notify: sends a notification to the client.
        answer: answers a prompt in a turn.

    Attributes:
        title: its title, once it has one.
        model: the model of the last prompt.
        trust: the user lets the tools of this chat run without approval.
        created: the time of its start, in seconds since the epoch.
        updated: the time of its last prompt.
        usage: the usage, written at the end of each turn that is not stopped.
        memory: values of the server's author, for all turns.
        contents: the contents so far, with their roles.
        mailbox: the state, and the queued prompts.
    """

    def __init__(
        self,
        chat_id: str,
        tasks: Tasks,
        notify: Notify,
        answer: Callable[[Conversation, Turn], Awaitable[None]],
    ) -> None:
        self.id = chat_id
        self.title: str | None = None
        self.model = ""
        self.trust = False
        self.created: float = time.time()
        self.updated: float = self.created
        self.memory: dict[str, Any] = {}
        self.usage: m.ChatUsageContent = m.ChatUsageContent(session_tokens=0)
        self.turn: Turn | None = None
        self.contents: list[tuple[Role, m.ChatContent]] = []
        self.mailbox: Mailbox[Prompt] = Mailbox(
            chat_id,
            tasks,
            begin=self._begin,
            clear=self._clear,
            restore=anyio.lowlevel.checkpoint,
        )
        self._tasks = tasks
        self._notify = notify
        self._answer = answer

    def emit(self, role: Role, content: m.ChatContent) -> None:
        """Write a content; a deleted chat writes nothing (W-24)."""
        if self.mailbox.state is ChatState.DELETED:
            return
        params = m.ChatContentReceivedParams(chat_id=self.id, role=role, content=content)
        self._notify("chat/contentReceived", params)
        if not isinstance(content, _NOT_RECORDED):  # nor one that cannot be written
            self.contents.append((role, content))

    def rename(self, title: str) -> None:
        """Set the title."""
        self.emit("system", m.ChatMetadataContent(title=title))
        self.title = title

    def stop(self) -> None:
        """End the running turn and drop the queued prompts."""
        if self.mailbox.stop() and self.turn is not None:
            self.announce_status()
            self.turn.stop()
            self._tasks.start_soon(self.turn.close_late)

    def delete(self) -> None:
        """End everything inside, and write nothing more."""
        if self.mailbox.delete() and self.turn is not None:
            self.turn.stop()
            self._tasks.start_soon(self.turn.close_late)

    async def clear(self) -> None:
        """Stop the running turn, and clear the history."""
        if self.turn is not None and self.mailbox.clearing is None:
            self.stop()
        await self.mailbox.clear().wait()

    async def close(self) -> None:
        """Stop, and wait until the running turn is closed."""
        self.stop()
        if self.turn is not None:
            await self.turn.close_late()

    @property
    def history(self) -> Sequence[ChatMessage]:
        """The messages of the user and of the assistant, in order."""
        return [ChatMessage(role, "".join(texts)) for role, texts in self._messages()]

    def _messages(self) -> Iterator[tuple[Any, list[str]]]:
        last: tuple[Any, list[str]] | None = None
        for role, content in self.contents:
            if role == "system" or not isinstance(content, m.ChatTextContent):
                continue
            if last is not None and role == last[0] == "assistant":
                last[1].append(content.text)
            else:
                if last is not None:
                    yield last
                last = role, [content.text]
        if last is not None:
            yield last

    def before(self, content_id: str) -> int | None:
        """Return the number of contents before the user's message with this id, or None."""
        for place, (_, content) in enumerate(self.contents):
            if isinstance(content, m.ChatTextContent) and content.content_id == content_id:
                return place
        return None

    def summary(self) -> m.ChatSummary:
        """Return the entry in a list of chats."""
        return m.ChatSummary(
            id=self.id,
            title=self.title,
            status=STATUSES[self.mailbox.state],
            created_at=round(self.created * 1000),
            updated_at=round(self.updated * 1000),
            model=self.model or None,
            message_count=len(self.history),
        )

    def page(
        self, limit: int | None, before: str | None, after: str | None
    ) -> tuple[Sequence[m.ChatContentReceivedParams], m.ChatHistoryMeta]:
        """Return the contents before or after a cursor, at most `limit`, and where they are."""
        total = len(self.contents)
        start, end = _place(after, 0, total), _place(before, total, total)
        if limit is not None and after is not None:
            end = min(end, start + limit)
        elif limit is not None:
            start = max(start, end - limit)
        contents = [
            m.ChatContentReceivedParams(chat_id=self.id, role=role, content=content)
            for role, content in self.contents[start:end]
        ]
        meta = m.ChatHistoryMeta(
            total=total,
            returned=len(contents),
            before_cursor=str(start) if start > 0 else None,
            after_cursor=str(end) if end < total else None,
        )
        return contents, meta

    def replay(self) -> None:
        """Send all contents again."""
        for params in self.page(None, None, None)[0]:
            self._notify("chat/contentReceived", params)

    def announce_status(self) -> None:
        """Notify the client of the state."""
        status = STATUSES[self.mailbox.state]
        self._notify(
            "chat/statusChanged", m.ChatStatusChangedParams(chat_id=self.id, status=status)
        )

    def _begin(self, prompt: Prompt) -> None:
        turn = self.turn = Turn(
            prompt, emit=self.emit, usage=lambda: self.usage, closed=self._closed
        )
        self.updated = time.time()
        self.announce_status()
        turn.begin()
        self._tasks.start_soon(self._run, turn)

    async def _run(self, turn: Turn) -> None:
        await turn.run(self._answer(self, turn))

    def _closed(self) -> None:
        """Free the chat, then write the end of its turn."""
        turn, self.turn = self.turn, None
        if turn is not None and self.mailbox.end_turn():
            self.announce_status()
            turn.finish(self.mailbox.take_dropped())
        self.mailbox.resume()

    def _clear(self) -> Awaitable[None]:
        self.contents.clear()
        self._notify("chat/cleared", m.ChatClearedParams(chat_id=self.id))
        return anyio.lowlevel.checkpoint()


def _place(cursor: str | None, default: int, total: int) -> int:
    return min(int(cursor), total) if cursor is not None and cursor.isdecimal() else default
