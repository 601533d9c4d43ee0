"""The open file of chats: its schema, its writes and its reads.

Rules: a row is added or deleted, never edited (except a chat's title, settings and time of the last
addition); related rows are written in one transaction; deleted text is overwritten, and the file is
rewritten when the store is idle, since SQLite leaves copies where it moved rows. After an exception
the database must be closed and opened again.

Everything here waits for the disk and for other processes: call it in a thread.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import attrs

from eca_server.chat.store.checks import check_header, code_of, compare_indexes, is_damage
from eca_server.chat.store.place import (
    BUSY_SECONDS,
    Presence,
    StoreFault,
    make_private_file,
    set_aside,
)
from eca_server.chat.store.rows import BeforeImage, BeforeImageBatch, ChatRow
from eca_server.chat.store.schema import MIGRATIONS, set_up

__all__ = [
    "UNKNOWN_WORKSPACE",
    "Database",
    "Statement",
    "decode_text",
    "set_damaged_aside",
]

UNKNOWN_WORKSPACE: Final = "unknown"
"""The key of a chat whose workspace was lost to damage; no workspace has this key."""

Statement: TypeAlias = tuple[str, Sequence[object]]
"""A statement of SQL, and its values."""

_CLEAR: Final = (
    "DELETE FROM message WHERE chat = ?",
    "DELETE FROM before_image WHERE chat = ?",
    "DELETE FROM rollback WHERE chat = ?",
    "DELETE FROM undo_step WHERE chat = ?",
    "DELETE FROM running_turn WHERE chat = ?",
    "DELETE FROM running_piece WHERE chat = ?",
)
_DELETE: Final = (
    *_CLEAR,
    "DELETE FROM usage WHERE chat = ?",
    "DELETE FROM settings WHERE chat = ?",
    "DELETE FROM chat WHERE id = ?",
)
_ADD_IMAGE: Final = (
    "INSERT INTO before_image (chat, content_id, path, moved_from, existed, mode, data, after)"
    " VALUES (:chat, :content_id, :path, :moved_from, :existed, :mode, :data, :after)"
)
_LAST_SEQUENCE: Final = 2**53
"""A larger number of a message is damage; SQLite sorts texts and bytes above any number, too."""

_NUMBER_AGAIN: Final = (  # one at a time: the first whose number is damaged, behind the others
    "UPDATE message SET sequence = (SELECT coalesce(max(sequence), 0) + 1 FROM message"
    " WHERE chat = ?1 AND sequence <= ?2)"
    " WHERE rowid = (SELECT rowid FROM message WHERE chat = ?1 AND sequence > ?2"
    " ORDER BY sequence LIMIT 1)"
)
_PATHS: Final = ("path", "moved_from")
_LAST_WORKSPACE: Final = "\U0010ffff"  # sorts behind every key
_LARGEST = 2**63 - 1
_PACE = 1000  # steps of SQLite's machine between two looks at whether a rewrite should end


@attrs.frozen(kw_only=True)
class LoadedRows:
    """The rows of a chat.

    Attributes:
        chat: the chat; None: there is none with this id.
        messages: id and body of each, in order.
        usages: the usage of each turn: tokens, and dollars as text.
        settings: the body of the settings, if there are any.
        last: the number of the last message.
    """

    chat: ChatRow | None
    messages: list[tuple[str, bytes]]
    usages: list[tuple[int, str | None]]
    settings: bytes | None
    last: int


@attrs.frozen
class ListedRow:
    """A chat in a list.

    Attributes:
        chat: the chat.
        first: the body of its first message, if the chat has no title.
        settings: the body of the settings, if there are any.
        messages: the number of its messages.
    """

    chat: ChatRow
    first: bytes | None
    settings: bytes | None
    messages: int


class Database:
    """A connection to the file; its errors are `sqlite3.Error`.

    Attributes:
        rewrite_is_due: something was deleted since the file was last rewritten.
        log_is_due: something is in the log that may not be in the file itself.
        repaired: the number of damaged values that were repaired or left out when the schema was
            brought up to date.
    """

    def __init__(self, path: Path, *, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
        """Open or make the file, and bring its schema up to date.

        Raises:
            OSError: it cannot be made or opened.
            StoreFault: it has a newer version, or is not a file.
            sqlite3.Error: it is damaged, locked, or its disk refuses.
        """
        make_private_file(path)
        self._presence = Presence(path)
        try:
            check_header(path)
            self._connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
            self._connection.text_factory = decode_text
            try:
                self.repaired = set_up(self._connection, migrations)
                due = self._connection.execute("SELECT count(*) FROM rewrite_due").fetchone()
            except BaseException:
                self._connection.close()
                raise
        except BaseException:
            self._presence.leave()
            raise
        self.rewrite_is_due = bool(due[0])
        self.log_is_due = True  # entries of a killed server, or of our own first writes

    def append(
        self,
        row: ChatRow,
        messages: Sequence[tuple[str, bytes]],
        *,
        turn: str,
        usage: tuple[int, str | None] | None,
        settings: bytes | None = None,
        also: Callable[[Callable[..., sqlite3.Cursor]], None] = lambda _: None,
    ) -> tuple[int, int]:
        """Add messages to a chat, which is made if there is none.

        Args:
            row: the chat; for an existing one only `updated` and a title are used.
            messages: id and body of each; a message with an existing id is left out.
            turn: an id of the turn, so that its usage is counted once.
            usage: tokens, and dollars as text.
            settings: the chat's new settings; None: keep them.
            also: called in the same transaction with a function that executes statements.

        Returns:
            The number of the chat's last message before and after.
        """
        with self.writing() as execute:
            before = self._last(row.id)
            while execute(_NUMBER_AGAIN, (row.id, _LAST_SEQUENCE)).rowcount:
                before = self._last(row.id)
            updated = execute(
                "UPDATE chat SET updated = ?, title = coalesce(?, title) WHERE id = ?",
                (row.updated, row.title, row.id),
            )
            if not updated.rowcount:
                execute("INSERT INTO chat VALUES (?, ?, ?, ?, ?)", attrs.astuple(row))
            for sequence, (message_id, body) in enumerate(messages, before + 1):
                execute(
                    "INSERT OR IGNORE INTO message VALUES (?, ?, ?, ?)",
                    (row.id, sequence, message_id, body),
                )
            if usage is not None:
                tokens, cost = usage
                execute(
                    "INSERT OR IGNORE INTO usage (chat, turn, tokens, cost) VALUES (?, ?, ?, ?)",
                    (row.id, turn, min(tokens, _LARGEST), cost),
                )
            if settings is not None:
                execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (row.id, settings))
            also(execute)
            return before, self._last(row.id)

    def load(self, chat: str) -> LoadedRows:
        """Return all rows of a chat, from one transaction."""
        execute = self._connection.execute
        execute("BEGIN")
        row = execute("SELECT * FROM chat WHERE id = ?", (chat,)).fetchone()
        messages = execute(
            "SELECT id, body FROM message WHERE chat = ? ORDER BY sequence", (chat,)
        ).fetchall()
        usages = execute(
            "SELECT tokens, cost FROM usage WHERE chat = ? ORDER BY number", (chat,)
        ).fetchall()
        settings = execute("SELECT body FROM settings WHERE chat = ?", (chat,)).fetchone()
        last = self._last(chat)
        compare_indexes(self._connection, chat, len(messages))
        execute("COMMIT")
        return LoadedRows(
            chat=ChatRow(*row) if row else None,
            messages=messages,
            usages=usages,
            settings=settings[0] if settings else None,
            last=last,
        )

    def latest(
        self, workspace: str | None, limit: int, *, by: Literal["updated", "created"] = "updated"
    ) -> Iterator[ListedRow]:
        """Yield the latest chats of a workspace (None: of all) that have messages, in any order.

        Only the needed messages are read, since a message may have megabytes. A chat whose
        workspace was lost to damage is listed in every workspace.
        """
        last = _LAST_WORKSPACE if workspace is None else workspace
        rows = self._connection.execute(
            "SELECT chat.*, CASE WHEN chat.title IS NULL THEN message.body END, settings.body,"
            " (SELECT count(*) FROM message WHERE message.chat = chat.id)"
            " FROM (SELECT chat.* FROM chat"
            "  WHERE (workspace BETWEEN ? AND ? OR workspace = ?)"
            "  AND EXISTS (SELECT 1 FROM message WHERE message.chat = chat.id)"
            "  ORDER BY CASE ? WHEN 'created' THEN created ELSE updated END DESC LIMIT ?) AS chat"
            " JOIN message ON message.chat = chat.id AND message.sequence ="
            "  (SELECT min(sequence) FROM message WHERE message.chat = chat.id)"
            " LEFT JOIN settings ON settings.chat = chat.id",
            (workspace or "", last, UNKNOWN_WORKSPACE, by, limit),
        )
        return (ListedRow(ChatRow(*columns[:5]), *columns[5:]) for columns in rows)

    def clear(self, chat: str, *, title: str | None, settings: bytes | None) -> None:
        """Delete the messages of a chat, and set its title and its settings.

        If `settings` is None, the title and the settings are kept.
        """
        changes: list[Statement] = [
            ("UPDATE chat SET title = ? WHERE id = ?", (title, chat)),
            (
                "INSERT OR REPLACE INTO settings SELECT id, ? FROM chat WHERE id = ?",
                (settings, chat),
            ),
        ]
        self.erase(
            [(statement, (chat,)) for statement in _CLEAR], () if settings is None else changes
        )

    def delete(self, chat: str) -> None:
        """Delete everything of a chat."""
        self.erase([(statement, (chat,)) for statement in _DELETE])

    def erase(self, deletions: Sequence[Statement], changes: Sequence[Statement] = ()) -> None:
        """Delete rows without a trace and change others, in one transaction."""
        with self.writing() as execute:
            deleted = sum(execute(*statement).rowcount for statement in deletions)
            for statement in changes:
                execute(*statement)
            if deleted:
                execute("INSERT INTO rewrite_due VALUES (?)", (time.time(),))
        if deleted:
            self.rewrite_is_due = True
            self.empty_log()

    def add_before_images(self, chat: str, images: Sequence[BeforeImage]) -> tuple[int, ...]:
        """Store before-images; return their numbers."""
        numbers = []
        with self.writing() as execute:
            for image in images:
                row = attrs.asdict(image)
                for name in _PATHS:
                    row[name] = None if row[name] is None else os.fsencode(row[name])
                numbers.append(execute(_ADD_IMAGE, {"chat": chat, **row}).lastrowid or 0)
        return tuple(numbers)

    def remove_before_images(self, batch: BeforeImageBatch) -> None:
        """Delete the before-images of changes that were not made."""
        with self.writing() as execute:
            for number, path in zip(batch.numbers or (), batch.paths, strict=False):
                execute(
                    "DELETE FROM before_image WHERE number = ? AND chat = ? AND path = ?",
                    (number, batch.chat, os.fsencode(path)),
                )

    def before_images(self, chat: str) -> Sequence[BeforeImage]:
        """Return the before-images of a chat, in the order of the changes."""
        rows = self._connection.execute(
            "SELECT content_id, path, moved_from, existed, mode, data, after"
            " FROM before_image WHERE chat = ? ORDER BY number",
            (chat,),
        )
        return [
            BeforeImage(
                content_id=content_id,
                path=os.fsdecode(path),
                moved_from=None if moved_from is None else os.fsdecode(moved_from),
                existed=bool(existed),
                mode=mode,
                data=data,
                after=after,
            )
            for content_id, path, moved_from, existed, mode, data, after in rows.fetchall()
        ]

    def rewrite(self, should_end: Callable[[], bool]) -> None:
        """Rewrite the file without deleted data; give up if `should_end` returns true."""
        self._connection.set_progress_handler(should_end, _PACE)
        try:
            self._connection.execute("VACUUM")
        except sqlite3.OperationalError as fault:
            if code_of(fault) == sqlite3.SQLITE_INTERRUPT:
                return
            raise
        finally:
            self._connection.set_progress_handler(None, _PACE)
        self.empty_log()
        self._connection.execute("DELETE FROM rewrite_due")
        self.log_is_due = True
        self.rewrite_is_due = False

    def close(self) -> None:
        """Close the file."""
        try:
            self._connection.close()
        finally:
            self._presence.leave()

    def _last(self, chat: str) -> int:
        cursor = self._connection.execute(
            "SELECT coalesce(max(sequence), 0) FROM message WHERE chat = ? AND sequence <= ?",
            (chat, _LAST_SEQUENCE),
        )
        return int(cursor.fetchone()[0])

    def empty_log(self, *, waits: bool = True) -> None:
        """Write the log's contents to the file itself, and sync it.

        If another server is reading or writing, the log stays due.

        Args:
            waits: wait a while for other servers.
        """
        if not waits:
            self._connection.execute("PRAGMA busy_timeout = 0").fetchone()
        try:
            [(is_busy, _, _)] = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            if not waits:
                milliseconds = round(BUSY_SECONDS * 1000)
                self._connection.execute(f"PRAGMA busy_timeout = {milliseconds}").fetchone()
        self.log_is_due = bool(is_busy)

    def read(self, query: str, values: Sequence[object]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query; each may have megabytes."""
        return self._connection.execute(query, values)

    @contextmanager
    def writing(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """Run the block in a transaction that may write."""
        self._connection.execute("BEGIN IMMEDIATE")
        self.log_is_due = True
        yield self._connection.execute
        self._connection.execute("COMMIT")


def set_damaged_aside(path: Path) -> Path | None:
    """Rename the file if it is damaged; return the new path or None.

    Raises:
        OSError: it cannot be renamed.
        StoreFault: it is damaged, and another process has it open.
        sqlite3.Error: it cannot be examined.
    """
    presence = Presence(path)
    try:
        if not presence.is_alone():
            raise StoreFault("it is damaged, and another server still has it open")
        return None if _is_sound(path) else set_aside(path)
    finally:
        presence.leave()


def _is_sound(path: Path) -> bool:
    try:
        check_header(path)
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            is_sound: bool = connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",)
            if is_sound:
                set_up(connection, MIGRATIONS)
            return is_sound
    except (sqlite3.DatabaseError, UnicodeDecodeError) as fault:
        if is_damage(fault):
            return False
        raise


def decode_text(data: bytes) -> str:
    """Decode a text column; a damaged byte costs one character, not the query."""
    return data.decode(errors="replace")
