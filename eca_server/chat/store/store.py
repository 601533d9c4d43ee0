"""The chats on disk, for the server's tasks: nothing here waits long, and nothing raises.

Rule: a disk that is full, damaged, read-only, slow or dead costs the user a message and possibly
the history, never the turn. One thread does all work in the order of the calls. It is started at
the first call, and imports SQLite.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import trio

from eca_server.chat.store.rows import (
    BeforeImage,
    BeforeImageBatch,
    Change,
    ChatRow,
    ChatSettings,
    ChatSummary,
    LoadResult,
    Rollback,
    StoredChat,
    StoredContent,
    StoredMessage,
    TurnUsage,
)
from eca_server.llm.estimate import BYTES_PER_TOKEN, tokens_in

if TYPE_CHECKING:
    from eca_server.chat.store.keeper import Keeper
    from eca_server.chat.store.running import Piece, Running

__all__ = ["Store"]

_log = logging.getLogger("eca_server.chat.store")

WRITE_SECONDS = 1.0
"""Seconds to wait for a write before the chat continues without it."""

READ_SECONDS = 3.0
"""Seconds to wait for a stored chat."""

SLOW_DISK = 8 * 1024 * 1024
"""Bytes a second of a slow disk: waits are longer by this rate while large texts are written."""

MOST_LONGER = 6.0
"""The largest extension of a wait, in seconds."""

LATE_SECONDS = 0.1
"""Seconds to wait for a chat while the disk is late."""

CLOSE_SECONDS = 1.0
"""Seconds to wait for the last writes."""

LARGEST_BACKLOG = 64 * 1024 * 1024
"""Bytes of before-images that may wait for a late disk."""

_REWRITE_SECONDS = 0.7  # of them
_IDLE_SECONDS = 2.0
_LOG_SECONDS = 60.0  # how long the log may grow: never idle, or while another server is in the way

Result = TypeVar("Result")


class _Call(Generic[Result]):
    """Work for the thread, and its result."""

    def __init__(self, work: Callable[[Keeper], Result], size: int) -> None:
        self.work = work
        self.size = size  # about how many bytes it writes
        self.done = trio.Event()
        self.result: Result | None = None


class Store:
    """The chats of one user.

    A cancelled call stops waiting; its work is still done.
    """

    def __init__(self, path: Path, *, on_problem: Callable[[str], None]) -> None:
        """Open nothing before the first call.

        Args:
            path: the file; see `store_path`.
            on_problem: called with a sentence for the user, once for each kind of problem.
        """
        self._path = path
        self._on_problem = on_problem
        self._calls: queue.SimpleQueue[_Call[Any] | None] = queue.SimpleQueue()
        self._token: trio.lowlevel.TrioToken | None = None
        self._backlog: list[tuple[_Call[Any], int]] = []
        self._size_asked = 0
        self._on_time = trio.Event()
        self._on_time.set()
        self._announced_lateness = False
        self._announced_unread = False
        self._closed = False

    async def append(
        self,
        chat_id: str,
        workspace: str,
        messages: Sequence[StoredMessage] = (),
        *,
        title: str | None = None,
        usage: TurnUsage | None = None,
        settings: ChatSettings | None = None,
        running: Running | None = None,
    ) -> bool:
        """Add a turn's messages to a chat, which is made if there is none; all of them or none.

        Args:
            chat_id: any text.
            workspace: the key under which a new chat is listed; see `workspace_key`.
            messages: the turn's messages, in order.
            title: the chat's new title; None: keep it.
            usage: the turn's usage; None: it called no model.
            settings: the chat's new settings; None: keep them.
            running: the state of the turn with these messages; None: do not record it.

        Returns:
            True if the data is on disk. If not, the next call retries.
        """
        now = time.time()
        chat = ChatRow(chat_id, workspace, title, now, now)
        added = tuple(messages)
        turn = added[0].id if added else str(uuid.uuid4())
        return await self._write(
            lambda keeper: keeper.append(
                chat, added, turn=turn, usage=usage, settings=settings, running=running
            ),
            size=tokens_in([each.message for each in added]) * BYTES_PER_TOKEN,
        )

    async def add_pieces(self, chat_id: str, turn: str, pieces: Sequence[Piece]) -> bool:
        """Add pieces of a running turn, without a time limit.

        Returns:
            True if they are on disk; a failed write is not retried.
        """
        if self._closed:
            await trio.lowlevel.checkpoint()
            return False
        call = self._queue(lambda keeper: keeper.add_pieces(chat_id, turn, pieces))
        await call.done.wait()
        return bool(call.result)

    async def has_message(self, chat_id: str, message_id: str) -> bool | None:
        """Return whether a chat has a message; None if the store cannot be read."""
        return await self._read(lambda keeper: keeper.has_message(chat_id, message_id))

    @property
    def is_late(self) -> bool:
        """True if the disk did not answer in time."""
        return not self._on_time.is_set()

    async def find(self, chat_id: str) -> LoadResult | None:
        """Load a chat with its whole history; return None if it cannot be read in time."""
        return await self._read_unless_late(lambda keeper: keeper.load(chat_id))

    async def load(self, chat_id: str) -> StoredChat | None:
        """Return a chat with its whole history; None if it is not stored, or not read in time."""
        result = await self.find(chat_id)
        return None if result is None else result.chat

    async def list(
        self, workspace: str | None, limit: int, *, by: Literal["updated", "created"] = "updated"
    ) -> Sequence[ChatSummary]:
        """Return at most `limit` chats of a workspace (None: of all), the latest first."""
        chats = await self._read_unless_late(lambda keeper: keeper.latest(workspace, limit, by=by))
        return chats or ()

    def clear(
        self, chat_id: str, *, title: str | None, settings: ChatSettings | None
    ) -> Awaitable[bool]:
        """Delete the messages of a chat, as `delete` does; its usage is kept.

        The work is queued at once, before that of later calls; the result is awaited separately.

        Args:
            chat_id: the chat's id; nothing is done for a chat that is not stored.
            title: the chat's new title, if `settings` are given; None: it has none.
            settings: the chat's new settings; None: keep them.
        """
        return self._queue_write(
            lambda keeper: keeper.clear(chat_id, title=title, settings=settings)
        )

    async def delete(self, chat_id: str) -> bool:
        """Delete a chat; return whether the deletion is on disk.

        Copies that SQLite may have left in the file are overwritten while the store is idle, at
        the latest when it is closed.
        """
        return await self._write(lambda keeper: keeper.delete(chat_id))

    async def add_before_images(
        self, chat_id: str, images: Sequence[BeforeImage]
    ) -> BeforeImageBatch:
        """Store the before-images of one call: all of them or none.

        If this is cancelled, they are deleted, since the call then changes nothing.

        Returns:
            The batch, whose numbers are set once it is on disk; a failed write is not retried.
        """
        stored_images = tuple(images)
        batch = BeforeImageBatch(
            chat=chat_id,
            content_id=stored_images[0].content_id,
            paths=tuple(each.path for each in stored_images),
        )
        size = sum(len(each.data or b"") for each in stored_images)
        self._backlog = [each for each in self._backlog if not each[0].done.is_set()]
        if self._closed or size + sum(waiting for _, waiting in self._backlog) > LARGEST_BACKLOG:
            await trio.lowlevel.checkpoint()
            return batch

        def add(keeper: Keeper) -> bool:
            batch.numbers = keeper.add_before_images(chat_id, stored_images)
            return batch.numbers is not None

        call = self._queue(add, size)
        self._backlog.append((call, size))
        try:
            await self._write_result(call)
        except trio.Cancelled:
            self.remove_before_images(batch)
            raise
        return batch

    def remove_before_images(self, batch: BeforeImageBatch) -> None:
        """Forget what files were before changes that are not made after all."""
        if not self._closed:
            self._queue(lambda keeper: keeper.remove_before_images(batch))

    async def before_images(self, chat_id: str) -> Sequence[BeforeImage]:
        """Return the before-images of a chat, in the order of the changes."""
        return await self._read(lambda keeper: keeper.before_images(chat_id)) or ()

    @property
    def rollback_lock(self) -> Path:
        """The file that a server locks while it restores files."""
        return self._path.with_name("rollback.lock")

    async def changes_since(
        self, chat_id: str, content_ids: Sequence[str]
    ) -> Sequence[Change] | None:
        """Return all changes of files since the first one of these messages, in order.

        None means that they cannot be read.
        """
        return await self._read(lambda keeper: keeper.changes_since(chat_id, content_ids))

    async def content(self, number: int) -> StoredContent | None:
        """Return a file's content before a change; None: unreadable."""
        return await self._read(lambda keeper: keeper.content(number))

    async def note_rollback(self, rollback: Rollback) -> bool:
        """Record a rollback before it starts; return whether it is on disk."""
        return await self._write(lambda keeper: keeper.note_rollback(rollback))

    async def note_step(self, chat_id: str, path: str) -> bool:
        """Record that the first remaining step with this path is done; return whether on disk."""
        return await self._write(lambda keeper: keeper.note_step(chat_id, path))

    async def unfinished_rollbacks(self, workspace: str, chat_id: str) -> Sequence[Rollback]:
        """Return the unfinished rollbacks of a workspace's chats, and of one chat."""
        rollbacks = await self._read_unless_late(
            lambda k: k.unfinished_rollbacks(workspace, chat_id)
        )
        return rollbacks or ()

    async def finish_rollback(
        self, rollback: Rollback, *, title: str | None = None, settings: ChatSettings | None = None
    ) -> bool:
        """Remove the messages and the record of a rollback; return whether it is on disk.

        Args:
            rollback: the rollback, whose files are restored.
            title: the chat's new title, if `settings` are given.
            settings: the chat's new settings; None: keep them.
        """
        return await self._write(
            lambda keeper: keeper.finish_rollback(rollback, title=title, settings=settings)
        )

    async def close(self) -> bool:
        """Finish writing; return whether everything is on disk.

        This takes at most `CLOSE_SECONDS`, and cannot be cancelled. Later calls do nothing.
        """
        if self._closed or self._token is None:
            self._closed = True
            return True
        ending = time.monotonic() + _REWRITE_SECONDS
        call = self._queue(lambda keeper: keeper.close(lambda: time.monotonic() > ending))
        self._closed = True
        self._calls.put(None)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_SECONDS):
            await call.done.wait()
        return bool(call.result)

    async def _write(self, work: Callable[[Keeper], bool], size: int = 0) -> bool:
        """Queue a write, and wait unless the disk is late already."""
        return await self._queue_write(work, size)

    def _queue_write(self, work: Callable[[Keeper], bool], size: int = 0) -> Awaitable[bool]:
        return self._write_result(None if self._closed else self._queue(work, size))

    async def _write_result(self, call: _Call[bool] | None) -> bool:
        if call is None:
            return False
        with trio.move_on_after(0 if self.is_late else WRITE_SECONDS + self._extra_seconds):
            await call.done.wait()
        return self._result_of(call) or False

    async def _read(self, work: Callable[[Keeper], Result]) -> Result | None:
        if self._closed:
            return None
        call = self._queue(work)
        with trio.move_on_after(READ_SECONDS + self._extra_seconds):
            await call.done.wait()
        return self._result_of(call)

    @property
    def _extra_seconds(self) -> float:
        """The extra seconds of a call for the writes queued before it."""
        return min(self._size_asked / SLOW_DISK, MOST_LONGER)

    async def _read_unless_late(self, work: Callable[[Keeper], Result]) -> Result | None:
        """Read a chat or a list of chats; return None soon while the disk is late, and say so.

        A late disk gets no further reads, so that none pile up behind a hanging call.
        """
        with trio.move_on_after(LATE_SECONDS):
            await self._on_time.wait()
        result = None if self.is_late else await self._read(work)
        if self.is_late and not self._announced_unread:
            self._announced_unread = True
            self._on_problem(
                f"Stored chats cannot be listed or opened until {self._path} answers again. Chats "
                "of this session can."
            )
        return result

    def _result_of(self, call: _Call[Result]) -> Result | None:
        if not call.done.is_set():
            if not self.is_late:
                self._on_time = trio.Event()
            if not self._announced_lateness:
                self._announced_lateness = True
                self._on_problem(
                    f"{self._path} does not answer: chats stay only in memory until it does."
                )
        return call.result

    def _queue(self, work: Callable[[Keeper], Result], size: int = 0) -> _Call[Result]:
        call = _Call(work, size)
        self._size_asked += size
        if self._token is None:
            self._token = trio.lowlevel.current_trio_token()
            threading.Thread(target=self._serve, name="eca-chats", daemon=True).start()
        self._calls.put(call)
        return call

    def _serve(self) -> None:
        """Run the thread: do the queued work."""
        try:
            from eca_server.chat.store.keeper import Keeper  # noqa: PLC0415 - it costs start time
        except ImportError as fault:  # an interpreter may have been built without SQLite
            self._in_trio(
                self._on_problem, f"Chats are not stored, and stay only in memory: {fault}."
            )
            while (call := self._calls.get()) is not None:
                self._in_trio(self._finish, call, None)
            return
        keeper = Keeper(self._path, lambda text: self._in_trio(self._on_problem, text))
        emptied = time.monotonic()  # the log, or it was tried
        pause = _IDLE_SECONDS
        while True:
            is_due = keeper.rewrite_is_due or keeper.log_is_due
            try:
                call = self._calls.get(timeout=pause if is_due else None)
            except queue.Empty:
                keeper.tidy(lambda: not self._calls.empty())
                keeper.empty_log()
                emptied = time.monotonic()
                pause = _LOG_SECONDS if keeper.log_is_due else _IDLE_SECONDS
                continue
            pause = _IDLE_SECONDS
            if call is None:
                return
            result = None
            try:
                result = call.work(keeper)
            except Exception:  # noqa: BLE001 - an internal error must not end the thread
                _log.exception("an internal error of the store")
            self._in_trio(self._finish, call, result)
            if time.monotonic() - emptied > _LOG_SECONDS:  # never idle
                keeper.empty_log()
                emptied = time.monotonic()

    def _finish(self, call: _Call[Result], result: Result) -> None:
        self._size_asked -= call.size
        self._on_time.set()
        self._announced_unread = False
        call.result = result
        call.done.set()

    def _in_trio(self, function: Callable[..., object], *arguments: object) -> None:
        assert self._token is not None
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function, *arguments)
