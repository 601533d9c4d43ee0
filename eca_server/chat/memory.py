"""What outlives the process: a chat read back when it is named again, each turn kept at its end.

Of a turn that changes files the words that led to it are kept before: killed in the middle, it has
left something that can be rolled back.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import trio

from eca_server.chat.gallery import Gallery
from eca_server.chat.pictures import picture_content
from eca_server.chat.rollback import Rollbacks, place_of
from eca_server.chat.store import (
    BeforeImage,
    ChatSummary,
    Noted,
    Store,
    StoredChat,
    StoredMessage,
    TurnUsage,
)
from eca_server.chat.store.running import Piece, Running
from eca_server.chat.stored_messages import restored, stored
from eca_server.chat.usage import SessionUsage, taken
from eca_server.chat.window import Window
from eca_server.llm.history import Message, effective_history
from eca_server.tools.tool import FileChange
from eca_server.workspace import Workspace

if TYPE_CHECKING:
    from eca_server.chat.chat import Chat
    from eca_server.chat.turn import Turn

__all__ = ["Memory", "line_of"]

_log = logging.getLogger("eca_server.chat")

LARGEST_IMAGE = 1024 * 1024
"""Bytes of a file that are kept from before a change; of a larger one only that it was there."""


class Memory:
    """The stored chats of one workspace.

    Args:
        store: where they lie.
        workspace: the workspace they are listed under.
        boundary: what its folders are now.
        tell: shows the user a sentence.
        gallery: where pictures of chats have files.

    Attributes:
        rollbacks: puts back what the chats changed.
    """

    def __init__(
        self,
        store: Store,
        workspace: str,
        *,
        boundary: Callable[[], Workspace],
        tell: Callable[[str], None],
        gallery: Gallery,
    ) -> None:
        self._store = store
        self._gallery = gallery
        self._workspace = workspace
        self.rollbacks = Rollbacks(store, workspace, boundary=boundary, tell=tell)

    async def wake(self) -> None:
        """Open the store beside the first turn, which then need not wait for that at its end."""
        await self.rollbacks.recover()

    async def restore(self, chat: Chat) -> bool:
        """Give a chat the history that is stored under its id, if there is any.

        Returns:
            Whether that is known now; if not, the chat goes on unread.
        """
        if chat.is_unread and self._store.is_late:
            return False
        await self.rollbacks.recover(chat.id)
        found = await self._store.find(chat.id)
        was_unread, chat.is_unread = chat.is_unread, found is None
        if found is None:
            return False
        known = found.chat
        if known is None:
            return True
        if not chat.between_turns.was_cleared:
            chat.put_before(_said_before(chat, [restored(kept) for kept in known.messages]))
        chat.told = effective_history(chat.history)
        chat.window = Window()
        named = chat.title if chat.settings.is_named_by_user or not was_unread else None
        chat.title = named or known.title or chat.title
        chat.settings = known.settings
        chat.created = known.created
        if not chat.is_busy:
            chat.updated = known.updated
        chat.usage = SessionUsage()  # the turns of an unread chat are stored, too
        for usage in known.usages:
            chat.usage.add_turn(usage.tokens, usage.cost)
        return True

    async def keep(self, turn: Turn) -> None:
        """Store what a turn brought; bounded in time. Cancelled, it is stored all the same."""
        tokens, cost = taken(turn.usages)
        is_noted = turn.stored > 0
        await self._store.append(
            turn.chat.id,
            self._workspace,
            _unstored(turn, len(turn.messages)),
            title=turn.chat.kept_title,
            usage=TurnUsage(tokens=tokens, cost=cost) if turn.usages else None,
            settings=turn.chat.kept_settings,
            running=Running(turn=turn.prompt.content_id, is_over=True) if is_noted else None,
        )

    async def keep_copy(self, chat: Chat) -> None:
        """Store a chat that begins with a history of its own."""
        await self._store.append(
            chat.id,
            self._workspace,
            stored(chat.history),
            title=chat.title,
            settings=chat.settings,
        )

    async def keep_words(self, turn: Turn) -> None:
        """Store a turn up to what the user said last, unless it is; bounded in time."""
        places = (n for n, each in enumerate(turn.messages, 1) if each.content_id is not None)
        if words := _unstored(turn, max(places, default=0)):
            await self._store.append(
                turn.chat.id,
                self._workspace,
                words,
                title=turn.chat.kept_title,
                settings=turn.chat.kept_settings,
                running=Running(turn=turn.prompt.content_id, stored=turn.stored),
            )

    async def keep_prompt(self, turn: Turn, nursery: trio.Nursery) -> None:
        """Store the prompt of a turn; bounded in time, and never an error.

        From then on what the turn brings is stored, too, while it runs.
        """
        nursery.start_soon(self._keep_draft, turn)
        try:
            await self.keep_words(turn)
        except Exception:  # noqa: BLE001 - what cannot be stored must not end the turn
            _log.exception("a prompt of chat %s cannot be stored", turn.chat.id)

    async def _keep_draft(self, turn: Turn) -> None:
        async def add(pieces: Sequence[Piece]) -> bool:
            return await self._store.add_pieces(turn.chat.id, turn.prompt.content_id, pieces)

        try:
            await turn.draft.run(add)
        except Exception:  # noqa: BLE001 - as above
            _log.exception("what was answered in chat %s cannot be stored", turn.chat.id)

    async def keep_before_images(self, turn: Turn, changes: Sequence[FileChange]) -> Noted:
        """Store what files are that a call of the turn is about to change; bounded in time."""
        images = [_before_image(turn.last_said, change) for change in changes]
        return await self._store.add_before_images(turn.chat.id, images)

    def forget_before_images(self, noted: Noted) -> None:
        """Forget what files were: the call has changed none of them."""
        self._store.remove_before_images(noted)

    async def keep_pictures(self, chat: Chat, pictures: Iterable[bytes]) -> None:
        """Have files of the pictures that the client cannot be shown; bounded in time."""
        for content in map(picture_content, pictures):
            if not chat.session.formatter.shows(content):
                await self._gallery.keep(chat.id, content)

    async def keep_settings(self, chat: Chat) -> None:
        """Store a chat's title and settings."""
        await self._store.append(
            chat.id, self._workspace, title=chat.kept_title, settings=chat.kept_settings
        )

    def clear(self, chat: Chat) -> Awaitable[None]:
        """Forget what was said in a chat: before what is stored next, however long it takes."""
        asked = self._store.clear(chat.id, title=chat.title, settings=chat.kept_settings)

        async def cleared() -> None:
            try:
                await asked
            finally:
                await self._gallery.remove(chat.id)

        return cleared()

    async def delete(self, chat_id: str) -> None:
        """Forget a chat."""
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
        """The chats of the workspace, or of all, the latest first."""
        await self.rollbacks.recover()
        return await self._store.list(None if everywhere else self._workspace, limit, by=by)

    @property
    def is_late(self) -> bool:
        """Whether the disk has not answered for longer than it is waited for."""
        return self._store.is_late

    async def load(self, chat_id: str) -> StoredChat | None:
        """A stored chat."""
        return await self._store.load(chat_id)

    async def close(self) -> bool:
        """Write what is left; whether everything is on disk."""
        return await self._store.close()


def _unstored(turn: Turn, count: int) -> list[StoredMessage]:
    """What of the turn's first `count` messages is not stored; it is from now on."""
    messages, turn.stored = turn.messages[turn.stored : count], max(turn.stored, count)
    return stored(messages)


def _said_before(chat: Chat, messages: Sequence[Message]) -> Sequence[Message]:
    """What of the stored messages the chat has not itself, since it went on unread."""
    ids = (each.content_id for each in messages)
    said = {message.content_id for message in chat.said} - {None}
    known = next((each for each in ids if each in said), None)
    if known is None:
        return messages
    place, earlier = place_of(messages, known)
    return messages[: place - earlier]


def _before_image(content_id: str, change: FileChange) -> BeforeImage:
    before, after = change.before, change.after
    kept = before is not None and len(before.data) <= LARGEST_IMAGE
    return BeforeImage(
        content_id=content_id,
        path=str(change.path),
        moved_from=None if change.moved_from is None else str(change.moved_from),
        existed=before is not None,
        mode=None if before is None else before.mode,
        data=before.data if before is not None and kept else None,
        after=None if after is None else after.digest,
    )


def line_of(summary: ChatSummary) -> str:
    """A stored chat in one line: when, and what it is about."""
    day = datetime.fromtimestamp(summary.updated, tz=UTC).astimezone()
    about = summary.title or summary.beginning or summary.id
    return f"{day:%Y-%m-%d %H:%M} {about}"
