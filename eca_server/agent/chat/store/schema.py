"""The schema of the file of chats: brought up to date when the file is opened, and checked.

Rules: all changes are made in one transaction, so that a server killed in between leaves the older
file; a row with a value of a wrong type is repaired or left out, and causes no error; damage that
SQLite reads over has the file set aside and salvaged, as damage that SQLite notices does, so that
nothing is lost in silence.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import attrs

from eca_server.agent.chat.store.place import BUSY_SECONDS, RETRY_SECONDS, Damage, StoreFault

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

_STRICT_SQLITE: Final = (3, 37)  # knows STRICT tables; older versions cannot even open the file

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE chat (
            id TEXT NOT NULL PRIMARY KEY,
            workspace TEXT NOT NULL,
            title TEXT,
            created REAL NOT NULL,
            updated REAL NOT NULL
        )""",
        "CREATE INDEX chat_by_workspace ON chat (workspace, updated)",
        """CREATE TABLE message (
            chat TEXT NOT NULL,
            sequence INTEGER NOT NULL,
            id TEXT NOT NULL,
            body BLOB NOT NULL,
            PRIMARY KEY (chat, sequence),
            UNIQUE (chat, id)
        )""",
        """CREATE TABLE usage (
            number INTEGER PRIMARY KEY,
            chat TEXT NOT NULL,
            turn TEXT NOT NULL,
            tokens INTEGER NOT NULL,
            cost TEXT,
            UNIQUE (chat, turn)
        )""",
        """CREATE TABLE before_image (
            number INTEGER PRIMARY KEY,
            chat TEXT NOT NULL,
            content_id TEXT NOT NULL,
            path BLOB NOT NULL,
            existed INTEGER NOT NULL,
            data BLOB,
            UNIQUE (chat, content_id, path)
        )""",
        "CREATE TABLE rewrite_due (since REAL NOT NULL)",
    ),
    (
        "DROP TABLE before_image",  # no version has stored anything in it
        """CREATE TABLE before_image (
            number INTEGER PRIMARY KEY,
            chat TEXT NOT NULL,
            content_id TEXT NOT NULL,
            path BLOB NOT NULL,
            moved_from BLOB,
            existed INTEGER NOT NULL,
            mode INTEGER,
            data BLOB,
            after BLOB
        )""",
        "CREATE INDEX before_image_by_chat ON before_image (chat, number)",
    ),
    ("CREATE TABLE settings (chat TEXT NOT NULL PRIMARY KEY, body BLOB NOT NULL)",),
    (
        """CREATE TABLE rollback (
            chat TEXT NOT NULL PRIMARY KEY,
            cut TEXT,
            earlier INTEGER NOT NULL,
            kept TEXT,
            first_change INTEGER,
            undoes INTEGER NOT NULL
        )""",
        """CREATE TABLE undo_step (
            chat TEXT NOT NULL,
            position INTEGER NOT NULL,
            path BLOB NOT NULL,
            moved_to BLOB,
            present BLOB,
            change INTEGER,
            PRIMARY KEY (chat, position)
        )""",
    ),
    (
        "ALTER TABLE rollback ADD COLUMN last_message INTEGER",
        "ALTER TABLE rollback ADD COLUMN last_change INTEGER",
    ),
    (  # which turns run, under the id of each one's prompt, and their pieces
        """CREATE TABLE running_turn (
            chat TEXT NOT NULL,
            turn TEXT NOT NULL,
            owner TEXT NOT NULL,
            PRIMARY KEY (chat, turn)
        )""",
        """CREATE TABLE running_piece (
            chat TEXT NOT NULL,
            turn TEXT NOT NULL,
            message INTEGER NOT NULL,
            piece INTEGER NOT NULL,
            body BLOB NOT NULL,
            PRIMARY KEY (chat, turn, message, piece)
        )""",
    ),
    (),  # from here on all tables are STRICT, which `set_up` sees to
)
"""The steps from each version of the schema to the next; the file's version is their number."""

_NUMBER_MESSAGES: Final = (  # behind those whose numbers can be read
    "UPDATE message SET sequence ="
    " (SELECT coalesce(max(sequence), 0) FROM message AS other"
    "  WHERE other.chat = message.chat AND typeof(sequence) = 'integer')"
    " + (SELECT count(*) FROM message AS other WHERE other.chat = message.chat"
    "  AND typeof(sequence) <> 'integer' AND other.rowid <= message.rowid)"
    " WHERE typeof(sequence) <> 'integer'"
)


@attrs.frozen
class Column:
    """A column of a table; one that is the rowid itself has no value of its own."""

    name: str
    kind: str
    is_required: bool
    is_rowid: bool


def columns_of(connection: sqlite3.Connection, table: str) -> list[Column]:
    """Return the columns of a table in the order of its rows; none if there is no such table."""
    described = connection.execute(
        'SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (table,)
    ).fetchall()
    keys = sum(1 for *_, pk in described if pk)
    return [
        Column(name, kind, bool(not_null), is_rowid=kind == "INTEGER" and bool(pk) and keys == 1)
        for name, kind, not_null, pk in described
    ]


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


def set_up(connection: sqlite3.Connection) -> int:
    """Bring the schema up to date, and let SQLite write as the store expects it.

    Returns:
        The number of damaged values that were repaired or left out.

    Raises:
        StoreFault: the file needs a newer server, or a newer SQLite.
        sqlite3.Error: it is damaged, locked, or its disk refuses.
    """
    version = _version(connection)
    if version > len(MIGRATIONS):
        raise StoreFault(
            f"expected version {len(MIGRATIONS)} or older, got {version}: "
            "a newer server has written it. Restart or upgrade this one"
        )
    _look_at_schema(connection)
    _write_ahead(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA secure_delete = ON").fetchone()
    repaired = 0
    if version < len(MIGRATIONS):
        connection.execute("BEGIN IMMEDIATE")
        steps = MIGRATIONS[_version(connection) :]
        _run(connection, steps)
        if steps:
            repaired = _make_strict(connection)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
        connection.execute("PRAGMA writable_schema = RESET")
    with closing(sqlite3.connect(":memory:")) as sound:
        _run(sound, MIGRATIONS)
        check_tables(connection, sound)
    check_ids(connection)
    return repaired


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


def _run(connection: sqlite3.Connection, steps: Sequence[Sequence[str]]) -> None:
    """Run the statements of MIGRATIONS.

    Raises:
        Damage: the version of the file is damaged: it has these tables already.
    """
    try:
        for step in steps:
            for statement in step:
                connection.execute(statement)
    except sqlite3.OperationalError as fault:
        if "already exists" in str(fault) or "duplicate column" in str(fault):
            raise Damage(f"the version of the schema is damaged: {fault}") from fault
        raise


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
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as fault:
            if code_of(fault) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_SECONDS)
        else:
            return


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def decode_text(data: bytes) -> str:
    """Decode a text column; a damaged byte costs one character, not the query."""
    return data.decode(errors="replace")
