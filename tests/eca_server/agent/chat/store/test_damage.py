"""A damaged byte or row costs itself, and is named; the other chats stay."""

import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest

from eca_server.agent.chat.store import schema
from eca_server.agent.chat.store.rows import TurnUsage
from tests.eca_server.agent.chat.store.keeping import (
    WORKSPACE,
    messages_of,
    opened,
    rows,
    set_aside,
    texts_of,
)

UNTYPED = 6
"""The last version of the schema without STRICT tables."""


@pytest.fixture
async def path(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a file of the version after UNTYPED; the steps behind it are made when it is opened."""
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[: UNTYPED + 1])
        async with opened(path) as ours:
            usage = TurnUsage(tokens=5, cost=Decimal("0.1"))
            for name in ("good", "bad"):
                assert await ours.append(name, *messages_of(name), title=name, usage=usage)
    return path


def write_schema(connection: sqlite3.Connection, change: str) -> None:
    """Change what the schema says of the tables, not how their rows lie on disk."""
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(f"UPDATE sqlite_schema SET sql = {change} WHERE type = 'table'")
    connection.execute("PRAGMA writable_schema = RESET")


def damage(path: Path, *statements: str, version: int = 0) -> None:
    """Change rows as a flipped byte may: with no look at their types.

    Args:
        path: the file.
        statements: what is done to it.
        version: of the schema, without STRICT tables, that it has from now on; 0: it stays.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        write_schema(connection, "replace(sql, ' STRICT', '')")
        for statement in statements:
            connection.execute(statement)
        if version:
            connection.execute(f"PRAGMA user_version = {version}")
        else:
            write_schema(connection, "sql || ' STRICT'")


def strict_tables(path: Path) -> tuple[int, int]:
    """Count the tables, and the STRICT ones among them."""
    query = "SELECT count(*), sum(strict) FROM pragma_table_list"
    [(tables, strict)] = rows(path, f"{query} WHERE schema = 'main' AND name NOT LIKE 'sqlite_%'")
    return tables, strict


@pytest.mark.parametrize(
    ("statement", "listed", "words"),
    [
        ("UPDATE chat SET title = x'ff00' WHERE id = 'bad'", 2, "column title of chat bad"),
        ("UPDATE chat SET created = x'ff' WHERE id = 'bad'", 2, "column created of chat bad"),
        ("UPDATE chat SET updated = 'soon' WHERE id = 'bad'", 2, "column updated of chat bad"),
        ("UPDATE chat SET updated = 9e999 WHERE id = 'bad'", 2, "column updated of chat bad"),
        ("UPDATE chat SET created = -1e20 WHERE id = 'bad'", 2, "column created of chat bad"),
        ("UPDATE chat SET title = CAST(x'ff' AS TEXT) WHERE id = 'bad'", 2, ""),
    ],
)
async def test_a_damaged_row_hides_no_other_chat(path, statement, listed, words):
    damage(path, statement)
    async with opened(path) as ours:
        assert len(await ours.store.list(WORKSPACE, 9)) == listed
        assert await ours.texts("good") == ["good"]
        assert await ours.texts("bad") == ["bad"]
        assert words in "".join(ours.problems)


async def test_a_chat_whose_id_is_damaged_is_left_out_and_named(path):
    damage(path, "UPDATE chat SET id = x'01' WHERE id = 'bad'")
    damage(path, "UPDATE message SET chat = x'01' WHERE chat = 'bad'")
    async with opened(path) as ours:
        assert [chat.id for chat in await ours.store.list(WORKSPACE, 9)] == ["good"]
        (problem,) = ours.problems
        assert "cannot be listed: expected a text, got bytes" in problem


@pytest.mark.parametrize("cost", ["'junk'", "x'ff'", "'NaN'"])
async def test_a_damaged_cost_leaves_the_history_readable(path, cost):
    damage(path, f"UPDATE usage SET cost = {cost} WHERE chat = 'bad'")
    async with opened(path) as ours:
        chat = await ours.chat("bad")
        assert [each.content_id for each in chat.messages] == ["bad"]
        assert chat.usages == (TurnUsage(tokens=5),)
        assert "usage of a turn of chat bad" in "".join(ours.problems)


@pytest.mark.long(but=3)
@pytest.mark.parametrize("value", ["'junk'", "x'ff'", "1.5", "9223372036854775807", "-7"])
@pytest.mark.parametrize("version", [0, UNTYPED])
async def test_a_damaged_place_of_a_message_costs_no_message(path, value, version):
    async with opened(path) as ours:
        assert await ours.append("bad", *messages_of("second", "third"))
    statement = f"UPDATE message SET sequence = {value} WHERE id = 'third'"
    damage(path, statement, version=version)
    async with opened(path) as ours:
        chat = await ours.chat("bad")
        assert {each.content_id for each in chat.messages} == {"bad", "second", "third"}
        assert await ours.append("bad", *messages_of("fourth", "fifth"))
        assert (await ours.texts("bad"))[-2:] == ["fourth", "fifth"]
        assert len(await ours.texts("bad")) == 5
        assert await ours.texts("good") == ["good"]
        assert not any("not stored" in each for each in ours.problems)


@pytest.mark.parametrize("step", ["0, 5, NULL", "0, x'2f61', 5"])
async def test_a_damaged_step_of_a_rollback_leaves_the_chats_readable(path, step):
    damage(
        path,
        "INSERT INTO rollback VALUES ('bad', NULL, 0, NULL, 1, 0, 1, 1)",
        f"INSERT INTO undo_step VALUES ('bad', {step}, NULL, NULL)",
    )
    async with opened(path) as ours:
        for name in ("good", "bad"):
            loaded = await ours.store.find(name, WORKSPACE)
            assert loaded is not None, name
            assert loaded.has_unfinished_rollbacks, name
            assert texts_of(loaded.chat) == [name]
        assert not await ours.store.unfinished_rollbacks(WORKSPACE, "")


@pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 37), reason="it knows no STRICT tables")
async def test_an_older_file_gets_strict_tables_whatever_its_rows_hold(path):
    damage(
        path,
        "UPDATE chat SET title = x'6f6e65', created = 'soon' WHERE id = 'bad'",
        "UPDATE message SET body = CAST(body AS TEXT), id = x'626164' WHERE chat = 'bad'",
        "UPDATE usage SET tokens = x'ff', cost = x'ff' WHERE chat = 'bad'",
        "INSERT INTO message VALUES ('bad', 'junk', 'later', x'7b')",
        "INSERT INTO settings VALUES (x'ff', 'text')",
        "INSERT INTO undo_step VALUES ('bad', 1.5, 'path', 2, 3, 'four')",
        version=UNTYPED,
    )
    assert not strict_tables(path)[1]
    async with opened(path) as ours:
        chat = await ours.chat("bad")
        assert (chat.title, chat.created, await ours.texts("bad")) == ("one", 0.0, ["bad"])
        assert await ours.texts("good") == ["good"]
        assert any("14 damaged values" in each for each in ours.problems)
    tables, strict = strict_tables(path)
    assert tables == strict
    async with opened(path) as ours:  # it is brought up to date once
        assert await ours.texts("bad") == ["bad"]
        assert not any("damaged values" in each for each in ours.problems)
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    with pytest.raises(sqlite3.IntegrityError):
        rows(path, "UPDATE chat SET title = x'ff'")


class Killed(Exception):
    """The end of a process."""


@attrs.define
class Dying:
    """A connection whose process is killed before one of its statements."""

    connection: sqlite3.Connection
    statements: int

    def execute(self, *statement: Any) -> sqlite3.Cursor:
        self.statements -= 1
        if not self.statements:
            raise Killed
        return self.connection.execute(*statement)


async def test_an_update_killed_at_any_statement_leaves_the_older_file(path):
    damage(path, "UPDATE chat SET title = x'ff' WHERE id = 'bad'", version=UNTYPED)
    before = strict_tables(path)
    for statements in range(1, 200, 3):
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            schema.set_up(Dying(connection, statements))  # type: ignore[arg-type]
        except Killed:
            connection.close()
            [(version,)] = rows(path, "PRAGMA user_version")
            tables, strict = strict_tables(path)
            assert (tables, strict) == before if version == UNTYPED else tables == strict
        else:
            connection.close()
            break
    assert 20 < statements < 199


async def test_a_sqlite_without_strict_tables_leaves_those_of_a_newer_one_alone(path, monkeypatch):
    damage(path, version=UNTYPED)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
        async with opened(path) as ours:
            assert await ours.texts("good") == ["good"]
            assert ours.problems == []
        assert not strict_tables(path)[1]
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            write_schema(connection, "sql || ', UNKNOWN'")
        async with opened(path) as ours:
            assert not await ours.append("good", *messages_of("new"))
            assert "expected SQLite 3.37 or newer" in "".join(ours.problems)
    assert not set_aside(path)
