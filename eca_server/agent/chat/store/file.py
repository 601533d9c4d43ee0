"""The file of chats for the store's thread: opened when needed, written in order, salvaged.

Rules: writes take effect in the order of the calls, so that a chat has no gap; a failed write stays
queued and is retried; deleted data is removed completely, also from the queue, and the file is
rewritten when the store is idle (see `tidy`), since SQLite leaves copies where it moved rows; an
error is reported once and never raised, and after it the file is closed and opened again, as it is
when it was removed or replaced.

Everything here waits for the disk and for other processes.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from eca_server.agent.chat.store.place import (
    BUSY_SECONDS,
    Damage,
    Presence,
    StoreFault,
    make_private_file,
    remove_log,
    set_aside,
)
from eca_server.agent.chat.store.salvage import salvage_all
from eca_server.agent.chat.store.schema import check_header, code_of, decode_text, is_damage, set_up
from eca_server.agent.chat.store.view import ServerView
from eca_server.agent.chat.store.wal import repair_log
from eca_server.workspace.errors import reason_of

_log = logging.getLogger("eca_server.agent.chat.store")

_PACE = 1000  # steps of SQLite's machine between two looks at whether a rewrite should end

SMALL_FILE = 32 * 2**20
"""Bytes in use of the largest file that is rewritten beside other servers, or at the end."""

IDLE_PACE = 4 * 2**20
"""Bytes in use of a larger file, for each second without a call that its rewrite waits for."""

EPISODE_SECONDS = 600.0
"""The time without an error of the disk after which the next one is reported to the user again."""

LARGE_BODY = 2**20
"""The size in bytes above which the body of a message is written in parts of this size."""

_ADD = "INSERT INTO message VALUES (?, ?, ?, ?) ON CONFLICT (chat, id) DO NOTHING"
_ADD_IN_PARTS = (
    "INSERT INTO message VALUES (?, ?, ?, zeroblob(?)) ON CONFLICT (chat, id) DO NOTHING"
)

Result = TypeVar("Result")


class ChatFile:
    """The chats of one user, on disk or queued for it, for the servers of a process.

    Attributes:
        view: the view of the server for which the current work is done; see `serve`.
        rewrite_is_due: something was deleted since the open file was last rewritten.
        log_is_due: data may be only in the log, where a damaged byte loses all that follows it.
    """

    def __init__(self, path: Path) -> None:
        """Open nothing yet."""
        self.path = path
        self._log_path = Path(f"{path}-wal")
        self.view = ServerView(_log.warning)
        self.rewrite_is_due = self.log_is_due = False
        self._views: set[ServerView] = set()
        self._logged_reason: str | None = None
        self._presence: Presence | None = None
        self._connection: sqlite3.Connection | None = None
        self._opened: os.stat_result | None = None
        self._opened_log: os.stat_result | None = None
        self._unwritten: deque[tuple[ServerView, str, Callable[[ChatFile], object]]] = deque()
        self._deleted = 0
        self._may_salvage = True

    def serve(self, view: ServerView) -> ChatFile:
        """Work for this server from now on; return this file."""
        self.view = view
        self._views.add(view)
        return self

    @property
    def is_behind(self) -> bool:
        """True if writes wait for the disk."""
        return bool(self._unwritten)

    def read(self, query: Callable[[ChatFile], Result]) -> Result | None:
        """Run a query after the waiting writes; return None if the file cannot be read."""
        self._flush()
        return self._try(partial(query, self))

    def write(
        self, chat: str, query: Callable[[ChatFile], object], *, deletes: bool = False
    ) -> bool:
        """Run a query in a transaction, or queue it; return whether everything is on disk.

        `deletes`: drop the waiting writes of the chat.
        """
        if deletes:
            self._unwritten = deque(each for each in self._unwritten if each[1] != chat)
        self._unwritten.append((self.view, chat, query))
        return self._flush()

    def write_once(self, query: Callable[[ChatFile], object]) -> bool:
        """Run a query in a transaction after the waiting writes; do not retry it later."""
        return self._flush() and self._try(partial(self.transact, query)) is True

    def execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Execute a statement with values for its `?`, or for `?1`, `?2`, inside a query."""
        assert self._connection is not None
        if "?1" in statement:  # Python 3.12.0 to 3.12.3 warn about a sequence here
            numbered = {str(number): value for number, value in enumerate(values, 1)}
            return self._connection.execute(statement, numbered)
        return self._connection.execute(statement, values)

    def transact(self, query: Callable[[ChatFile], object]) -> bool:
        """Run a query in a transaction, inside one that reads."""
        last, self._deleted = dict(self.view.last), 0
        try:
            self.execute("BEGIN IMMEDIATE")
            self.log_is_due = True
            query(self)
            if self._deleted:
                self.execute("INSERT INTO rewrite_due VALUES (?)", (time.time(),))
            self.execute("COMMIT")
        except BaseException:
            self.view.last = last
            raise
        if self._deleted:
            self.rewrite_is_due = True
            self._checkpoint()
        return True

    def add_message(self, chat: str, sequence: int, name: str, body: bytes) -> None:
        """Add a message inside a query that writes; leave it out if its id exists.

        Raises:
            Damage: its place is taken, though an index says that it is free.
        """
        is_large = len(body) > LARGE_BODY
        statement = _ADD_IN_PARTS if is_large else _ADD
        values = (chat, sequence, name, len(body) if is_large else body)
        try:
            row = self.execute(statement, values)
        except sqlite3.IntegrityError as fault:
            raise Damage(f"message {sequence} of {chat} is not where an index says") from fault
        if is_large and row.rowcount:
            _fill(row, body)

    def erase(self, statement: str, values: Sequence[object]) -> None:
        """Delete rows without a trace, inside a query that writes."""
        self._deleted += self.execute(statement, values).rowcount

    def tidy(self, should_end: Callable[[], bool], *, idle_seconds: float = 0.0) -> None:
        """Rewrite the file if that is due; give up when `should_end` returns true.

        No server can write meanwhile, and SQLite cannot give up in the second half. A large file
        is therefore rewritten after a long idle time, while no other server has it open.
        """
        if self.rewrite_is_due:
            self._maintain(lambda: self._rewrite(should_end, idle_seconds))

    def empty_log(self) -> None:
        """Write the log's contents to the file itself, unless another server prevents it."""
        if self.log_is_due:
            self._maintain(lambda: self._checkpoint(seconds=0))

    def close(self, should_end: Callable[[], bool]) -> bool:
        """Finish writing, tidy, and end a server's use of the file; the last one closes it.

        Returns:
            True if everything of this server is on disk.
        """
        self._flush()
        self.tidy(should_end)
        if self._views <= {self.view}:
            self._drop()
        self.view.leave()
        self._views.discard(self.view)
        return all(view is not self.view for view, _, _ in self._unwritten)

    def _flush(self) -> bool:
        current = self.view
        while self._unwritten:
            self.view, chat, query = self._unwritten[0]
            try:
                self._attempt(partial(self.transact, query))
            except Exception as fault:  # noqa: BLE001 - one bad write must not hold up the others
                if _is_of_the_disk(fault):
                    self.view = current
                    self._report(fault)
                    return False
                _log.error("chat %s cannot be stored", chat, exc_info=fault)
                self.view.report_once(
                    f"A part of chat {chat} could not be stored: {type(fault).__name__}."
                )
            self._unwritten.popleft()
            if self.view not in self._views:  # it has ended
                self.view.leave()
        self.view = current
        return True

    def _try(self, action: Callable[[], Result]) -> Result | None:
        try:
            return self._attempt(action)
        except (OSError, StoreFault, sqlite3.Error) as fault:
            self._report(fault)
            return None

    def _attempt(self, action: Callable[[], Result]) -> Result:
        """Act on the open file; set a damaged file aside and salvage it into a new one."""
        try:
            return self._on_open_file(action)
        except Exception as fault:
            if code_of(fault) == sqlite3.SQLITE_ERROR:  # a newer server may have changed the tables
                return self._on_open_file(action)
            if not is_damage(fault):
                raise
        if _set_damaged_aside(self.path):
            for view in self._views:
                view.last.clear()
            self._may_salvage = True
        return self._on_open_file(action)

    def _on_open_file(self, action: Callable[[], Result]) -> Result:
        try:
            if self._connection is not None and not _leads_to(self.path, self._opened):
                self._leave_replaced()
            if self._connection is None:
                self._open()
            result = action()
        except BaseException:
            self._drop()
            raise
        self._logged_reason = None
        return result

    def _leave_replaced(self) -> None:
        """Leave a file that was removed or replaced; what follows is written to the new one."""
        is_own_log = _leads_to(self._log_path, self._opened_log)  # or that of a restored backup
        self._drop()
        if is_own_log:
            remove_log(self.path)
        for view in self._views:
            view.report_once(
                f"{self.path} was removed or replaced while it was in use: earlier messages of "
                "open chats are not in the new file."
            )
            view.last.clear()
            view.leave()

    def _open(self) -> None:
        for sentence in repair_log(self.path):
            self.view.report_once(sentence)
        make_private_file(self.path)
        self._presence = Presence(self.path)
        check_header(self.path)
        self._connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
        self._connection.text_factory = decode_text
        self._opened = self.path.stat()
        if repaired := set_up(self._connection):
            self.view.report_once(
                f"{self.path} had {repaired} damaged values, which were repaired or left out."
            )
        self.rewrite_is_due = any(self.execute("SELECT 1 FROM rewrite_due LIMIT 1"))
        with suppress(FileNotFoundError):
            self._opened_log = self._log_path.stat()
        self.log_is_due = True  # entries of a killed server, or of our own first writes
        if self._may_salvage:
            self._may_salvage = False  # once: it may take long
            for sentence in salvage_all(self._connection, self.path):
                self.view.report_once(sentence)

    def _drop(self) -> None:
        connection, presence = self._connection, self._presence
        self._connection = self._presence = self._opened_log = None
        self.rewrite_is_due = self.log_is_due = False
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()
        if presence is not None:
            presence.close()

    def _checkpoint(self, seconds: float = BUSY_SECONDS) -> None:
        """Write the log's contents to the file itself, and sync it.

        If another server is reading or writing for that long, the log stays due.
        """
        self.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}").fetchone()
        try:
            [(is_busy, _, _)] = self.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self.execute(f"PRAGMA busy_timeout = {round(BUSY_SECONDS * 1000)}").fetchone()
        self.log_is_due = bool(is_busy)

    def _rewrite(self, should_end: Callable[[], bool], idle_seconds: float) -> None:
        assert self._connection is not None
        assert self._presence is not None
        pages, free, page_size = (
            self.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        size = (pages - free) * page_size
        if size > SMALL_FILE and (
            idle_seconds < size / IDLE_PACE or not self._presence.is_alone_now()
        ):
            return
        self._connection.set_progress_handler(should_end, _PACE)
        try:
            self.execute("VACUUM")
        except sqlite3.OperationalError as fault:
            if code_of(fault) == sqlite3.SQLITE_INTERRUPT:
                return
            raise
        finally:
            self._connection.set_progress_handler(None, _PACE)
        self._checkpoint()
        self.execute("DELETE FROM rewrite_due")
        self.log_is_due = True
        self.rewrite_is_due = False

    def _maintain(self, action: Callable[[], None]) -> None:
        try:
            action()
        except (OSError, StoreFault, sqlite3.Error) as fault:
            self._drop()
            _log.warning("%s cannot be maintained: %s", self.path, fault)

    def _report(self, fault: BaseException) -> None:
        reason = reason_of(fault)
        place = (isinstance(fault, OSError) and fault.filename) or self.path
        if reason != self._logged_reason:  # each write tries again
            self._logged_reason = reason
            _log.warning("%s: %s", place, reason)
        is_new = time.monotonic() - self.view.last_error > EPISODE_SECONDS
        self.view.last_error = time.monotonic()
        if is_new:
            self.view.on_problem(
                f"Chats are not stored, and stay only in memory: {place}: {reason}."
            )


def _is_of_the_disk(fault: Exception) -> bool:
    """Return whether the same write may succeed later."""
    return (
        isinstance(fault, OSError | StoreFault | sqlite3.OperationalError)
        or type(fault) is sqlite3.DatabaseError
    )


def _set_damaged_aside(path: Path) -> bool:
    """Rename the file if it is damaged; return whether it was.

    Raises:
        OSError: it cannot be renamed.
        StoreFault: it is damaged, and another process has it open.
        sqlite3.Error: it cannot be examined.
    """
    with closing(Presence(path)) as presence:
        if not presence.is_alone():
            raise StoreFault("it is damaged, and another server still has it open")
        if _is_sound(path):
            return False
        set_aside(path)
        return True


def _is_sound(path: Path) -> bool:
    try:
        check_header(path)
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            is_sound: bool = connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",)
            if is_sound:
                set_up(connection)
            return is_sound
    except Exception as fault:
        if is_damage(fault):
            return False
        raise


def _fill(row: sqlite3.Cursor, body: bytes) -> None:
    """Write the body of a new message in parts: SQLite copies a value twice to insert it."""
    assert row.lastrowid is not None
    parts = memoryview(body)
    with row.connection.blobopen("message", "body", row.lastrowid) as blob:
        for start in range(0, len(parts), LARGE_BODY):
            blob.write(parts[start : start + LARGE_BODY])


def _leads_to(path: Path, opened: os.stat_result | None) -> bool:
    """Return whether a path leads to the open file; SQLite does not notice if it was replaced."""
    try:
        return opened is not None and os.path.samestat(opened, path.stat())
    except FileNotFoundError:
        return False
