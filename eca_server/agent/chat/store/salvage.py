"""Salvage: the readable rows of a damaged file of chats are copied into the new file.

Rules: the damaged file is not changed, since all work is done on a copy; a salvage that is killed
starts again when the store is next opened, and copies nothing twice; it is limited in time, by the
size of the file; an unreadable row costs only itself.

Three methods are tried until one finds messages: SQLite's own program, SQLite's library reading
around the damage, and a scan of the pages for rows (see `scan`).
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import attrs

from eca_server.agent.chat.store.place import (
    SALVAGE_SUFFIX,
    UNKNOWN_WORKSPACE,
    Presence,
    StoreFault,
)
from eca_server.agent.chat.store.scan import scan
from eca_server.agent.chat.store.schema import (
    TABLES,
    columns_of,
    decode_text,
    is_damage,
    set_up,
)
from eca_server.workspace.errors import reason_of

SECONDS = 20.0
"""Seconds of work on one damaged file, if it is not large."""

PACE = 16 * 2**20
"""Bytes of a large file for each second of work on it."""

PROGRAMS: Final = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin"
"""The search path of the program `sqlite3`: no directory of a workspace."""

_FURTHEST: Final = 2**40
_STEPS = 1000  # steps of SQLite's machine between two looks at the clock
_WORK: Final = "work"
_LOCK: Final = f"{_WORK}.lock"
_WRONG_LETTERS: Final = 3
"""The largest number of damaged characters in a statement that is still known for ours."""

_COPIED_TABLES: Final = ("usage", "settings", "before_image")
"""The tables that are copied as they are, besides those of the chats and their messages."""


@attrs.define
class _Result:
    """The result of a salvage; `is_unfinished`: the next server that starts tries again."""

    chats: int = 0
    messages: int = 0
    trouble: str = ""
    is_unfinished: bool = False

    def __str__(self) -> str:
        words = f"{self.chats} chats with {self.messages} messages were recovered"
        if not self.messages:
            words = "Nothing could be recovered"
        return f"{words} ({self.trouble})." if self.trouble else f"{words}."


def salvage_all(target: sqlite3.Connection, path: Path) -> Iterator[str]:
    """Salvage the files that were set aside and not salvaged yet.

    Yields:
        A sentence for the user about each.
    """
    for place in sorted(path.parent.glob(f"{path.name}.corrupt-*{SALVAGE_SUFFIX}")):
        aside = place.with_name(place.name.removesuffix(SALVAGE_SUFFIX))
        if not aside.exists():  # it was never set aside, or the user has removed it
            shutil.rmtree(place, ignore_errors=True)
            continue
        try:
            presence = Presence(place / _WORK)
        except (OSError, StoreFault):  # another server salvages it
            continue
        with closing(presence):
            if not presence.is_alone():
                continue
            result = _salvage(aside, place, target)
            if not result.is_unfinished:
                shutil.rmtree(place, ignore_errors=True)
        if not result.is_unfinished:
            shutil.rmtree(place, ignore_errors=True)  # some systems remove no open file
        yield (
            f"The file of chats {path} was damaged. It was renamed to {aside.name}, and a new file "
            "was made. "
            f"{result}"
        )


def _salvage(aside: Path, place: Path, target: sqlite3.Connection) -> _Result:
    result = _Result()
    copy, recovered, scanned = (place / name for name in ("copy", "recovered", "scanned"))
    try:
        deadline = time.monotonic() + max(SECONDS, aside.stat().st_size / PACE)
        for file in place.iterdir():  # what a server that was killed has left
            if file.name != _LOCK:
                file.unlink()
        shutil.copyfile(aside, copy)
        with suppress(FileNotFoundError):
            shutil.copyfile(f"{aside}-wal", f"{copy}-wal")
        if _recover(copy, recovered, deadline):
            _copy_rows(recovered, target, deadline, result)
        if not result.messages:
            _copy_rows(copy, target, deadline, result)
        if not result.messages:
            tables = ("chat", "message", *_COPIED_TABLES)
            scan(copy, scanned, deadline, {name: columns_of(target, name) for name in tables})
            _copy_rows(scanned, target, deadline, result)
        if time.monotonic() >= deadline:
            result.trouble = "the time limit was reached"
    except OSError as fault:
        result.trouble, result.is_unfinished = reason_of(fault), True
    return result


def _copy_rows(source: Path, target: sqlite3.Connection, deadline: float, result: _Result) -> None:
    """Copy the rows of a file: chats with their messages, then each other table, at once.

    Raises:
        sqlite3.Error: the new file cannot be written.
    """
    with closing(sqlite3.connect(source, isolation_level=None)) as connection:
        connection.text_factory = decode_text
        with suppress(sqlite3.Error, UnicodeDecodeError):
            _repair_schema(connection)
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        target.execute("BEGIN IMMEDIATE")
        columns = _columns(connection, target, "chat")
        for row in _rows(connection, "chat", columns, deadline):
            _insert(target, "chat", columns, row)
        _copy_messages(connection, target, deadline, result)
        target.execute("COMMIT")
        for table in _COPIED_TABLES:
            columns = _columns(connection, target, table)
            target.execute("BEGIN IMMEDIATE")  # chats that have rows were salvaged before
            query = f"SELECT id FROM chat EXCEPT SELECT chat FROM {table}"  # noqa: S608
            chats = {chat for (chat,) in target.execute(query)}
            for row in _rows(connection, table, columns, deadline):
                if row[0] in chats:
                    _insert(target, table, columns, row)
            target.execute("COMMIT")


def _columns(source: sqlite3.Connection, target: sqlite3.Connection, table: str) -> str:
    """Return the names of a table's columns, without later ones that an older file lacks."""
    count = 0
    with suppress(sqlite3.DatabaseError):
        count = len(columns_of(source, table))
    ours = columns_of(target, table)
    return ", ".join(each.name for each in ours[: count or len(ours)] if not each.is_rowid)


def _copy_messages(
    connection: sqlite3.Connection, target: sqlite3.Connection, deadline: float, result: _Result
) -> None:
    """Copy the messages of each chat, and put them before those of the new file.

    A chat whose own row is lost is listed in every workspace.
    """
    columns = _columns(connection, target, "message")
    places_by_chat: dict[str, list[tuple[bool, int, int]]] = defaultdict(list)
    for count, (chat, sequence, *row) in enumerate(_rows(connection, "message", columns, deadline)):
        rowid = _insert(target, "message", columns, (chat, count - 2 * _FURTHEST, *row))
        if rowid is not None:
            is_placed = isinstance(sequence, int)
            places_by_chat[chat].append((not is_placed, sequence if is_placed else 0, rowid))
    for chat, places in places_by_chat.items():
        query = "SELECT min(sequence) FROM message WHERE chat = ? AND sequence > ?"
        [(first,)] = target.execute(query, (chat, -_FURTHEST))
        start = 1 if first is None else first - len(places)
        for sequence, (*_, rowid) in enumerate(sorted(places), start):
            target.execute("UPDATE message SET sequence = ? WHERE rowid = ?", (sequence, rowid))
    target.execute(
        "INSERT OR IGNORE INTO chat (id, workspace, created, updated)"
        " SELECT DISTINCT chat, ?, 0.0, 0.0 FROM message",
        (UNKNOWN_WORKSPACE,),
    )
    result.chats += len(places_by_chat)
    result.messages += sum(map(len, places_by_chat.values()))


def _insert(target: sqlite3.Connection, table: str, columns: str, row: Sequence[Any]) -> int | None:
    """Insert a row, unless it is there or has a value of a wrong type; return its rowid."""
    marks = ", ".join("?" for _ in row)
    with suppress(sqlite3.IntegrityError):
        statement = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608
        cursor = target.execute(statement, row)
        return cursor.lastrowid if cursor.rowcount else None
    return None


def _repair_schema(connection: sqlite3.Connection) -> None:
    """Write the statements of tables anew where a few of their characters are damaged.

    Raises:
        sqlite3.Error: the schema cannot be read, or SQLite protects it.
    """
    with closing(sqlite3.connect(":memory:")) as empty:
        set_up(empty)
        tables = empty.execute(TABLES).fetchall()
    connection.execute("PRAGMA writable_schema = ON")  # passes over what it cannot parse
    for rowid, text in connection.execute("SELECT rowid, sql FROM sqlite_master").fetchall():
        for name, statement in tables:
            if 0 < _differences(str(text), statement) <= _WRONG_LETTERS:
                connection.execute(
                    "UPDATE sqlite_master SET type = 'table', name = ?, tbl_name = ?, sql = ?"
                    " WHERE rowid = ?",
                    (name, name, statement, rowid),
                )
    connection.execute("PRAGMA writable_schema = RESET")
    connection.execute("PRAGMA writable_schema = ON")


def _differences(one: str, other: str) -> int:
    if len(one) != len(other):
        return max(len(one), len(other))
    return sum(a != b for a, b in zip(one, other, strict=True))


def _rows(
    connection: sqlite3.Connection, table: str, columns: str, deadline: float
) -> Iterator[tuple[Any, ...]]:
    """Read the columns of a table while there is time; step over what cannot be read."""
    query = (
        f"SELECT {columns}, rowid FROM {table} NOT INDEXED"  # noqa: S608
        " WHERE rowid >= ? ORDER BY rowid"
    )

    def first(start: int) -> list[tuple[Any, ...]] | None:
        """Return the first row from there on, if there is one; None: it cannot be read."""
        try:
            return connection.execute(f"{query} LIMIT 1", (start,)).fetchall()
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            return None

    start = 1
    while time.monotonic() < deadline:
        try:
            for *row, rowid in connection.execute(query, (start,)):
                start = rowid + 1
                yield tuple(row)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as fault:
            if not is_damage(fault):  # no such table, or no time
                return
        else:
            return
        for *row, rowid in first(start) or ():  # the module drops the last row before an error
            start = rowid + 1
            yield tuple(row)
        bad, step = start, 1
        while first(bad + step) is None:
            step *= 2
            if step > _FURTHEST:
                return
        start = bad + step
        while start - bad > 1:
            middle = (bad + start) // 2
            bad, start = (middle, start) if first(middle) is None else (bad, middle)


def _recover(copy: Path, recovered: Path, deadline: float) -> bool:
    """Let SQLite's own program, if there is one, recover the file; return whether it did."""
    program = shutil.which("sqlite3", path=PROGRAMS)
    if program is None:
        return False
    command = [program, "-batch", "-init", os.devnull, str(copy.resolve())]
    with subprocess.Popen(
        [*command, ".recover --ignore-freelist"],  # what was deleted stays deleted
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        timer = threading.Timer(max(0.0, deadline - time.monotonic()) / 2, process.kill)
        timer.start()
        try:
            with closing(sqlite3.connect(recovered, isolation_level=None)) as connection:
                statement = ""
                for line in process.stdout:
                    statement += line.decode(errors="replace")
                    if sqlite3.complete_statement(statement):
                        with suppress(sqlite3.Error, sqlite3.Warning):
                            connection.execute(statement)
                        statement = ""
        finally:
            timer.cancel()
            process.kill()
    return process.returncode == 0
