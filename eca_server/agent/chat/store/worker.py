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
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import attrs
import trio

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
    """Work for the thread, and its result; `size`: about how many bytes it writes."""

    def __init__(self, work: Query[Result], size: int) -> None:
        self.work = work
        self.size = size
        self.done = trio.Event()
        self.result: Result | None = None


class Worker:
    """The thread of one file, and its queue.

    A cancelled call stops waiting; its work is still done.
    """

    def __init__(self, path: Path, on_problem: Callable[[str], None], limits: Limits) -> None:
        """Start nothing before the first call; `on_problem` is called with a sentence."""
        self.limits = limits
        self._path = path
        self._on_problem = on_problem
        self._calls: queue.SimpleQueue[Call[Any] | None] = queue.SimpleQueue()
        self._token: trio.lowlevel.TrioToken | None = None
        self._is_started = False
        self._queued_bytes = 0
        self._on_time = trio.Event()
        self._on_time.set()
        self._announced_lateness = False
        self._announced_unread = False
        self._closed = False

    @property
    def is_late(self) -> bool:
        """True if the disk did not answer in time."""
        return not self._on_time.is_set()

    def queue(self, work: Query[Result], size: int = 0) -> Call[Result]:
        """Queue work for the thread; after `close` it is done at once, without a result."""
        call = Call(work, size)
        if self._closed:
            call.done.set()
            return call
        self._queued_bytes += size
        self._calls.put(call)
        if not self._is_started:
            self._start()
        return call

    def _start(self) -> None:
        """Start the thread; if none can be started now, the next call tries again."""
        self._token = trio.lowlevel.current_trio_token()
        try:
            threading.Thread(target=self._serve, name="eca-chats", daemon=True).start()
        except RuntimeError as fault:
            _log.warning("%s: %s", self._path, fault)
        else:
            self._is_started = True

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
        if not self.is_late:
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
        if self._closed or self._token is None:
            self._closed = True
            return True
        deadline = time.monotonic() + self.limits.rewrite
        call = self.queue(lambda file: file.close(lambda: time.monotonic() > deadline))
        self._closed = True
        self._calls.put(None)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + self.limits.close):
            await call.done.wait()
        return bool(call.result)

    async def _wait(
        self, call: Call[Result], seconds: float, *, waits: bool = True
    ) -> Result | None:
        """Wait for a call, longer if large writes are queued before it."""
        seconds += min(self._queued_bytes / SLOW_DISK, MOST_LONGER)
        with trio.move_on_after(seconds if waits else 0):
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

    def _serve(self) -> None:
        """Run the thread: do the queued work."""
        try:
            make_file = self._import()
        except ImportError as fault:  # an interpreter may have been built without SQLite
            self._in_trio(
                self._on_problem, f"Chats are not stored, and stay only in memory: {fault}."
            )
            while (call := self._calls.get()) is not None:
                self._in_trio(self._finish, call, None)
            return
        file = make_file(self._path, lambda text: self._in_trio(self._on_problem, text))
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
            result = None
            try:
                result = call.work(file)
            except Exception:  # noqa: BLE001 - an internal error must not end the thread
                _log.exception("an internal error of the store")
            self._in_trio(self._finish, call, result)
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
                _log.warning("%s: %s", self._path, fault.strerror)
                time.sleep(self.limits.write)
            else:
                return ChatFile

    def _finish(self, call: Call[Result], result: Result) -> None:
        self._queued_bytes -= call.size
        self._on_time.set()
        self._announced_unread = False
        call.result = result
        call.done.set()

    def _in_trio(self, function: Callable[..., object], *arguments: object) -> None:
        assert self._token is not None
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function, *arguments)
