"""What outlives the process: a chat read back when it is named again, each turn kept at its end."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import trio

from eca_server.chat.store import ChatSummary, Store, StoredChat, StoredMessage, TurnUsage
from eca_server.chat.usage import taken

if TYPE_CHECKING:
    from eca_server.chat.chat import Chat
    from eca_server.chat.turn import Turn

__all__ = ["Memory", "line_of"]


class Memory:
    """The stored chats of one workspace.

    Args:
        store: where they lie.
        workspace: the workspace they are listed under.
    """

    def __init__(self, store: Store, workspace: str) -> None:
        self._store = store
        self._workspace = workspace

    async def wake(self) -> None:
        """Open the store beside the first turn, which then need not wait for that at its end."""
        await self._store.list(self._workspace, 1)

    async def restore(self, chat: Chat) -> None:
        """Give a chat the history that is stored under its id, if there is any."""
        stored = await self._store.load(chat.id)
        if stored is not None:
            chat.history[:0] = [kept.message for kept in stored.messages]
            chat.title = chat.title or stored.title
            for usage in stored.usages:
                chat.usage.add_turn(usage.tokens, usage.cost)

    async def keep(self, turn: Turn) -> None:
        """Store what a turn brought; bounded in time, and not to be cancelled."""
        ids = [turn.prompt.content_id, *(str(uuid.uuid4()) for _ in turn.messages[1:])]
        messages = [
            StoredMessage(id=i, message=m) for i, m in zip(ids, turn.messages, strict=False)
        ]
        tokens, cost = taken(turn.usages)
        with trio.CancelScope(shield=True):
            await self._store.append(
                turn.chat.id,
                self._workspace,
                messages,
                title=turn.chat.title,
                usage=TurnUsage(tokens=tokens, cost=cost) if turn.usages else None,
            )

    async def name(self, chat: Chat) -> None:
        """Store a chat's new title."""
        await self._store.append(chat.id, self._workspace, title=chat.title)

    async def delete(self, chat_id: str) -> None:
        """Forget a chat."""
        await self._store.delete(chat_id)

    async def latest(self, limit: int) -> Sequence[ChatSummary]:
        """The workspace's chats, the latest first."""
        return await self._store.list(self._workspace, limit)

    async def load(self, chat_id: str) -> StoredChat | None:
        """A stored chat."""
        return await self._store.load(chat_id)

    async def close(self) -> bool:
        """Write what is left; whether everything is on disk."""
        return await self._store.close()


def line_of(summary: ChatSummary) -> str:
    """A stored chat in one line: when, and what it is about."""
    day = datetime.fromtimestamp(summary.updated, tz=UTC).astimezone()
    about = summary.title or summary.beginning or summary.id
    return f"{day:%Y-%m-%d %H:%M} {about}"
