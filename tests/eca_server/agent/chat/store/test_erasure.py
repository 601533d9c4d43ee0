"""Deleted chats leave no text in any file, however the rows had been moved."""

import random
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

import attrs
import pytest
import trio

from eca_server.agent.chat.store import queries, rollbacks
from eca_server.agent.chat.store.file import ChatFile
from eca_server.agent.chat.store.schema import TABLES
from eca_server.agent.chat.store.worker import FileThreads
from tests.eca_server.agent.chat.store.keeping import (
    PATIENT,
    OpenStore,
    append,
    image,
    messages_of,
    opened,
    opened_file,
    rows,
)


def mark(chat: int) -> str:
    return f"<text of {chat:03}>"


CHATS = 200
DELETED = set(range(0, CHATS, 3))


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file of many chats, their rows written in turns; every text says whose it is.

    So many that SQLite without rewriting the file leaves copies of texts, as those of version
    3.40 do with this seed.
    """
    chance = random.Random(2)
    path = tmp_path_factory.mktemp("filled") / "chats.sqlite"
    with opened_file(path) as chat_file:
        for number in range(CHATS * 20):
            chat = chance.randrange(CHATS)
            text = mark(chat) * chance.choice([10, 40, 100])
            message = attrs.evolve(messages_of(text)[0], content_id=f"{number}")
            append(chat_file, f"chat {chat}", message, title=mark(chat) * (number % 9))
        for chat in range(CHATS):
            add_image(chat_file, f"chat {chat}", mark(chat))
    return path.read_bytes()


@pytest.fixture
def filled(path: Path, content: bytes) -> Path:
    path.parent.mkdir()
    path.write_bytes(content)
    return path


def add_image(chat_file: ChatFile, name: str, text: str) -> None:
    data = text.encode()
    images = [image("1", text, moved_from=text, data=data * 300, after=data)]
    assert chat_file.write_once(lambda file: rollbacks.add_before_images(file, name, images))


async def delete_all(ours: OpenStore) -> None:
    for chat in DELETED:
        assert await ours.store.delete(f"chat {chat}")


def find_leftovers(path: Path, chats: set[int] = DELETED) -> set[tuple[str, int]]:
    """In which files text of which chats is found."""
    return {
        (file.name, chat)
        for file in path.parent.iterdir()
        for content in [file.read_bytes()]
        for chat in chats
        if mark(chat).encode() in content
    }


async def test_nothing_is_left_after_close(filled):
    async with opened(filled) as ours:
        await delete_all(ours)
    assert find_leftovers(filled) == set()
    assert {chat for _, chat in find_leftovers(filled, set(range(CHATS)))} == set(
        range(CHATS)
    ) - DELETED


@pytest.mark.parametrize("threads", [None, FileThreads(PATIENT)])
async def test_nothing_is_left_although_another_server_continues(filled, threads):
    async with opened(filled, threads) as theirs:
        await theirs.append("theirs", *messages_of("theirs"))
        async with opened(filled, threads) as ours:
            await delete_all(ours)
        assert find_leftovers(filled) == set()
        assert await theirs.append("theirs", *messages_of("more"))
        assert theirs.problems == []


async def test_what_a_killed_server_left_goes_when_the_next_one_closes(filled):
    files = [filled, Path(f"{filled}-wal"), Path(f"{filled}-shm")]
    async with opened(filled) as ours:
        await delete_all(ours)
        killed = [file.read_bytes() for file in files]
    for file, content in zip(files, killed, strict=True):
        file.write_bytes(content)
    async with opened(filled) as ours:
        await ours.store.load("any")
    assert find_leftovers(filled) == set()


async def test_nothing_is_left_of_what_was_never_written(path):
    path.parent.write_text("in the way")
    async with opened(path) as ours:
        await ours.append("chat 1", *messages_of(mark(1)))
        await ours.store.delete("chat 1")
        path.parent.unlink()
        assert await ours.append("chat 2", *messages_of(mark(2)))
        assert await ours.store.load("chat 1") is None
        assert due(path) == 0
    assert {chat for _, chat in find_leftovers(path, {1, 2})} == {2}


async def test_the_file_is_rewritten_while_nothing_is_asked_for(filled, monkeypatch):
    rewritten = trio.Event()
    token = trio.lowlevel.current_trio_token()
    tidy = ChatFile.tidy

    def tidy_and_tell(self: ChatFile, *arguments: object, **named: object) -> None:
        tidy(self, *arguments, **named)  # type: ignore[arg-type]  # passed on as they came
        token.run_sync_soon(rewritten.set)

    monkeypatch.setattr(ChatFile, "tidy", tidy_and_tell)
    async with opened(filled, idle=0.05) as ours:
        await delete_all(ours)
        rewritten = trio.Event()
        with trio.fail_after(10):
            await rewritten.wait()
        assert find_leftovers(filled) == set()


async def test_a_rewriting_that_would_hold_up_the_end_is_left_for_the_next_time(filled):
    async with opened(filled, rewrite=0) as ours:
        await delete_all(ours)
    assert due(filled) == len(DELETED)
    async with opened(filled) as ours:
        assert await ours.before_images("chat 1")
        assert await ours.store.close()
        assert ours.problems == []
    assert find_leftovers(filled) == set()
    assert due(filled) == 0


@pytest.mark.parametrize("idle_seconds", [0.0, 99.0, 1000.0])
@pytest.mark.parametrize("is_alone", [True, False])
def test_a_large_file_is_rewritten_alone_and_after_a_long_idle_time(
    filled, monkeypatch, idle_seconds, is_alone
):
    for name, size in (("SMALL_FILE", 0), ("IDLE_PACE", filled.stat().st_size / 100)):
        monkeypatch.setattr(f"eca_server.agent.chat.store.file.{name}", size)
    with opened_file(filled) as ours, ExitStack() as others:
        if not is_alone:
            assert others.enter_context(opened_file(filled)).read(lambda _: True)
        assert ours.write("chat 1", lambda each: queries.delete(each, "chat 1"), deletes=True)
        ours.tidy(lambda: False, idle_seconds=idle_seconds)
        is_rewritten = is_alone and idle_seconds > 100
        assert ours.rewrite_is_due is not is_rewritten
        assert ours.read(lambda each: each.execute("SELECT 1").fetchone())
        assert bool(due(filled)) is not is_rewritten


def test_a_deleted_chat_has_rows_in_no_table(path):
    samples = {"TEXT": "c", "INTEGER": 1, "REAL": 1.0, "BLOB": b""}
    with opened_file(path) as ours:
        append(ours, "other", *messages_of("text"))
        with closing(sqlite3.connect(path)) as connection, connection:
            tables = {name for name, _ in connection.execute(TABLES)} - {"rewrite_due"}
            for table in tables:
                kinds = [row[2] for row in connection.execute(f"PRAGMA table_info({table})")]
                marks = ", ".join("?" * len(kinds))
                row = [samples[kind] for kind in kinds]
                connection.execute(f"INSERT INTO {table} VALUES ({marks})", row)
        assert ours.write("c", lambda file: queries.delete(file, "c"), deletes=True)
    for table in tables:
        column = "id" if table == "chat" else "chat"
        count = rows(path, f"SELECT count(*) FROM {table} WHERE {column} = 'c'")
        assert count == [(0,)], f"delete its rows: {table}"


def due(path: Path) -> int:
    [(number,)] = rows(path, "SELECT count(*) FROM rewrite_due")
    return int(number)
