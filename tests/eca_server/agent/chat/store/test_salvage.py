"""The readable rows of a damaged file are copied into a new one; the damaged one stays."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_server.agent.chat.store import place, salvage, schema
from eca_server.agent.chat.store.rows import ChatSettings, TurnUsage
from tests.eca_server.agent.chat.store.keeping import (
    WORKSPACE,
    OpenStore,
    image,
    messages_of,
    opened,
    rows,
    set_aside,
)
from tests.eca_server.agent.chat.store.test_log import CHATS as IN_LOG
from tests.eca_server.agent.chat.store.test_log import killed_server

CHATS = [f"chat {number:02}" for number in range(30)]
PLACES = [f"{number}" for number in range(5)]
PAGE = 4096


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with many chats, each of several pages."""
    file = tmp_path_factory.mktemp("chats") / "chats.sqlite"

    async def fill() -> None:
        async with opened(file) as ours:
            for name in CHATS:
                texts = messages_of(*[f"{name} {place} " + "x" * 1000 for place in PLACES])
                fields = {"usage": TurnUsage(tokens=3), "settings": ChatSettings(model="p/m")}
                assert await ours.append(name, *texts, title=name, **fields)
                images = [image("0", "/f", data=b"d")]
                assert (await ours.store.add_before_images(name, images)).numbers

    trio.run(fill)
    return file.read_bytes()


@pytest.fixture
def path(path: Path, content: bytes) -> Path:
    path.parent.mkdir()
    path.write_bytes(content)
    return path


async def whole(ours: OpenStore) -> list[str]:
    """The chats that came back with all that is theirs."""
    names = []
    for name in CHATS:
        chat = await ours.store.load(name)
        texts = [" ".join(text.split()[:3]) for text in await ours.texts(name)]
        if (
            chat is not None
            and texts == [f"{name} {place}" for place in PLACES]
            and (chat.title, chat.usages) == (name, (TurnUsage(tokens=3),))
            and chat.settings.model == "p/m"
            and len(await ours.before_images(name)) == 1
        ):
            names.append(name)
    return names


def root_of(path: Path, name: str) -> int:
    """The number of the first page of a table or an index."""
    [(page,)] = rows(path, "SELECT rootpage FROM sqlite_schema WHERE name = ?", name)
    return int(page)


def overwrite(path: Path, place: int | bytes | str, data: bytes, *, behind: int = 0) -> None:
    """Write into the file at an offset, a text, or the root page of a table or an index.

    A text is looked for behind an offset.
    """
    if isinstance(place, str):
        place = page_of(path, place)
    elif isinstance(place, bytes):
        place = path.read_bytes().index(place, behind)
    with path.open("r+b") as file:
        file.seek(place)
        file.write(data)


def page_of(path: Path, name: str) -> int:
    return (root_of(path, name) - 1) * PAGE


BAD_PAGE = b"\xff" * PAGE
INDEX = "sqlite_autoindex_message_1"
DAMAGES: dict[str, tuple[int | bytes | str, bytes]] = {
    "a schema text": (b"CREATE TABLE undo_step", b"\xff\xfe"),
    "the version": (63, b"\x03"),
    "the page size": (16, b"\x20"),
    "the first page after a rewrite": (0, BAD_PAGE),
    "an index": (INDEX, BAD_PAGE),
    "the root of the messages": ("message", BAD_PAGE),
    "a schema name": (b"undo_step", b"\xff\xfe"),
    "a letter of a column": (b"body BLOB NOT NULL", b"bodx"),
    "a letter of a table": (b"CREATE TABLE usage", b"CREATE TABLE usagf"),
    "a byte of a column": (b"tokens INTEGER", b"\xf4"),
    "the version by far": (61, b"\x01"),
    "the format of writes": (18, b"\x42"),
    "the format of the schema": (47, b"\x24"),
    "the first byte": (0, b"\0"),
    "the header": (0, b"\xff" * 100),
    "the first page": (0, BAD_PAGE),
}
RECOVERED = "30 chats with 150 messages were recovered."


@pytest.mark.long(but=6)
@pytest.mark.parametrize("damage", DAMAGES)
async def test_damage_outside_of_the_rows_costs_no_chat(path, damage):
    if damage.endswith("rewrite"):
        rows(path, "VACUUM")
    overwrite(path, *DAMAGES[damage])
    broken = path.read_bytes()
    async with opened(path) as ours:
        assert await ours.append("new", *messages_of("new"))
        assert await whole(ours) == CHATS
        assert len(await ours.store.list(WORKSPACE, 99)) == len(CHATS) + 1
        (problem,) = ours.problems
        assert RECOVERED in problem
    (aside,) = set_aside(path)
    assert aside.name in problem
    assert aside.read_bytes() == broken
    async with opened(path) as ours:
        assert await whole(ours) == CHATS
        assert ours.problems == []


async def test_a_table_with_the_pages_of_another_is_noticed(path):
    root = bytes([root_of(path, "chat")])
    overwrite(path, path.read_bytes().index(b"CREATE TABLE usage") - 1, root)
    async with opened(path) as ours:
        assert len(await ours.store.list(WORKSPACE, 99)) == len(CHATS)
        assert RECOVERED in "".join(ours.problems)


async def test_chats_whose_workspace_is_lost_are_listed_everywhere(path):
    overwrite(path, "chat", BAD_PAGE)
    async with opened(path) as ours:
        for workspace in (WORKSPACE, "another"):
            listed = await ours.store.list(workspace, 99)
            assert sorted(each.id for each in listed) == CHATS
            assert {each.messages for each in listed} == {len(PLACES)}
        assert RECOVERED in "".join(ours.problems)


async def test_a_flipped_letter_of_an_id_hides_no_chat_in_silence(path):
    overwrite(path, CHATS[7].encode(), b"chat xx", behind=page_of(path, "chat"))
    async with opened(path) as ours:
        listed = {each.id for each in await ours.store.list(WORKSPACE, 99)}
        assert listed >= {*CHATS}
        assert "was damaged" in "".join(ours.problems)


LAST = f"{CHATS[7]}{chr(len(PLACES))}".encode()


@pytest.mark.parametrize(
    ("text", "changed"), [(CHATS[7].encode(), b"chat xx"), (LAST, LAST[:-1] + b"\x01")]
)
async def test_a_flipped_byte_in_an_index_hides_no_message_and_loses_no_new_one(
    path, text, changed
):
    overwrite(path, text, changed, behind=page_of(path, INDEX))
    async with opened(path) as ours:
        assert await ours.append(CHATS[7], *messages_of("new"))
        texts = await ours.texts(CHATS[7])
        assert (len(texts), texts[-1]) == (len(PLACES) + 1, "new")
        assert "was damaged" in "".join(ours.problems)
        assert whole_but(await whole(ours), CHATS[7]) == whole_but(CHATS, CHATS[7])


async def test_a_damaged_page_of_messages_costs_those_on_it(path):
    content = path.read_bytes()
    page = content.index(b'"chat 15 2 ') // PAGE * PAGE
    lost = {name for name in CHATS if name.encode() in content[page : page + PAGE]}
    overwrite(path, page, BAD_PAGE)
    async with opened(path) as ours:
        await ours.store.load("chat 15")
        intact_chats = await whole(ours)
        assert set(CHATS) - set(intact_chats) <= lost
        assert 0 < len(await ours.texts("chat 15")) < len(PLACES)
        assert "was damaged" in "".join(ours.problems)


@pytest.mark.parametrize("table", ["message", "before_image"])
async def test_a_salvage_that_is_killed_begins_anew_and_brings_nothing_twice(
    path, monkeypatch, table
):
    overwrite(path, *DAMAGES["the header"])
    insert = salvage._insert

    def killed(
        target: sqlite3.Connection, into: str, columns: str, row: Sequence[Any]
    ) -> int | None:
        if into == table and CHATS[10] in row:
            raise sqlite3.OperationalError("killed")
        return insert(target, into, columns, row)

    with monkeypatch.context() as patch:
        patch.setattr(salvage, "_insert", killed)
        async with opened(path) as ours:
            await ours.store.load(CHATS[0])
    async with opened(path) as ours:
        assert await whole(ours) == CHATS
    assert len(set_aside(path)) == 1


async def test_messages_before_the_salvage_come_behind_what_it_restores(path, monkeypatch):
    overwrite(path, *DAMAGES["the header"])
    with monkeypatch.context() as patch:
        patch.setattr(salvage, "Presence", a_busy_place)
        async with opened(path) as ours:
            assert await ours.append(CHATS[3], *messages_of("before"))
            assert await ours.texts(CHATS[3]) == ["before"]
    async with opened(path) as ours:
        texts = await ours.texts(CHATS[3])
        assert [text.split()[2] for text in texts[:-1]] == PLACES
        assert texts[-1] == "before"
        assert whole_but(await whole(ours), CHATS[3]) == whole_but(CHATS, CHATS[3])


def whole_but(chats: list[str], name: str) -> list[str]:
    return [each for each in chats if each != name]


def a_busy_place(_: Path) -> None:
    raise BlockingIOError


@pytest.mark.parametrize(
    ("bytes_a_second", "words"),
    [(2**40, "Nothing could be recovered (the time limit was reached)."), (1, " were recovered.")],
)
async def test_a_salvage_is_limited_in_time_by_the_size_of_the_file_and_says_so(
    path, monkeypatch, bytes_a_second, words
):
    overwrite(path, *DAMAGES["the header"])
    broken = path.read_bytes()
    monkeypatch.setattr(salvage, "SECONDS", 0)
    monkeypatch.setattr(salvage, "PACE", bytes_a_second)
    async with opened(path) as ours:
        assert await ours.append("new", *messages_of("new"))
        (problem,) = ours.problems
        assert words in problem
    (aside,) = set_aside(path)
    assert aside.read_bytes() == broken


async def test_what_the_program_of_sqlite_recovers_comes_back(path, tmp_path, monkeypatch):
    with closing(sqlite3.connect(path)) as connection:
        lines = "\n".join(connection.iterdump())
    program = tmp_path / "bin" / "sqlite3"
    program.parent.mkdir()
    (tmp_path / "dump").write_text(f"{lines}\nINSERT INTO nothing VALUES (1);\n")
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\nexec cat {tmp_path}/dump\n')
    program.chmod(0o755)
    monkeypatch.setattr(salvage, "PROGRAMS", f"{program.parent}")
    path.write_bytes(b"no database " * 500)
    async with opened(path) as ours:
        assert await whole(ours) == CHATS
        assert RECOVERED in "".join(ours.problems)
    assert (tmp_path / "asked").read_text().endswith(".recover --ignore-freelist\n")


async def test_what_is_left_of_a_salvage_goes_with_the_damaged_file(path):
    leftover = path.with_name(f"{path.name}.corrupt-20260101T000000Z.salvage")
    leftover.mkdir()
    async with opened(path) as ours:
        assert await whole(ours) == CHATS
        assert ours.problems == []
    assert not leftover.exists()


async def test_chats_that_are_in_the_log_alone_come_back(tmp_path):
    path = tmp_path / "chats.sqlite"
    killed_server(path)
    place.set_aside(path)
    async with opened(path) as ours:
        assert await ours.append("new", *messages_of("new"))
        assert len(await ours.store.list(WORKSPACE, 99)) == len(IN_LOG) + 1
        assert "6 chats with 6 messages were recovered." in "".join(ours.problems)


async def test_a_server_waits_while_another_looks_at_damage(tmp_path, monkeypatch):
    theirs = place.Presence(tmp_path / "c")
    assert theirs.is_alone()
    waited: list[float] = []

    def leave(seconds: float) -> None:
        waited.append(seconds)
        theirs.close()

    monkeypatch.setattr(place.time, "sleep", leave)
    ours = place.Presence(tmp_path / "c")
    assert ours.is_alone()
    assert len(waited) == 1
    ours.close()


LATER = {"chat": "REAL", "usage": "TEXT", "settings": "BLOB", "before_image": "INTEGER"}


@pytest.mark.parametrize("damage", ["the root of the messages", "the first page"])
@pytest.mark.parametrize("programs", [salvage.PROGRAMS, "/no/such/directory"])
async def test_a_damaged_file_that_is_older_than_a_column_loses_nothing(
    path, monkeypatch, damage, programs
):
    step = [f"ALTER TABLE {table} ADD COLUMN later {kind}" for table, kind in LATER.items()]
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, step))
    monkeypatch.setattr(salvage, "PROGRAMS", programs)
    overwrite(path, *DAMAGES[damage])
    async with opened(path) as ours:
        assert await whole(ours) == CHATS
    assert rows(path, "SELECT DISTINCT later FROM chat") == [(None,)]
