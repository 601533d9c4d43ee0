"""The thread that works on the file of chats: deadlines for the server's tasks, and idle work.

Rule: a slow or dead disk holds no task up. The thread does all work in the order of the calls. It
is started at the first call, and imports SQLite.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import attrs
import trio

from eca_server.agent.chat.store.view import ServerView

if TYPE_CHECKING:
    from eca_server.agent.chat.store.file import ChatFile

_log = logging.getLogger("eca_server.agent.chat.store")

SLOW_DISK = 8 * 1024 * 1024
"""Bytes a second of a slow disk: waits are longer by this rate while large texts are written."""

MOST_LONGER = 6.0
"""The largest extension of a wait, in seconds."""


@attrs.frozen(kw_only=True)
class Limits:
    """The seconds of a store, and its backlog.

    Attributes:
        write: to wait for a write before the chat continues without it.
        read: to wait for a stored chat.
        late: to wait for a chat while the disk is late.
        close: to wait for the last writes.
        rewrite: to rewrite the file at the end, a part of `close`.
        idle: without a call, before the file is tidied.
        backlog: bytes of before-images that may wait for a late disk.
        log: until the log is emptied of a store that is never idle, or beside another server.
    """

    write: float = 1.0
    read: float = 3.0
    late: float = 0.1
    close: float = 1.0
    rewrite: float = 0.7
    idle: float = 2.0
    backlog: int = 64 * 2**20
    log: float = 60.0


LIMITS: Final = Limits()


Result = TypeVar("Result")
Query: TypeAlias = "Callable[[ChatFile], Result]"


class Call(Generic[Result]):
    """Work of a server for the thread, and its result; `size`: about how many bytes it writes."""

    def __init__(
        self, work: Query[Result], size: int, view: ServerView, on_done: Callable[[], None]
    ) -> None:
        self.work = work
        self.size = size
        self.view = view
        self.on_done = on_done
        self.done = trio.Event()
        self.result: Result | None = None


class FileThread:
    """The thread of one file, and its queue.

    Attributes:
        path: the file.
        limits: the limits of all servers that use the file.
        servers: the number of servers that use the file; the last one ends the thread.
        queued_bytes: about how many bytes wait to be written.
        is_started: True if the thread runs.
    """

    def __init__(
        self, path: Path, limits: Limits = LIMITS, on_end: Callable[[], object] = lambda: None
    ) -> None:
        """Start nothing before the first call."""
        self.path = path
        self.limits = limits
        self.servers = 0
        self.queued_bytes = 0
        self.is_started = False
        self._on_end = on_end
        self._calls: queue.SimpleQueue[Call[Any] | None] = queue.SimpleQueue()
        self._token: trio.lowlevel.TrioToken | None = None

    def queue(self, call: Call[Any]) -> None:
        """Queue a call; if no thread can be started now, the next call tries again."""
        self.queued_bytes += call.size
        self._calls.put(call)
        if self.is_started:
            return
        self._token = trio.lowlevel.current_trio_token()
        try:
            threading.Thread(target=self._serve, name="eca-chats", daemon=True).start()
        except RuntimeError as fault:
            _log.warning("%s: %s", self.path, fault)
        else:
            self.is_started = True

    def leave(self) -> None:
        """End a server's use of the file, behind its calls."""
        self.servers -= 1
        if not self.servers:
            self._calls.put(None)
            self._on_end()

    def in_trio(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function in the servers' thread."""
        assert self._token is not None
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function, *arguments)

    def _serve(self) -> None:
        """Run the thread: do the queued work."""
        try:
            file = self._import()(self.path)
        except ImportError as fault:  # an interpreter may have been built without SQLite
            while (call := self._calls.get()) is not None:
                call.view.report_once(f"Chats are not stored, and stay only in memory: {fault}.")
                self.in_trio(self._finish, call)
            return
        emptied = idle_since = time.monotonic()  # the log, or it was tried
        pause = self.limits.idle
        while True:
            is_due = file.rewrite_is_due or file.log_is_due
            try:
                call = self._calls.get(timeout=pause if is_due else None)
            except queue.Empty:
                idle_seconds = time.monotonic() - idle_since
                file.tidy(lambda: not self._calls.empty(), idle_seconds=idle_seconds)
                file.empty_log()
                emptied = time.monotonic()
                pause = self.limits.log
                continue
            pause = self.limits.idle
            if call is None:
                return
            try:
                call.result = call.work(file.serve(call.view))
            except Exception:  # noqa: BLE001 - an internal error must not end the thread
                _log.exception("an internal error of the store")
            self.in_trio(self._finish, call)
            idle_since = time.monotonic()
            if time.monotonic() - emptied > self.limits.log:  # never idle
                file.empty_log()
                emptied = time.monotonic()

    def _import(self) -> type[ChatFile]:
        """Import the class, once a file can be opened: descriptors may be used up for a while."""
        while True:
            try:
                from eca_server.agent.chat.store.file import ChatFile  # noqa: PLC0415 - it costs start time
            except OSError as fault:
                _log.warning("%s: %s", self.path, fault.strerror)
                time.sleep(self.limits.write)
            else:
                return ChatFile

    def _finish(self, call: Call[Any]) -> None:
        self.queued_bytes -= call.size
        call.on_done()
        call.done.set()


class FileThreads:
    """The threads of files that the servers of one process share."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._threads: dict[Path, FileThread] = {}

    def get(self, path: Path) -> FileThread:
        """Return the thread of a file; it ends with the last server that uses it."""
        if path not in self._threads:
            on_end = partial(self._threads.pop, path)
            self._threads[path] = FileThread(path, self._limits, on_end)
        return self._threads[path]


class Worker:
    """The calls of one server to the thread of a file.

    A cancelled call stops waiting; its work is still done.
    """

    def __init__(self, thread: FileThread, on_problem: Callable[[str], None]) -> None:
        """Start nothing before the first call; `on_problem` is called with a sentence."""
        self._thread = thread
        self._path = thread.path
        self._on_problem = on_problem
        self._view = ServerView(partial(thread.in_trio, on_problem))
        self._has_called = False
        self._on_time = trio.Event()
        self._on_time.set()
        self._announced_lateness = False
        self._announced_unread = False
        self._closed = False
        thread.servers += 1

    @property
    def limits(self) -> Limits:
        """The seconds to wait for the disk, and its backlog."""
        return self._thread.limits

    @property
    def is_late(self) -> bool:
        """True if the disk did not answer in time."""
        return not self._on_time.is_set()

    def queue(self, work: Query[Result], size: int = 0) -> Call[Result]:
        """Queue work for the thread; after `close` it is done at once, without a result."""
        call = Call(work, size, self._view, self._note_answer)
        if self._closed:
            call.done.set()
            return call
        self._has_called = True
        self._thread.queue(call)
        return call

    async def read(self, query: Query[Result]) -> Result | None:
        """Return the result of a query; None if it is not there in time."""
        return await self._wait(self.queue(lambda file: file.read(query)), self.limits.read)

    async def read_unless_late(
        self, query: Query[Result], *, first: Query[object] | None = None
    ) -> Result | None:
        """Read a chat or a list of chats; return None soon while the disk is late, and say so.

        A late disk gets no further reads, so that none pile up behind a hanging call.

        Args:
            query: the query.
            first: a query before it, which may fail.
        """
        if self.is_late:
            with trio.move_on_after(self.limits.late):
                await self._on_time.wait()

        def work(file: ChatFile) -> Result | None:
            try:
                if first is not None:
                    file.read(first)
            except Exception:  # noqa: BLE001 - it must not hide what the query finds
                _log.exception("an internal error of the store")
            return file.read(query)

        result = None
        if not (self.is_late and self._thread.is_started):  # which may start now
            result = await self._wait(self.queue(work), self.limits.read)
        if self.is_late and not self._announced_unread:
            self._announced_unread = True
            self._on_problem(
                f"Stored chats cannot be listed or opened until {self._path} answers again. Chats "
                "of this session can."
            )
        return result

    def write(
        self, chat: str, query: Query[object], *, size: int = 0, deletes: bool = False
    ) -> Awaitable[bool]:
        """Queue a write at once; the result, whether it is on disk, is awaited separately.

        Args:
            chat: the chat's id.
            query: the write, which is retried with the next call if the disk refuses it.
            size: about how many bytes it writes.
            deletes: drop the waiting writes of the chat.
        """
        return self.written(self.queue(lambda file: file.write(chat, query, deletes=deletes), size))

    async def write_once(self, query: Query[object]) -> bool:
        """Write without a retry; return whether it is on disk."""
        return await self.written(self.queue(lambda file: file.write_once(query)))

    async def written(self, call: Call[bool]) -> bool:
        """Wait for a write, unless the disk is late already."""
        return await self._wait(call, self.limits.write, waits=not self.is_late) or False

    async def close(self) -> bool:
        """Finish writing; return whether everything is on disk.

        This takes at most `Limits.close` seconds, and cannot be cancelled. Later calls do nothing.
        """
        if self._closed:
            return True
        call: Call[bool] | None = None
        if self._has_called:
            deadline = time.monotonic() + self.limits.rewrite
            call = self.queue(lambda file: file.close(lambda: time.monotonic() > deadline))
        self._closed = True
        self._thread.leave()
        if call is None:
            return True
        with trio.CancelScope(shield=True, deadline=trio.current_time() + self.limits.close):
            await call.done.wait()
        return bool(call.result)

    async def _wait(
        self, call: Call[Result], seconds: float, *, waits: bool = True
    ) -> Result | None:
        """Wait for a call, longer if large writes are queued before it, not without a thread."""
        seconds += min(self._thread.queued_bytes / SLOW_DISK, MOST_LONGER)
        with trio.move_on_after(seconds if waits and self._thread.is_started else 0):
            await call.done.wait()
        if not call.done.is_set():
            if not self.is_late:
                self._on_time = trio.Event()
            if not self._announced_lateness:
                self._announced_lateness = True
                self._on_problem(
                    f"{self._path} does not answer: chats stay only in memory until it does."
                )
        return call.result

    def _note_answer(self) -> None:
        self._on_time.set()
        self._announced_unread = False
