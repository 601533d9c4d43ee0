"""The chats on disk, for the server's tasks: nothing here waits long, and nothing raises.

The rule it keeps: a disk that is full, damaged, forbidden, slow or dead costs the user a message
and, later, the history; never the turn. All work is done, in the order it was asked for, by one
thread, which is started at the first call; SQLite is imported there.
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
    Change,
    ChatRow,
    ChatSettings,
    ChatSummary,
    Found,
    KeptContent,
    Noted,
    Rollback,
    StoredChat,
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
"""How long a write is waited for before the chat goes on without it."""

READ_SECONDS = 3.0
"""How long a stored chat is waited for."""

SLOW_DISK = 8 * 1024 * 1024
"""Bytes a second of a slow disk: so much longer is waited for while large texts are written."""

MOST_LONGER = 6.0
"""Seconds that are waited for longer at most."""

LATE_SECONDS = 0.1
"""How long a chat is waited for while the disk is known to be late."""

CLOSE_SECONDS = 1.0
"""How long the last writes are waited for."""

LARGEST_BACKLOG = 64 * 1024 * 1024
"""Bytes of files that may wait for a late disk."""

_REWRITE_SECONDS = 0.7  # of them
_IDLE_SECONDS = 2.0
_LOG_SECONDS = 60.0  # how long the log may grow: never idle, or while another server is in the way

Result = TypeVar("Result")


class _Call(Generic[Result]):
    """Work for the thread, and what came of it."""

    def __init__(self, work: Callable[[Keeper], Result], size: int) -> None:
        self.work = work
        self.size = size  # about how many bytes it writes
        self.done = trio.Event()
        self.result: Result | None = None


class Store:
    """The chats of one user.

    A call that is cancelled stops waiting; what it asked for is done all the same.
    """

    def __init__(self, path: Path, *, on_problem: Callable[[str], None]) -> None:
        """Nothing is opened before the first call.

        Args:
            path: the file; see `store_path`.
            on_problem: called with a sentence for the user, once for each kind of trouble.
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
        """Add what a turn brought to a chat, which is made if there is none; all of it or nothing.

        Args:
            chat_id: any text.
            workspace: where the chat is listed, if it is new; see `workspace_key`.
            messages: the turn's, in order.
            title: the chat's name from now on; None: as it was.
            usage: what the turn took; None: it asked no model.
            settings: the chat's from now on; None: as they were.
            running: the state of the turn with these messages; None: it is not noted.

        Returns:
            Whether it is on disk. If not, it is tried again with the next call.
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
        """Add pieces of a running turn, however long that takes.

        Returns:
            Whether it is on disk; it is not tried again.
        """
        if self._closed:
            await trio.lowlevel.checkpoint()
            return False
        call = self._ask(lambda keeper: keeper.add_pieces(chat_id, turn, pieces))
        await call.done.wait()
        return bool(call.result)

    async def has_message(self, chat_id: str, message_id: str) -> bool | None:
        """Return whether a chat has that message; None: it cannot be read."""
        return await self._read(lambda keeper: keeper.has_message(chat_id, message_id))

    @property
    def is_late(self) -> bool:
        """Whether the disk has not answered for longer than it is waited for."""
        return not self._on_time.is_set()

    async def find(self, chat_id: str) -> Found | None:
        """A chat with its whole history, if it is kept; None: it cannot be read in time."""
        return await self._read_unless_late(lambda keeper: keeper.load(chat_id))

    async def load(self, chat_id: str) -> StoredChat | None:
        """A chat with its whole history; None if it is not kept, or cannot be read in time."""
        found = await self.find(chat_id)
        return None if found is None else found.chat

    async def list(
        self, workspace: str | None, limit: int, *, by: Literal["updated", "created"] = "updated"
    ) -> Sequence[ChatSummary]:
        """At most `limit` chats of a workspace (None: of all) that have messages, latest first."""
        found = await self._read_unless_late(lambda keeper: keeper.latest(workspace, limit, by=by))
        return found or ()

    def clear(
        self, chat_id: str, *, title: str | None, settings: ChatSettings | None
    ) -> Awaitable[bool]:
        """Forget what was said in a chat, as `delete` does; what it took stays.

        That is asked for at once, before what is asked for next; to wait for it is another thing.

        Args:
            chat_id: one that is not kept is left alone.
            title: the chat's name from now on, if `settings` are given; None: it has none.
            settings: the chat's from now on; None: they stay.
        """
        return self._asked(lambda keeper: keeper.clear(chat_id, title=title, settings=settings))

    async def delete(self, chat_id: str) -> bool:
        """Forget a chat; whether nothing of it can be loaded any more.

        Copies that SQLite may have left in the file are overwritten while the store is idle, at
        the latest when it is closed.
        """
        return await self._write(lambda keeper: keeper.delete(chat_id))

    async def add_before_images(self, chat_id: str, images: Sequence[BeforeImage]) -> Noted:
        """Keep what files are before one call changes them: all of it or nothing.

        Cancelled, it is forgotten: the call changes nothing then.

        Returns:
            What tells, also later, whether it is on disk; a write that fails is not tried again.
        """
        kept = tuple(images)
        noted = Noted(
            chat=chat_id, content_id=kept[0].content_id, paths=tuple(each.path for each in kept)
        )
        size = sum(len(each.data or b"") for each in kept)
        self._backlog = [each for each in self._backlog if not each[0].done.is_set()]
        if self._closed or size + sum(waiting for _, waiting in self._backlog) > LARGEST_BACKLOG:
            await trio.lowlevel.checkpoint()
            return noted

        def add(keeper: Keeper) -> bool:
            noted.numbers = keeper.add_before_images(chat_id, kept)
            return noted.numbers is not None

        call = self._ask(add, size)
        self._backlog.append((call, size))
        try:
            await self._written(call)
        except trio.Cancelled:
            self.remove_before_images(noted)
            raise
        return noted

    def remove_before_images(self, noted: Noted) -> None:
        """Forget what files were before changes that are not made after all."""
        if not self._closed:
            self._ask(lambda keeper: keeper.remove_before_images(noted))

    async def before_images(self, chat_id: str) -> Sequence[BeforeImage]:
        """What the files were that a chat changed, in the order of the changes."""
        return await self._read(lambda keeper: keeper.before_images(chat_id)) or ()

    @property
    def rollback_lock(self) -> Path:
        """The file that is locked by whoever puts files back."""
        return self._path.with_name("rollback.lock")

    async def changes_since(
        self, chat_id: str, content_ids: Sequence[str]
    ) -> Sequence[Change] | None:
        """All changes of files from the first on that one of these messages led to, in order.

        None: they cannot be read.
        """
        return await self._read(lambda keeper: keeper.changes_since(chat_id, content_ids))

    async def content(self, number: int) -> KeptContent | None:
        """What a file was before a change, by the change's number; None: it cannot be read."""
        return await self._read(lambda keeper: keeper.content(number))

    async def note_rollback(self, rollback: Rollback) -> bool:
        """Note what is to be undone, before it is; whether it is on disk."""
        return await self._write(lambda keeper: keeper.note_rollback(rollback))

    async def note_step(self, chat_id: str, path: str) -> bool:
        """Note that the first step of a rollback that is left, about that path, is done."""
        return await self._write(lambda keeper: keeper.note_step(chat_id, path))

    async def unfinished_rollbacks(self, workspace: str, chat_id: str) -> Sequence[Rollback]:
        """The rollbacks that were noted and not finished: of a workspace's chats and of a chat."""
        found = await self._read_unless_late(lambda k: k.unfinished_rollbacks(workspace, chat_id))
        return found or ()

    async def finish_rollback(
        self, rollback: Rollback, *, title: str | None = None, settings: ChatSettings | None = None
    ) -> bool:
        """Let the messages of a rollback go, and what is noted of it; whether it is on disk.

        Args:
            rollback: its files are put back, if they are to be.
            title: the chat's name from now on, if `settings` are given.
            settings: the chat's from now on; None: they stay.
        """
        return await self._write(
            lambda keeper: keeper.finish_rollback(rollback, title=title, settings=settings)
        )

    async def close(self) -> bool:
        """Write what is not written yet; whether everything is on disk.

        It takes `CLOSE_SECONDS` at most, and cannot be cancelled. Later calls do nothing.
        """
        if self._closed or self._token is None:
            self._closed = True
            return True
        ending = time.monotonic() + _REWRITE_SECONDS
        call = self._ask(lambda keeper: keeper.close(lambda: time.monotonic() > ending))
        self._closed = True
        self._calls.put(None)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_SECONDS):
            await call.done.wait()
        return bool(call.result)

    async def _write(self, work: Callable[[Keeper], bool], size: int = 0) -> bool:
        """Ask for it, and wait unless the disk is known to be late already."""
        return await self._asked(work, size)

    def _asked(self, work: Callable[[Keeper], bool], size: int = 0) -> Awaitable[bool]:
        return self._written(None if self._closed else self._ask(work, size))

    async def _written(self, call: _Call[bool] | None) -> bool:
        if call is None:
            return False
        with trio.move_on_after(0 if self.is_late else WRITE_SECONDS + self._longer):
            await call.done.wait()
        return self._came_of(call) or False

    async def _read(self, work: Callable[[Keeper], Result]) -> Result | None:
        if self._closed:
            return None
        call = self._ask(work)
        with trio.move_on_after(READ_SECONDS + self._longer):
            await call.done.wait()
        return self._came_of(call)

    @property
    def _longer(self) -> float:
        """How much longer a call takes for what has to be written before it."""
        return min(self._size_asked / SLOW_DISK, MOST_LONGER)

    async def _read_unless_late(self, work: Callable[[Keeper], Result]) -> Result | None:
        """Read a chat or a list of chats; return None soon while the disk is late, and say so.

        Nothing is asked of a late disk, so that no reads pile up behind a call that hangs.
        """
        with trio.move_on_after(LATE_SECONDS):
            await self._on_time.wait()
        result = None if self.is_late else await self._read(work)
        if self.is_late and not self._announced_unread:
            self._announced_unread = True
            self._on_problem(
                f"Stored chats cannot be listed or opened until {self._path} answers again; those "
                "of this session can."
            )
        return result

    def _came_of(self, call: _Call[Result]) -> Result | None:
        if not call.done.is_set():
            if not self.is_late:
                self._on_time = trio.Event()
            if not self._announced_lateness:
                self._announced_lateness = True
                self._on_problem(f"{self._path} does not answer: the chats go on in memory.")
        return call.result

    def _ask(self, work: Callable[[Keeper], Result], size: int = 0) -> _Call[Result]:
        call = _Call(work, size)
        self._size_asked += size
        if self._token is None:
            self._token = trio.lowlevel.current_trio_token()
            threading.Thread(target=self._serve, name="eca-chats", daemon=True).start()
        self._calls.put(call)
        return call

    def _serve(self) -> None:
        """The thread."""
        try:
            from eca_server.chat.store.keeper import Keeper  # noqa: PLC0415 - it costs start time
        except ImportError as fault:  # an interpreter may have been built without SQLite
            self._in_trio(self._on_problem, f"Chats are not kept, they go on in memory: {fault}.")
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
            except Exception:  # noqa: BLE001 - a fault of ours must not end the thread
                _log.exception("a fault of the store")
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
