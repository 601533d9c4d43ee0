"""Stored chats: a chat is loaded when its id is used again, and each turn is stored at its end.

The prompts of a turn are stored before it changes files, so that a turn cut off by the end of the
server can be rolled back.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal

import attrs

from eca_protocol.messages import ChatImageContent
from eca_server.agent.chat.pictures import Gallery
from eca_server.agent.chat.restoring import Rollbacks
from eca_server.agent.chat.store import rows
from eca_server.agent.chat.store.store import Store
from eca_server.agent.tools.tool import FileChange
from eca_server.models.history import Message
from eca_server.workspace.boundary import Workspace

_log = logging.getLogger("eca_server.agent.chat")

LARGEST_IMAGE = 1024 * 1024
"""Bytes of the largest before-image; of a larger file only its existence is stored."""

_NOT_ERASED = (
    "The chat {} is not {} on the disk yet, which cannot be written now. If its messages are there "
    "again after a restart, repeat this."
)


class Memory:
    """The stored chats of one workspace.

    Args:
        workspace: the workspace under which the chats are listed.
        boundary: returns the workspace with its current folders.
        notify: shows the user a sentence.
        gallery: stores pictures of chats as files.

    Attributes:
        store, workspace, gallery: as above.
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
        self.store, self.workspace, self.gallery, self.notify = store, workspace, gallery, notify
        self.rollbacks = Rollbacks(store, workspace, boundary=boundary, notify=notify)
        self.undeleted: set[str] = set()  # deleted chats that may still be on the disk

    async def find(self, chat_id: str, *, waits: bool) -> rows.LoadResult | None:
        """Load a stored chat, once its interrupted rollback is finished.

        `waits`: wait a moment for a late disk, and tell the user that the chat cannot be read.

        Returns:
            None if it cannot be read now.
        """
        if not waits and self.store.is_late:
            return None
        loaded = await self.store.find(chat_id, self.workspace)
        if loaded is not None and loaded.has_unfinished_rollbacks:
            await self.rollbacks.recover(chat_id)
            loaded = await self.store.find(chat_id)
        return loaded

    async def delete(self, chat_id: str) -> None:
        """Delete a stored chat; notify the user if the disk still has it."""
        self.undeleted.add(chat_id)
        try:
            if await self.store.delete(chat_id):
                self.undeleted.discard(chat_id)
            else:
                self.notify(_NOT_ERASED.format(chat_id, "deleted"))
        finally:
            await self.gallery.remove(chat_id)

    async def latest(
        self,
        limit: int,
        *,
        by: Literal["updated", "created"] = "updated",
        everywhere: bool = False,
    ) -> Sequence[rows.ChatSummary]:
        """Return the chats of the workspace, or of all, the latest first."""
        await self.rollbacks.recover()
        workspace = None if everywhere else self.workspace
        listed = await self.store.list(workspace, limit + len(self.undeleted), by=by)
        return [each for each in listed if each.id not in self.undeleted][:limit]


class RestoreState(enum.Enum):
    """The relation of a chat to what is stored under its id."""

    NEW = "nothing is stored, or the chat has stored all of it"
    UNKNOWN = "it was not read yet"
    LATE = "it could not be read yet, and must not be overwritten"
    CLEARED = "its messages were deleted before they were read"
    RESTORED = "it was read"


@attrs.define
class Storage:
    """The stored part of one chat.

    Attributes:
        memory: the stored chats; None: chats are not stored.
        state: whether the chat has its stored part.
        describe: returns the chat's title and settings for each record; None: store nothing.
        unstored_changes: file changes whose before-images are not stored, or not yet.
    """

    _chat_id: str
    _memory: Memory | None
    state: RestoreState
    _describe: Callable[[], rows.ChatRecord | None]
    unstored_changes: list[rows.BeforeImageBatch] = attrs.field(init=False, factory=list)
    _is_erasure_due: bool = attrs.field(init=False, default=False)
    _cleared: Awaitable[None] | None = attrs.field(init=False, default=None)

    @property
    def is_restored(self) -> bool:
        """True if the chat has everything that may be stored of it."""
        return self._memory is None or self.state in {RestoreState.NEW, RestoreState.RESTORED}

    @property
    def is_persistent(self) -> bool:
        """True if chats are stored."""
        return self._memory is not None

    async def load(self) -> rows.LoadResult | None:
        """Read the stored part; None: there is nothing to restore, or it cannot be read now."""
        if self._memory is None or self.is_restored:
            return None
        waits = self.state is RestoreState.UNKNOWN
        loaded = await self._memory.find(self._chat_id, waits=waits)
        if self.is_restored:  # by another caller meanwhile
            return None
        if loaded is None and self.state is RestoreState.UNKNOWN:
            self.state = RestoreState.LATE
        return loaded

    async def read_changed(
        self, known: Sequence[Message], *, only_shortened: bool
    ) -> rows.LoadResult | None:
        """Read the stored part of a restored chat that another server has changed.

        Args:
            known: the messages of this chat.
            only_shortened: read it only if messages were deleted, else also if some were added.
        """
        if self._memory is None or not self.is_restored or self._memory.store.is_late:
            return None
        store = self._memory.store
        if only_shortened:
            return await store.find_changed(self._chat_id)
        known_ids = {each.content_id for each in known if each.content_id is not None}
        return await store.find_changed(self._chat_id, known_ids, len(known))

    def note_last(self, last: tuple[int, str]) -> None:
        """Note that the chat has all that was loaded with this last message."""
        if self._memory is not None:
            self._memory.store.note_last(self._chat_id, last)

    async def store(self, record: rows.ChatRecord = rows.NOTHING_NEW) -> None:
        """Store additions, the title and the settings, within a time limit; never raise."""
        memory, described = self._memory, self._describe()
        if memory is None or described is None:
            return
        record = attrs.evolve(record, title=described.title, settings=described.settings)
        memory.undeleted.discard(self._chat_id)  # a deleted id may be used again
        try:
            await memory.store.append(self._chat_id, memory.workspace, record)
        except Exception:  # noqa: BLE001 - what cannot be stored must not end a turn
            _log.exception("a part of chat %s cannot be stored", self._chat_id)

    async def store_pieces(self, turn: str, pieces: Sequence[rows.Piece]) -> bool:
        """Store pieces of the draft of a turn; return whether they are on disk; never raise."""
        if self._memory is None:
            return False
        try:
            return await self._memory.store.add_pieces(self._chat_id, turn, pieces)
        except Exception:  # noqa: BLE001 - as above
            _log.exception("a draft of chat %s cannot be stored", self._chat_id)
            return False

    async def store_before_images(
        self, content_id: str, changes: Sequence[FileChange]
    ) -> Callable[[], None]:
        """Store the content of files before they are changed, within a time limit.

        Returns:
            A function to call if nothing was changed.
        """
        memory = self._memory
        if memory is None:
            return lambda: None
        images = [image for change in changes for image in _before_images(content_id, change)]
        batch = await memory.store.add_before_images(self._chat_id, images)
        unstored = [each for each in self.unstored_changes if each.numbers is None]
        self.unstored_changes = [*unstored, batch]

        def forget() -> None:
            self.unstored_changes = [each for each in self.unstored_changes if each is not batch]
            memory.store.remove_before_images(batch)

        return forget

    async def store_picture(self, picture: ChatImageContent) -> None:
        """Store a picture as a file, within a time limit."""
        if self._memory is not None:
            await self._memory.gallery.store(self._chat_id, picture)

    def clear(self, restore: Callable[[], Awaitable[None]]) -> Awaitable[None]:
        """Delete the stored messages, in order before later writes.

        Args:
            restore: restores settings, costs and the user's title first, if the chat lacks them,
                and calls `erase_cleared`.

        Returns:
            An awaitable that ends when they are deleted.
        """
        self.unstored_changes.clear()
        if self.is_restored:
            return self._erasure()
        self.state = RestoreState.CLEARED
        self._is_erasure_due = True

        async def finish() -> None:
            await restore()
            self.erase_cleared()  # if the stored part cannot be read now
            erasure, self._cleared = self._cleared, None
            if erasure is not None:
                await erasure

        return finish()

    def erase_cleared(self) -> None:
        """Queue the deletion of messages that were cleared unread, before a turn stores its own."""
        if self._is_erasure_due:
            self._is_erasure_due = False
            self._cleared = self._erasure()

    def _erasure(self) -> Awaitable[None]:
        """Queue the deletion, unless the chat is deleted or is not stored."""
        memory, record = self._memory, self._describe()
        erasure = None
        if memory is not None and record is not None:
            erasure = memory.store.clear(self._chat_id, record)

        async def erase() -> None:
            if memory is not None and erasure is not None:
                try:
                    if not await erasure:
                        memory.notify(_NOT_ERASED.format(self._chat_id, "cleared"))
                finally:
                    await memory.gallery.remove(self._chat_id)

        return erase()


def _before_images(content_id: str, change: FileChange) -> Iterator[rows.BeforeImage]:
    for directory in change.new_directories:
        yield rows.BeforeImage(
            content_id=content_id, path=str(directory), existed=False, after=rows.FOLDER
        )
    before, after = change.before, change.after
    is_stored = before is not None and len(before.data) <= LARGEST_IMAGE
    yield rows.BeforeImage(
        content_id=content_id,
        path=str(change.path),
        moved_from=None if change.moved_from is None else str(change.moved_from),
        existed=before is not None,
        mode=None if before is None else before.mode,
        group=None if before is None else before.group,
        data=before.data if before is not None and is_stored else None,
        after=None if after is None else after.digest,
    )


def line_of(summary: rows.ChatSummary) -> str:
    """Return a line about a stored chat: its date and its title."""
    day = datetime.fromtimestamp(summary.updated, tz=UTC).astimezone()
    about = summary.title or summary.beginning or summary.id
    return f"{day:%Y-%m-%d %H:%M} {about}"
