"""The stored part of one chat: whether it was read back, and what is written to it."""

from __future__ import annotations

import enum
import logging
from collections.abc import Awaitable, Callable, Sequence

import attrs

from eca_protocol.messages import ChatImageContent
from eca_server.chat.memory import Memory
from eca_server.chat.store import BeforeImageBatch
from eca_server.chat.store.rows import LoadResult
from eca_server.chat.store.running import Piece
from eca_server.chat.stored_messages import ChatRecord
from eca_server.tools.tool import FileChange

__all__ = ["RestoreState", "Storage"]

_log = logging.getLogger("eca_server.chat")


class RestoreState(enum.Enum):
    """The relation of a chat to what is stored under its id."""

    NEW = "nothing is stored, or the chat has stored all of it"
    UNKNOWN = "it was not read yet"
    LATE = "it could not be read yet, and must not be overwritten"
    CLEARED = "its messages were deleted before they were read"
    RESTORED = "it was read"


class Storage:
    """The stored part of one chat.

    Args:
        chat_id: the chat.
        memory: the stored chats; None: chats are not stored.
        state: the state at the beginning.
        describe: returns the chat's title and settings for each record; None: store nothing.

    Attributes:
        state: whether the chat has its stored part.
        unstored_changes: file changes whose before-images are not stored, or not yet.
    """

    def __init__(
        self,
        chat_id: str,
        memory: Memory | None,
        state: RestoreState,
        describe: Callable[[], ChatRecord | None],
    ) -> None:
        self.state = state
        self.unstored_changes: list[BeforeImageBatch] = []
        self._chat_id = chat_id
        self._memory = memory
        self._describe = describe

    @property
    def is_restored(self) -> bool:
        """True if the chat has everything that may be stored of it."""
        return self._memory is None or self.state in {RestoreState.NEW, RestoreState.RESTORED}

    @property
    def is_persistent(self) -> bool:
        """True if chats are stored."""
        return self._memory is not None

    async def load(self) -> LoadResult | None:
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

    async def store(self, record: ChatRecord | None = None) -> None:
        """Store additions, the title and the settings, within a time limit; never raise."""
        described = self._describe()
        if self._memory is None or described is None:
            return
        record = attrs.evolve(
            record or ChatRecord(), title=described.title, settings=described.settings
        )
        try:
            await self._memory.store(self._chat_id, record)
        except Exception:  # noqa: BLE001 - what cannot be stored must not end a turn
            _log.exception("a part of chat %s cannot be stored", self._chat_id)

    async def store_pieces(self, turn: str, pieces: Sequence[Piece]) -> bool:
        """Store pieces of the draft of a turn; return whether they are on disk; never raise."""
        if self._memory is None:
            return False
        try:
            return await self._memory.store_pieces(self._chat_id, turn, pieces)
        except Exception:  # noqa: BLE001 - as above
            _log.exception("a draft of chat %s cannot be stored", self._chat_id)
            return False

    async def store_before_images(
        self, content_id: str, changes: Sequence[FileChange]
    ) -> Callable[[], None]:
        """Store the content of files before they are changed.

        Args:
            content_id: the id of the user's last message.
            changes: the changes.

        Returns:
            A function to call if nothing was changed.
        """
        memory = self._memory
        if memory is None:
            return lambda: None
        batch = await memory.store_before_images(self._chat_id, content_id, changes)
        unstored = [each for each in self.unstored_changes if each.numbers is None]
        self.unstored_changes = [*unstored, batch]

        def forget() -> None:
            others = [each for each in self.unstored_changes if each is not batch]
            self.unstored_changes = others
            memory.forget_before_images(batch)

        return forget

    async def store_picture(self, picture: ChatImageContent) -> None:
        """Store a picture as a file, within a time limit."""
        if self._memory is not None:
            await self._memory.store_picture(self._chat_id, picture)

    def clear(self, restore: Callable[[], Awaitable[None]]) -> Awaitable[None]:
        """Delete the stored messages, in order before later writes.

        Args:
            restore: restores settings, costs and the user's title first, if the chat lacks them.

        Returns:
            An awaitable that ends when they are deleted.
        """
        self.unstored_changes.clear()
        erasure = None
        if self.is_restored:
            erasure = self._erasure()
        else:
            self.state = RestoreState.CLEARED
        return self._finish_clear(erasure, restore)

    async def _finish_clear(
        self, erasure: Awaitable[None] | None, restore: Callable[[], Awaitable[None]]
    ) -> None:
        if erasure is None:
            await restore()
            erasure = self._erasure()
        if erasure is not None:
            await erasure

    def _erasure(self) -> Awaitable[None] | None:
        """Queue the deletion; None: the chat is deleted, or is not stored."""
        described = self._describe()
        if self._memory is None or described is None:
            return None
        return self._memory.clear(self._chat_id, described)
