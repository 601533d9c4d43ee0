"""The schema of the file of chats, brought up to date when the file is opened.

Rules: all changes are made in one transaction, so that a server killed in between leaves the older
file; a row with a value of a wrong type is repaired or left out, and causes no error.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from eca_server.chat.store.place import BUSY_SECONDS, RETRY_SECONDS, StoreFault

__all__ = ["code_of", "compare_indexes", "set_up"]

_STRICT_SQLITE: Final = (3, 37)  # knows STRICT tables; older versions cannot even open the file

_CHECKS_A_TABLE: Final = (3, 33)

_NUMBER_MESSAGES: Final = (  # behind those whose numbers can be read
    "UPDATE message SET sequence ="
    " (SELECT coalesce(max(sequence), 0) FROM message AS other"
    "  WHERE other.chat = message.chat AND typeof(sequence) = 'integer')"
    " + (SELECT count(*) FROM message AS other WHERE other.chat = message.chat"
    "  AND typeof(sequence) <> 'integer' AND other.rowid <= message.rowid)"
    " WHERE typeof(sequence) <> 'integer'"
)


def set_up(connection: sqlite3.Connection, migrations: Sequence[Sequence[str]]) -> int:
    """Bring the schema up to date, and let SQLite write as the store expects it.

    Returns:
        The number of damaged values that were repaired or left out.

    Raises:
        StoreFault: the file needs a newer server, or a newer SQLite.
        sqlite3.Error: it is damaged, locked, or its disk refuses.
    """
    version = _version(connection)
    if version > len(migrations):
        raise StoreFault(
            f"expected version {len(migrations)} or older, got {version}: "
            "a newer server has written it"
        )
    _look_at_schema(connection)
    _write_ahead(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA secure_delete = ON").fetchone()
    repaired = 0
    if version < len(migrations):
        connection.execute("BEGIN IMMEDIATE")
        steps = migrations[_version(connection) :]
        for step in steps:
            for statement in step:
                connection.execute(statement)
        if steps:
            repaired = _make_strict(connection)
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
        connection.execute("PRAGMA writable_schema = RESET")
    _check_ids(connection)
    return repaired


def code_of(fault: BaseException) -> int:
    """Return the primary result code of an error of SQLite, or 0 for a different error."""
    return int(getattr(fault, "sqlite_errorcode", 0)) & 0xFF


def _look_at_schema(connection: sqlite3.Connection) -> None:
    """Read the schema.

    Raises:
        StoreFault: it may be a newer one than this SQLite can read; that is no damage.
    """
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as fault:
        if sqlite3.sqlite_version_info < _STRICT_SQLITE and code_of(fault) != sqlite3.SQLITE_NOTADB:
            raise StoreFault(
                f"expected SQLite 3.37 or newer, got {sqlite3.sqlite_version}: {fault}"
            ) from fault
        raise


def _check_ids(connection: sqlite3.Connection) -> None:
    """Compare the table of chats with its indexes: a flipped letter of an id hides a chat.

    SQLite reads such a file without an error. The table is small, so this is cheap.

    Raises:
        sqlite3.DatabaseError: they differ.
    """
    if sqlite3.sqlite_version_info < _CHECKS_A_TABLE:
        return
    for (problem,) in connection.execute("PRAGMA integrity_check('chat')").fetchall():
        if "index" not in problem:  # rows with a value of a wrong type are read one by one
            continue
        raise _damage(f"the table of chats is damaged: {problem}")


def compare_indexes(connection: sqlite3.Connection, chat: str, count: int) -> None:
    """Compare the number of a chat's messages by one index with that by the other.

    SQLite reads over a damaged index without an error.

    Raises:
        sqlite3.DatabaseError: they differ.
    """
    query = "SELECT count(*) FROM message INDEXED BY sqlite_autoindex_message_2 WHERE chat = ?"
    by_id = connection.execute(query, (chat,)).fetchone()[0]
    if by_id != count:
        raise _damage(f"one index has {count} messages of {chat}, the other {by_id}")


def _damage(text: str) -> sqlite3.DatabaseError:
    """Make an error like SQLite's own for a damaged file, for damage that SQLite reads over."""
    error = sqlite3.DatabaseError(text)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _make_strict(connection: sqlite3.Connection) -> int:
    """Make all tables STRICT in place, after repairing their rows; return the number of repairs.

    Rows of a STRICT table lie on disk as those of any other. So only the schema's text changes, as
    SQLite's documentation allows it ("Making Other Kinds Of Table Schema Changes"): a copy of the
    tables would need as much room again. Where SQLite forbids that, or is too old, they stay.
    """
    if sqlite3.sqlite_version_info < _STRICT_SQLITE:
        return 0
    tables = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    names = [name for name, sql in tables.fetchall() if _may_be_strict(sql)]
    repaired = 0
    if "message" in names:
        repaired += connection.execute(_NUMBER_MESSAGES).rowcount
    for name in names:
        repaired += _repair_types(connection, name)
    version = int(connection.execute("PRAGMA schema_version").fetchone()[0])
    connection.execute("PRAGMA writable_schema = ON")
    try:
        for name in names:
            connection.execute(
                "UPDATE sqlite_master SET sql = sql || ' STRICT' WHERE type = 'table' AND name = ?",
                (name,),
            )
    except sqlite3.OperationalError as fault:  # some systems' SQLite protects its schema
        if code_of(fault) != sqlite3.SQLITE_ERROR:
            raise
    else:
        connection.execute(f"PRAGMA schema_version = {version + 1}")
    return repaired


def _may_be_strict(sql: str) -> bool:
    """Return whether a table with this statement is not STRICT but can be."""
    with closing(sqlite3.connect(":memory:")) as empty:
        try:
            empty.execute(f"{sql} STRICT")
        except sqlite3.Error:
            return False
    return True


def _repair_types(connection: sqlite3.Connection, table: str) -> int:
    """Cast values of a wrong type, or delete their rows; return how many."""
    repaired = 0
    for _, column, kind, not_null, _, _ in connection.execute(f"PRAGMA table_info({table})"):
        accepted = f"'{kind.lower()}'" if not_null else f"'{kind.lower()}', 'null'"
        wrong = f"typeof({column}) NOT IN ({accepted})"
        for statement in (
            f"UPDATE OR IGNORE {table} SET {column} = CAST({column} AS {kind}) WHERE {wrong}",  # noqa: S608
            f"DELETE FROM {table} WHERE {wrong}",  # noqa: S608
        ):
            repaired += connection.execute(statement).rowcount
    return repaired


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Use a write-ahead log; retry, since SQLite does not wait when it changes to one."""
    ending = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as fault:
            if code_of(fault) != sqlite3.SQLITE_BUSY or time.monotonic() > ending:
                raise
            time.sleep(RETRY_SECONDS)
        else:
            return


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
