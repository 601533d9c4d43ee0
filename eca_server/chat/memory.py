"""Stored chats: a chat is loaded when its id is used again, and each turn is stored at its end.

The prompts of a turn are stored before it changes files, so that a turn cut off by the end of the
server can be rolled back.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import trio

from eca_server.chat.gallery import Gallery
from eca_server.chat.pictures import picture_content
from eca_server.chat.restoring import Rollbacks
from eca_server.chat.store import (
    BeforeImage,
    BeforeImageBatch,
    ChatSummary,
    Store,
    StoredChat,
    StoredMessage,
    TurnUsage,
)
from eca_server.chat.store.running import Piece, Running
from eca_server.chat.stored_messages import restored, stored
from eca_server.chat.usage import SessionUsage, taken
from eca_server.tools.tool import FileChange
from eca_server.workspace import Workspace

if TYPE_CHECKING:
    from eca_server.chat.chat import Chat
    from eca_server.chat.turn import Turn

__all__ = ["Memory", "line_of"]

_log = logging.getLogger("eca_server.chat")

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

    async def restore(self, chat: Chat) -> bool:
        """Load the history that is stored under a chat's id, if there is any.

        Returns:
            True if the store was read; if not, the chat continues unread.
        """
        if chat.is_unread and self._store.is_late:
            return False
        await self.rollbacks.recover(chat.id)
        loaded = await self._store.find(chat.id)
        was_unread, chat.is_unread = chat.is_unread, loaded is None
        if loaded is None:
            return False
        stored_chat = loaded.chat
        if stored_chat is None:
            return True
        if not chat.between_turns.was_cleared:
            turn = chat.running_turn
            running = () if turn is None else (turn.unsent, *turn.messages)
            chat.history.restore([restored(each) for each in stored_chat.messages], running)
        named = chat.title if chat.settings.is_named_by_user or not was_unread else None
        chat.title = named or stored_chat.title or chat.title
        chat.settings = stored_chat.settings
        chat.created = stored_chat.created
        if not chat.is_busy:
            chat.updated = stored_chat.updated
        chat.usage = SessionUsage()  # the turns of an unread chat are stored, too
        for usage in stored_chat.usages:
            chat.usage.add_turn(usage.tokens, usage.cost)
        return True

    async def store_turn(self, turn: Turn) -> None:
        """Store a turn's messages, within a time limit; a cancelled call stores them, too."""
        tokens, cost = taken(turn.usages)
        is_recorded = turn.stored > 0
        await self._store.append(
            turn.chat.id,
            self._workspace,
            _unstored(turn, len(turn.messages)),
            title=turn.chat.title_to_store,
            usage=TurnUsage(tokens=tokens, cost=cost) if turn.usages else None,
            settings=turn.chat.settings_to_store,
            running=Running(turn=turn.prompt.content_id, is_over=True) if is_recorded else None,
        )

    async def store_copy(self, chat: Chat) -> None:
        """Store a chat that begins with existing messages."""
        await self._store.append(
            chat.id,
            self._workspace,
            stored(chat.history),
            title=chat.title,
            settings=chat.settings,
        )

    async def store_prompts(self, turn: Turn) -> None:
        """Store a turn up to the user's last message, within a time limit."""
        places = (n for n, each in enumerate(turn.messages, 1) if each.content_id is not None)
        if messages := _unstored(turn, max(places, default=0)):
            await self._store.append(
                turn.chat.id,
                self._workspace,
                messages,
                title=turn.chat.title_to_store,
                settings=turn.chat.settings_to_store,
                running=Running(turn=turn.prompt.content_id, stored=turn.stored),
            )

    async def store_prompt(self, turn: Turn, nursery: trio.Nursery) -> None:
        """Store the prompt of a turn, within a time limit; never raise.

        From then on drafts of the running turn are stored, too.
        """
        nursery.start_soon(self._keep_draft, turn)
        try:
            await self.store_prompts(turn)
        except Exception:  # noqa: BLE001 - a failed write must not end the turn
            _log.exception("a prompt of chat %s cannot be stored", turn.chat.id)

    async def _keep_draft(self, turn: Turn) -> None:
        async def add(pieces: Sequence[Piece]) -> bool:
            return await self._store.add_pieces(turn.chat.id, turn.prompt.content_id, pieces)

        try:
            await turn.draft.run(add)
        except Exception:  # noqa: BLE001 - as above
            _log.exception("a draft of chat %s cannot be stored", turn.chat.id)

    async def store_before_images(
        self, turn: Turn, changes: Sequence[FileChange]
    ) -> BeforeImageBatch:
        """Store the content of files that a call is about to change, within a time limit."""
        images = [_before_image(turn.last_content_id, change) for change in changes]
        return await self._store.add_before_images(turn.chat.id, images)

    def forget_before_images(self, batch: BeforeImageBatch) -> None:
        """Delete before-images: the call has changed none of the files."""
        self._store.remove_before_images(batch)

    async def store_pictures(self, chat: Chat, pictures: Iterable[bytes]) -> None:
        """Store pictures that the client cannot show as files, within a time limit."""
        for content in map(picture_content, pictures):
            if not chat.session.formatter.shows(content):
                await self._gallery.store(chat.id, content)

    async def store_settings(self, chat: Chat) -> None:
        """Store a chat's title and settings."""
        await self._store.append(
            chat.id, self._workspace, title=chat.title_to_store, settings=chat.settings_to_store
        )

    def clear(self, chat: Chat) -> Awaitable[None]:
        """Delete the stored messages of a chat, in order before later writes.

        Returns:
            An awaitable that ends when they are deleted.
        """
        erasure = self._store.clear(chat.id, title=chat.title, settings=chat.settings_to_store)

        async def cleared() -> None:
            try:
                await erasure
            finally:
                await self._gallery.remove(chat.id)

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


def _unstored(turn: Turn, count: int) -> list[StoredMessage]:
    """Return the unstored ones of a turn's first `count` messages, and mark them as stored."""
    messages, turn.stored = turn.messages[turn.stored : count], max(turn.stored, count)
    return stored(messages)


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
