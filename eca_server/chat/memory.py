"""Stored chats: a chat is loaded when its id is used again, and each turn is stored at its end.

The prompts of a turn are stored before it changes files, so that a turn cut off by the end of the
server can be rolled back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Literal

from eca_protocol.messages import ChatImageContent
from eca_server.chat.gallery import Gallery
from eca_server.chat.restoring import Rollbacks
from eca_server.chat.store import (
    BeforeImage,
    BeforeImageBatch,
    ChatSummary,
    Store,
    StoredChat,
)
from eca_server.chat.store.rows import LoadResult
from eca_server.chat.store.running import Piece
from eca_server.chat.stored_messages import ChatRecord, stored
from eca_server.tools.tool import FileChange
from eca_server.workspace import Workspace

__all__ = ["Memory", "line_of"]

LARGEST_IMAGE = 1024 * 1024
"""Bytes of the largest before-image; of a larger file only its existence is stored."""


class Memory:
    """The stored chats of one workspace.

    Args:
        store: the store of chats.
        workspace: the workspace under which the chats are listed.
        boundary: returns the workspace with its current folders.
        notify: shows the user a sentence.
        gallery: stores pictures of chats as files.

    Attributes:
        rollbacks: restores the files that the chats changed.
    """

    def __init__(
        self,
        store: Store,
        workspace: str,
        *,
        boundary: Callable[[], Workspace],
        notify: Callable[[str], None],
        gallery: Gallery,
    ) -> None:
        self._store = store
        self._gallery = gallery
        self._workspace = workspace
        self.rollbacks = Rollbacks(store, workspace, boundary=boundary, notify=notify)

    async def wake(self) -> None:
        """Open the store during the first turn, which then does not wait for it at its end."""
        await self.rollbacks.recover()

    async def find(self, chat_id: str, *, waits: bool) -> LoadResult | None:
        """Load a stored chat, once its interrupted rollback is finished.

        Args:
            chat_id: the chat.
            waits: wait a moment for a late disk, and tell the user that the chat cannot be read.

        Returns:
            None if it cannot be read now.
        """
        if not waits and self._store.is_late:
            return None
        await self.rollbacks.recover(chat_id)
        return await self._store.find(chat_id)

    async def store(self, chat_id: str, record: ChatRecord) -> None:
        """Store additions to a chat, within a time limit; a cancelled call stores them, too."""
        await self._store.append(
            chat_id,
            self._workspace,
            stored(record.messages),
            title=record.title,
            usage=record.usage,
            settings=record.settings,
            running=record.running,
        )

    async def store_pieces(self, chat_id: str, turn: str, pieces: Sequence[Piece]) -> bool:
        """Store pieces of the draft of a turn; return whether they are on disk."""
        return await self._store.add_pieces(chat_id, turn, pieces)

    async def store_before_images(
        self, chat_id: str, content_id: str, changes: Sequence[FileChange]
    ) -> BeforeImageBatch:
        """Store the content of files that a call is about to change, within a time limit."""
        images = [_before_image(content_id, change) for change in changes]
        return await self._store.add_before_images(chat_id, images)

    def forget_before_images(self, batch: BeforeImageBatch) -> None:
        """Delete before-images: the call has changed none of the files."""
        self._store.remove_before_images(batch)

    async def store_picture(self, chat_id: str, picture: ChatImageContent) -> None:
        """Store a picture as a file, within a time limit."""
        await self._gallery.store(chat_id, picture)

    def clear(self, chat_id: str, record: ChatRecord) -> Awaitable[None]:
        """Delete the stored messages of a chat, in order before later writes.

        Args:
            chat_id: the chat.
            record: its new title and settings.

        Returns:
            An awaitable that ends when they are deleted.
        """
        erasure = self._store.clear(chat_id, title=record.title, settings=record.settings)

        async def cleared() -> None:
            try:
                await erasure
            finally:
                await self._gallery.remove(chat_id)

        return cleared()

    async def delete(self, chat_id: str) -> None:
        """Delete a stored chat."""
        try:
            await self._store.delete(chat_id)
        finally:
            await self._gallery.remove(chat_id)

    async def latest(
        self,
        limit: int,
        *,
        by: Literal["updated", "created"] = "updated",
        everywhere: bool = False,
    ) -> Sequence[ChatSummary]:
        """Return the chats of the workspace, or of all, the latest first."""
        await self.rollbacks.recover()
        return await self._store.list(None if everywhere else self._workspace, limit, by=by)

    @property
    def is_late(self) -> bool:
        """True if the disk did not answer in time."""
        return self._store.is_late

    async def load(self, chat_id: str) -> StoredChat | None:
        """Return a stored chat, or None."""
        return await self._store.load(chat_id)

    async def close(self) -> bool:
        """Finish writing and close the store; return whether everything is on disk."""
        return await self._store.close()


def _before_image(content_id: str, change: FileChange) -> BeforeImage:
    before, after = change.before, change.after
    is_stored = before is not None and len(before.data) <= LARGEST_IMAGE
    return BeforeImage(
        content_id=content_id,
        path=str(change.path),
        moved_from=None if change.moved_from is None else str(change.moved_from),
        existed=before is not None,
        mode=None if before is None else before.mode,
        data=before.data if before is not None and is_stored else None,
        after=None if after is None else after.digest,
    )


def line_of(summary: ChatSummary) -> str:
    """Return a line about a stored chat: its date and its title."""
    day = datetime.fromtimestamp(summary.updated, tz=UTC).astimezone()
    about = summary.title or summary.beginning or summary.id
    return f"{day:%Y-%m-%d %H:%M} {about}"
