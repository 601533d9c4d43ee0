"""A damaged byte or row costs itself, and is named; the other chats stay."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from eca_server.chat.store import TurnUsage
from tests.eca_server.chat.store.keeping import WORKSPACE, opened, said

pytestmark = [pytest.mark.trio, pytest.mark.requirement]


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    file = tmp_path / "data" / "chats.sqlite"
    async with opened(file) as ours:
        usage = TurnUsage(tokens=5, cost=Decimal("0.1"))
        for name in ("good", "bad"):
            assert await ours.store.append(name, WORKSPACE, said(name), title=name, usage=usage)
    return file


def damage(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "listed", "words"),
    [
        ("UPDATE chat SET title = x'ff00' WHERE id = 'bad'", 2, "column title of chat bad"),
        ("UPDATE chat SET created = x'ff' WHERE id = 'bad'", 2, "column created of chat bad"),
        ("UPDATE chat SET updated = 'soon' WHERE id = 'bad'", 2, "column updated of chat bad"),
        ("UPDATE chat SET title = CAST(x'ff' AS TEXT) WHERE id = 'bad'", 2, ""),
    ],
)
async def test_a_damaged_row_hides_no_other_chat(
    path: Path, statement: str, listed: int, words: str
) -> None:
    damage(path, statement)
    async with opened(path) as ours:
        assert len(await ours.store.list(WORKSPACE, 9)) == listed
        assert await ours.texts("good") == ["good"]
        assert await ours.texts("bad") == ["bad"]
        assert words in "".join(ours.problems)


async def test_a_chat_whose_id_is_damaged_is_left_out_and_named(path: Path) -> None:
    damage(path, "UPDATE chat SET id = x'01' WHERE id = 'bad'")
    damage(path, "UPDATE message SET chat = x'01' WHERE chat = 'bad'")
    async with opened(path) as ours:
        assert [chat.id for chat in await ours.store.list(WORKSPACE, 9)] == ["good"]
        (problem,) = ours.problems
        assert "cannot be listed: expected a text, got bytes" in problem


@pytest.mark.parametrize("cost", ["'junk'", "x'ff'", "'NaN'"])
async def test_a_damaged_cost_leaves_the_history_readable(path: Path, cost: str) -> None:
    damage(path, f"UPDATE usage SET cost = {cost} WHERE chat = 'bad'")
    async with opened(path) as ours:
        chat = await ours.store.load("bad")
        assert chat is not None
        assert [each.id for each in chat.messages] == ["bad"]
        assert chat.usages == (TurnUsage(tokens=5),)
        assert "usage of a turn of chat bad" in "".join(ours.problems)


async def test_a_schema_that_is_no_utf8_is_set_aside(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_schema SET name = CAST(x'ff41' AS TEXT), sql = 'CREATE TABLE'"
            " WHERE name = 'undo_step'"
        )
    async with opened(path) as ours:
        assert await ours.store.append("new", WORKSPACE, said("new"))
        assert await ours.texts("new") == ["new"]
        assert "was damaged" in "".join(ours.problems)
    assert len([*path.parent.glob("*.corrupt-*")]) == 1
