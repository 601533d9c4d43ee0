"""The chats on disk, for the server's tasks: nothing here waits long, and nothing raises.

Rule: a disk that is full, damaged, read-only, slow or dead costs the user a message and possibly
the history, never the turn.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs
import trio

from eca_server.agent.chat.store import queries, rollbacks, rows, running
from eca_server.agent.chat.store.worker import (
    LIMITS,
    Call,
    FileThread,
    FileThreads,
    Limits,
    Worker,
)
from eca_server.models.estimate import BYTES_PER_TOKEN, tokens_in

if TYPE_CHECKING:
    from eca_server.agent.chat.store.file import ChatFile


class Store(Worker):
    """The chats of one user.

    A cancelled call stops waiting; its work is still done.
    """

    def __init__(
        self,
        path: Path,
        *,
        on_problem: Callable[[str], None],
        limits: Limits = LIMITS,
        threads: FileThreads | None = None,
    ) -> None:
        """Open nothing before the first call.

        Args:
            path: the file; see `store_path`.
            on_problem: called with a sentence for the user, once for each kind of problem.
            limits: the seconds to wait for the disk, and its backlog.
            threads: the threads that the servers of this process share; None: one of its own.
        """
        thread = FileThread(path, limits) if threads is None else threads.get(path)
        super().__init__(thread, on_problem)
        self._backlog: list[Call[bool]] = []

    async def append(self, chat_id: str, workspace: str, record: rows.ChatRecord) -> bool:
        """Add a turn's messages to a chat, which is made if there is none; all of them or none.

        Args:
            chat_id: any text.
            workspace: the key under which a new chat is listed; see `workspace_key`.
            record: the messages, and what else is new.

        Returns:
            True if the data is on disk. If not, the next call retries.
        """
        now = time.time()
        chat = rows.ChatRow(chat_id, workspace, record.title, now, now)
        names = (each.content_id or f"{rows.GENERATED}{uuid.uuid4()}" for each in record.messages)
        ids = tuple(names)  # made once: the write may be repeated
        turn = ids[0] if ids else str(uuid.uuid4())
        return await self.write(
            chat_id,
            lambda file: queries.append(file, chat, record, ids=ids, turn=turn),
            size=tokens_in(record.messages) * BYTES_PER_TOKEN,
        )

    async def add_pieces(self, chat_id: str, turn: str, pieces: Sequence[rows.Piece]) -> bool:
        """Add pieces of a running turn, without a time limit.

        Returns:
            True if they are on disk; a failed write is not retried.
        """
        call = self.queue(
            lambda disk: disk.write_once(
                lambda file: running.add_pieces(file, chat_id, turn, pieces)
            )
        )
        await call.done.wait()
        return bool(call.result)

    async def first_stored(self, chat_id: str, message_ids: Sequence[str]) -> str | None:
        """Return the first of these messages in a chat, or ""; None if it cannot be read."""
        return await self.read(lambda file: queries.first_stored(file, chat_id, message_ids))

    async def find(self, chat_id: str, workspace: str = "") -> rows.LoadResult | None:
        """Load a chat with its whole history; return None if it cannot be read in time.

        Args:
            chat_id: the chat's id.
            workspace: the workspace whose unfinished rollbacks count, besides those of the chat.
        """

        def query(file: ChatFile) -> rows.LoadResult:
            unfinished = rollbacks.has_unfinished_rollbacks(file, workspace, chat_id)
            return attrs.evolve(queries.load(file, chat_id), has_unfinished_rollbacks=unfinished)

        return await self.read_unless_late(query, first=running.settle)

    async def find_changed(
        self, chat_id: str, message_ids: Collection[str] | None = None, count: int = 0
    ) -> rows.LoadResult | None:
        """Load a chat if another server has deleted its last messages, or all of it.

        With `message_ids` also load it if it has these messages, and more than `count`.

        Returns:
            None if the chat is unchanged, or if it cannot be read now.
        """

        def query(file: ChatFile) -> rows.LoadResult | None:
            if file.is_behind or rollbacks.has_unfinished_rollbacks(file, "", chat_id):
                return None
            shortened = queries.load_shortened(file, chat_id)
            if shortened or message_ids is None:
                return shortened
            return queries.load_longer(file, chat_id, message_ids, count)

        return await self.read_unless_late(query, first=running.settle)

    def note_last(self, chat_id: str, last: tuple[int, str]) -> None:
        """Note that a chat has all that was loaded with this last message."""
        query = partial(queries.note_last, chat_id=chat_id, last=last)
        self.queue(lambda file: file.read(query))

    async def emptied(self, chat_ids: Collection[str]) -> Collection[str]:
        """Return the chats of which other servers have deleted everything that was stored."""
        query = partial(queries.emptied, chat_ids=chat_ids)
        return await self.read_unless_late(query) or ()

    async def load(self, chat_id: str) -> rows.StoredChat | None:
        """Return a chat with its whole history; None if it is not stored, or not read in time."""
        result = await self.find(chat_id)
        return None if result is None else result.chat

    async def list(
        self, workspace: str | None, limit: int, *, by: Literal["updated", "created"] = "updated"
    ) -> Sequence[rows.ChatSummary]:
        """Return at most `limit` chats of a workspace (None: of all), the latest first."""
        chats = await self.read_unless_late(
            lambda file: queries.latest(file, workspace, limit, by=by), first=running.settle
        )
        return chats or ()

    def clear(self, chat_id: str, record: rows.ChatRecord) -> Awaitable[bool]:
        """Delete the messages of a chat, as `delete` does; its usage is kept.

        The work is queued at once, before that of later calls; the result is awaited separately.

        Args:
            chat_id: the chat's id; nothing is done for a chat that is not stored.
            record: the chat's new settings, and its new title if it has settings; None: no title.
        """
        return self.write(chat_id, lambda file: queries.clear(file, chat_id, record), deletes=True)

    async def delete(self, chat_id: str) -> bool:
        """Delete a chat; return whether the deletion is on disk.

        Copies that SQLite may have left in the file are overwritten while the store is idle, at
        the latest when it is closed; those in a large file after a longer idle time.
        """
        return await self.write(chat_id, lambda file: queries.delete(file, chat_id), deletes=True)

    async def add_before_images(
        self, chat_id: str, images: Sequence[rows.BeforeImage]
    ) -> rows.BeforeImageBatch:
        """Store the before-images of one call: all of them or none.

        If this is cancelled, they are deleted, since the call then changes nothing.

        Returns:
            The batch, whose numbers are set once it is on disk; a failed write is not retried.
        """
        stored_images = tuple(images)
        batch = rows.BeforeImageBatch(
            chat=chat_id,
            content_id=stored_images[0].content_id,
            paths=tuple(each.path for each in stored_images),
            directories=frozenset(e.path for e in stored_images if e.after == rows.FOLDER),
        )
        size = sum(len(each.data or b"") for each in stored_images)
        self._backlog = [each for each in self._backlog if not each.done.is_set()]
        if size + sum(each.size for each in self._backlog) > self.limits.backlog:
            await trio.lowlevel.checkpoint()
            return batch

        def add(disk: ChatFile) -> bool:
            numbers: list[int] = []
            is_stored = disk.write_once(
                lambda file: numbers.extend(
                    rollbacks.add_before_images(file, chat_id, stored_images)
                )
            )
            if is_stored:
                batch.numbers = tuple(numbers)
            return is_stored

        call = self.queue(add, size)
        self._backlog.append(call)
        try:
            await self.written(call)
        except trio.Cancelled:
            self.remove_before_images(batch)
            raise
        return batch

    def remove_before_images(self, batch: rows.BeforeImageBatch) -> None:
        """Forget what files were before changes that are not made after all."""
        self.queue(
            lambda disk: disk.write(
                batch.chat, lambda file: rollbacks.remove_before_images(file, batch)
            )
        )

    @property
    def rollback_lock(self) -> Path:
        """The file that a server locks while it restores files."""
        return self._path.with_name("rollback.lock")

    async def first_change(self, chat_id: str, content_ids: Sequence[str]) -> int | None:
        """Return the number of the first change of a file of these messages, or 0 if there is none.

        None means that it cannot be read.
        """
        return await self.read(lambda file: rollbacks.first_change(file, chat_id, content_ids))

    async def changes_from(self, chat_id: str, first: int) -> Sequence[rows.Change] | None:
        """Return all changes of files from a number on, in order; None: they cannot be read."""
        changes: list[rows.Change] = []
        while True:
            start = changes[-1].number + 1 if changes else first
            following = await self.read(partial(rollbacks.changes_from, chat=chat_id, first=start))
            if following is None:
                return None
            if not following:
                return changes
            changes += following

    async def content(self, number: int) -> rows.StoredContent | None:
        """Return a file's content before a change; None: unreadable."""
        return await self.read(lambda file: rollbacks.content(file, number))

    async def note_rollback(self, rollback: rows.Rollback) -> bool:
        """Record a rollback before it starts; return whether it is on disk."""
        return await self.write_once(lambda file: rollbacks.note_rollback(file, rollback))

    async def note_step(self, chat_id: str, path: str) -> bool:
        """Record that the first remaining step with this path is done; return whether on disk."""
        return await self.write_once(lambda file: rollbacks.note_step(file, chat_id, path))

    async def unfinished_rollbacks(self, workspace: str, chat_id: str) -> Sequence[rows.Rollback]:
        """Return the unfinished rollbacks of a workspace's chats, and of one chat."""
        unfinished = await self.read_unless_late(
            lambda file: rollbacks.unfinished_rollbacks(file, workspace, chat_id)
        )
        return unfinished or ()

    async def finish_rollback(
        self, rollback: rows.Rollback, record: rows.ChatRecord = rows.NOTHING_NEW
    ) -> bool:
        """Remove the messages and the record of a rollback; return whether it is on disk.

        Args:
            rollback: the rollback, whose files are restored.
            record: the chat's new settings, and its new title if it has settings.
        """
        return await self.write(
            rollback.chat, lambda file: rollbacks.finish_rollback(file, rollback, record)
        )
