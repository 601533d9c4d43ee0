"""Checks of the file of chats for damage that SQLite reads over.

Rule: such damage has the file set aside and salvaged, as damage that SQLite notices does, so that
nothing is lost in silence.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from eca_server.agent.chat.store.place import Damage

TABLES: Final = (
    "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
)
"""The query for the names and statements of our tables."""

_ROOTS_OF_TWO: Final = (
    "SELECT rootpage FROM sqlite_master WHERE rootpage > 0 GROUP BY rootpage HAVING count(*) > 1"
)

_CHECKS_A_TABLE: Final = (3, 33)

_HEADER: Final = 100  # bytes
_LAST_FORMAT: Final = 4  # of a schema, by SQLite's documentation of the file
_LAST_VERSION: Final = 1000
"""A larger version of our schema is damage; a smaller one may be that of a newer server."""


def code_of(fault: BaseException) -> int:
    """Return the primary result code of an error of SQLite, or 0 for a different error."""
    return int(getattr(fault, "sqlite_errorcode", 0)) & 0xFF


def is_damage(fault: BaseException) -> bool:
    """Return whether an error means that the file is damaged or is not a database."""
    if isinstance(fault, Damage | UnicodeDecodeError):  # SQLite's message may quote a damaged name
        return True
    return code_of(fault) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def check_header(path: Path) -> None:
    """Check the values of the file's header for which SQLite refuses only to write, or our version.

    Raises:
        OSError: the file cannot be read.
        Damage: one is damaged.
    """
    with path.open("rb") as file:
        header = file.read(_HEADER)
    if len(header) < _HEADER:
        return
    schema_format, version = (int.from_bytes(header[at : at + 4]) for at in (44, 60))
    if not {*header[18:20]} <= {1, 2} or schema_format > _LAST_FORMAT or version > _LAST_VERSION:
        raise Damage("the header is damaged")


def check_tables(connection: sqlite3.Connection, sound: sqlite3.Connection) -> None:
    """Compare the columns and indexes of each table with those of a sound file.

    A flipped letter of a name leaves a file that SQLite calls sound, and fails our statements.

    Raises:
        Damage: they differ.
    """
    for name, _ in sound.execute(TABLES).fetchall():
        if _columns_and_indexes(connection, name) != _columns_and_indexes(sound, name):
            raise Damage(f"the schema of the table {name} is damaged")
    if any(connection.execute(_ROOTS_OF_TWO)):
        raise Damage("two tables have the same pages")


def _columns_and_indexes(connection: sqlite3.Connection, table: str) -> tuple[object, object]:
    columns = connection.execute(
        'SELECT hex(lower(name)), "notnull", pk FROM pragma_table_info(?)', (table,)
    )
    indexes = connection.execute(
        'SELECT indexes."unique", columns.seqno, hex(lower(columns.name))'
        " FROM pragma_index_list(?) AS indexes, pragma_index_info(indexes.name) AS columns",
        (table,),
    )
    return columns.fetchall(), sorted(indexes.fetchall())


def check_ids(connection: sqlite3.Connection) -> None:
    """Compare the table of chats with its indexes: a flipped letter of an id hides a chat.

    SQLite reads such a file without an error. The table is small, so this is cheap.

    Raises:
        Damage: they differ.
    """
    if sqlite3.sqlite_version_info < _CHECKS_A_TABLE:
        return
    for (problem,) in connection.execute("PRAGMA integrity_check('chat')").fetchall():
        if "index" not in problem:  # rows with a value of a wrong type are read one by one
            continue
        raise Damage(f"the table of chats is damaged: {problem}")
