"""The readable rows of a damaged file are copied into a new one; the damaged one stays."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from eca_server.agent.chat.store import place, salvage
from eca_server.agent.chat.store.rows import ChatSettings, TurnUsage
from tests.eca_server.agent.chat.store.keeping import WORKSPACE, Kept, image, opened, said
from tests.eca_server.agent.chat.store.test_log import CHATS as IN_LOG
from tests.eca_server.agent.chat.store.test_log import killed_server

CHATS = [f"chat {number:02}" for number in range(30)]
PLACES = [f"{number}" for number in range(5)]
PAGE = 4096


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """Return a file with many chats, each of several pages."""
    file = tmp_path / "data" / "chats.sqlite"
    async with opened(file) as ours:
        for name in CHATS:
            texts = [f"{name} {place} " + "x" * 1000 for place in PLACES]
            settings = ChatSettings(model="p/m")
            usage = TurnUsage(tokens=3)
            assert await ours.store.append(
                name, WORKSPACE, said(*texts), title=name, usage=usage, settings=settings
            )
            assert (await ours.store.add_before_images(name, [image("0", "/f", data=b"d")])).numbers
    return file


async def whole(ours: Kept) -> list[str]:
    """The chats that came back with all that is theirs."""
    found = []
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
            found.append(name)
    return found


def root_of(path: Path, name: str) -> int:
    """The number of the first page of a table or an index."""
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        return int(connection.execute(query, (name,)).fetchone()[0])


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def a_schema_name(path: Path) -> None:
    overwrite(path, path.read_bytes().index(b"undo_step"), b"\xff\xfe")


def a_schema_text(path: Path) -> None:
    overwrite(path, path.read_bytes().index(b"CREATE TABLE undo_step"), b"\xff\xfe")


def a_letter_of_a_column(path: Path) -> None:
    place = path.read_bytes().index(b"CREATE TABLE message")
    overwrite(path, path.read_bytes().index(b"body BLOB", place), b"bodx")


def a_letter_of_a_table(path: Path) -> None:
    overwrite(path, path.read_bytes().index(b"CREATE TABLE usage") + 13, b"usagf")


def a_byte_of_a_column(path: Path) -> None:
    overwrite(path, path.read_bytes().index(b"tokens INTEGER"), b"\xf4")


def the_version(path: Path) -> None:
    overwrite(path, 63, b"\x03")


def the_version_by_far(path: Path) -> None:
    overwrite(path, 61, b"\x01")


def the_format_of_writes(path: Path) -> None:
    overwrite(path, 18, b"\x42")


def the_format_of_the_schema(path: Path) -> None:
    overwrite(path, 47, b"\x24")


def the_first_byte(path: Path) -> None:
    overwrite(path, 0, b"\0")


def the_header(path: Path) -> None:
    overwrite(path, 0, b"\xff" * 100)


def the_page_size(path: Path) -> None:
    overwrite(path, 16, b"\x20")


def the_first_page(path: Path) -> None:
    overwrite(path, 0, b"\xff" * PAGE)


def the_first_page_after_a_rewrite(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")
    the_first_page(path)


def the_root_of_the_messages(path: Path) -> None:
    overwrite(path, (root_of(path, "message") - 1) * PAGE, b"\xff" * PAGE)


def an_index(path: Path) -> None:
    overwrite(path, (root_of(path, "sqlite_autoindex_message_1") - 1) * PAGE, b"\xff" * PAGE)


@pytest.mark.long(but=6)
@pytest.mark.parametrize(
    "damage",
    [
        a_schema_text,
        the_version,
        the_page_size,
        the_first_page_after_a_rewrite,
        an_index,
        the_root_of_the_messages,
        a_schema_name,
        a_letter_of_a_column,
        a_letter_of_a_table,
        a_byte_of_a_column,
        the_version_by_far,
        the_format_of_writes,
        the_format_of_the_schema,
        the_first_byte,
        the_header,
        the_first_page,
    ],
)
async def test_damage_outside_of_the_rows_costs_no_chat(
    path: Path, damage: Callable[[Path], None]
) -> None:
    damage(path)
    broken = path.read_bytes()
    async with opened(path) as ours:
        assert await ours.store.append("new", WORKSPACE, said("new"))
        assert await whole(ours) == CHATS
        assert len(await ours.store.list(WORKSPACE, 99)) == len(CHATS) + 1
        (problem,) = ours.problems
        assert "30 chats with 150 messages were recovered." in problem
    (aside,) = path.parent.glob("*.corrupt-*")
    assert aside.name in problem
    assert aside.read_bytes() == broken
    async with opened(path) as ours:
        assert await whole(ours) == CHATS
        assert ours.problems == []


async def test_a_table_with_the_pages_of_another_is_noticed(path: Path) -> None:
    place = path.read_bytes().index(b"CREATE TABLE usage") - 1
    overwrite(path, place, bytes([root_of(path, "chat")]))
    async with opened(path) as ours:
        assert len(await ours.store.list(WORKSPACE, 99)) == len(CHATS)
        assert "30 chats with 150 messages were recovered." in "".join(ours.problems)


async def test_chats_whose_workspace_is_lost_are_listed_everywhere(path: Path) -> None:
    overwrite(path, (root_of(path, "chat") - 1) * PAGE, b"\xff" * PAGE)
    async with opened(path) as ours:
        for workspace in (WORKSPACE, "another"):
            listed = await ours.store.list(workspace, 99)
            assert sorted(each.id for each in listed) == CHATS
            assert {each.messages for each in listed} == {len(PLACES)}
        assert "30 chats with 150 messages were recovered." in "".join(ours.problems)


async def test_a_flipped_letter_of_an_id_hides_no_chat_in_silence(path: Path) -> None:
    page = (root_of(path, "chat") - 1) * PAGE
    overwrite(path, path.read_bytes().index(CHATS[7].encode(), page), b"chat xx")
    async with opened(path) as ours:
        listed = {each.id for each in await ours.store.list(WORKSPACE, 99)}
        assert listed >= {*CHATS}
        assert "was damaged" in "".join(ours.problems)


async def test_a_flipped_letter_in_an_index_hides_no_message_in_silence(path: Path) -> None:
    page = (root_of(path, "sqlite_autoindex_message_1") - 1) * PAGE
    overwrite(path, path.read_bytes().index(CHATS[7].encode(), page), b"chat xx")
    async with opened(path) as ours:
        await ours.texts(CHATS[7])
        assert "was damaged" in "".join(ours.problems)
        assert await whole(ours) == CHATS


async def test_a_flipped_number_in_an_index_loses_no_new_message(path: Path) -> None:
    last = f"{CHATS[7]}{chr(len(PLACES))}".encode()
    page = (root_of(path, "sqlite_autoindex_message_1") - 1) * PAGE
    overwrite(path, path.read_bytes().index(last, page), last[:-1] + b"\x01")
    async with opened(path) as ours:
        assert await ours.store.append(CHATS[7], WORKSPACE, said("new"))
        assert (await ours.texts(CHATS[7]))[-1] == "new"
        assert len(await ours.texts(CHATS[7])) == len(PLACES) + 1
        assert "was damaged" in "".join(ours.problems)


async def test_a_damaged_page_of_messages_costs_those_on_it(path: Path) -> None:
    content = path.read_bytes()
    page = content.index(b'"chat 15 2 ') // PAGE * PAGE
    lost = {name for name in CHATS if name.encode() in content[page : page + PAGE]}
    overwrite(path, page, b"\xff" * PAGE)
    async with opened(path) as ours:
        await ours.store.load("chat 15")
        found = await whole(ours)
        assert set(CHATS) - set(found) <= lost
        assert 0 < len(await ours.texts("chat 15")) < len(PLACES)
        assert "was damaged" in "".join(ours.problems)


@pytest.mark.parametrize("table", ["message", "before_image"])
async def test_a_salvage_that_is_killed_begins_anew_and_brings_nothing_twice(
    path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    the_header(path)
    insert = salvage._insert

    def killed(target: sqlite3.Connection, into: str, row: Sequence[Any]) -> int | None:
        if into.startswith(table) and CHATS[10] in row:
            raise sqlite3.OperationalError("killed")
        return insert(target, into, row)

    with monkeypatch.context() as patch:
        patch.setattr(salvage, "_insert", killed)
        async with opened(path) as ours:
            await ours.store.load(CHATS[0])
    async with opened(path) as ours:
        assert await whole(ours) == CHATS
    assert len([*path.parent.glob("*.corrupt-*")]) == 1


async def test_messages_before_the_salvage_come_behind_what_it_restores(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    the_header(path)
    with monkeypatch.context() as patch:
        patch.setattr(salvage, "Presence", a_busy_place)
        async with opened(path) as ours:
            assert await ours.store.append(CHATS[3], WORKSPACE, said("before"))
            assert await ours.texts(CHATS[3]) == ["before"]
    async with opened(path) as ours:
        texts = await ours.texts(CHATS[3])
        assert [text.split()[2] for text in texts[:-1]] == PLACES
        assert texts[-1] == "before"
        assert [*whole_but(await whole(ours), CHATS[3])] == whole_but(CHATS, CHATS[3])


def whole_but(chats: list[str], name: str) -> list[str]:
    return [each for each in chats if each != name]


def a_busy_place(_: Path) -> None:
    raise BlockingIOError


@pytest.mark.parametrize(
    ("limit", "words"),
    [("LARGEST", "(the file is too large)"), ("SECONDS", "(the time limit was reached)")],
)
async def test_a_salvage_is_bounded_and_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, words: str
) -> None:
    the_header(path)
    broken = path.read_bytes()
    monkeypatch.setattr(salvage, limit, 0)
    async with opened(path) as ours:
        assert await ours.store.append("new", WORKSPACE, said("new"))
        (problem,) = ours.problems
        assert f"Nothing could be recovered {words}." in problem
    (aside,) = path.parent.glob("*.corrupt-*")
    assert aside.read_bytes() == broken


async def test_what_the_program_of_sqlite_recovers_comes_back(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        assert "30 chats with 150 messages were recovered." in "".join(ours.problems)
    assert (tmp_path / "asked").read_text().endswith(".recover --ignore-freelist\n")


async def test_what_is_left_of_a_salvage_goes_with_the_damaged_file(path: Path) -> None:
    left = path.with_name(f"{path.name}.corrupt-20260101T000000Z.salvage")
    left.mkdir()
    async with opened(path) as ours:
        assert await whole(ours) == CHATS
        assert ours.problems == []
    assert not left.exists()


async def test_chats_that_are_in_the_log_alone_come_back(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite"
    killed_server(path)
    place.set_aside(path)
    async with opened(path) as ours:
        assert await ours.store.append("new", WORKSPACE, said("new"))
        assert len(await ours.store.list(WORKSPACE, 99)) == len(IN_LOG) + 1
        assert "6 chats with 6 messages were recovered." in "".join(ours.problems)


async def test_a_server_waits_while_another_looks_at_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = place.Presence(tmp_path / "c")
    assert theirs.is_alone()
    waited: list[float] = []

    def leave(seconds: float) -> None:
        waited.append(seconds)
        theirs.leave()

    monkeypatch.setattr(place.time, "sleep", leave)
    ours = place.Presence(tmp_path / "c")
    assert ours.is_alone()
    assert len(waited) == 1
    ours.leave()
