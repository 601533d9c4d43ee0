"""Stored data is soon in the file itself; a damaged log is reported and loses little."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio

from eca_server.agent.chat.store import wal
from eca_server.agent.chat.store.file import ChatFile
from tests.eca_server.agent.chat.store.keeping import (
    WORKSPACE,
    append,
    messages_of,
    opened,
    opened_file,
)

CHATS = [f"{number}" for number in range(6)]


@pytest.fixture
def emptied(monkeypatch: pytest.MonkeyPatch) -> Callable[[], trio.Event]:
    """Return a function that returns an event, set at the end of the next attempt at the log."""
    events: list[trio.Event] = []
    empty_log = ChatFile.empty_log

    def empty_and_notify(self: ChatFile) -> None:
        empty_log(self)
        for event in [events.pop() for _ in range(len(events))]:
            token.run_sync_soon(event.set)

    def next_end() -> trio.Event:
        nonlocal token
        token = trio.lowlevel.current_trio_token()
        events.append(trio.Event())
        return events[-1]

    token: trio.lowlevel.TrioToken
    monkeypatch.setattr(ChatFile, "empty_log", empty_and_notify)
    return next_end


def chats_without_log(path: Path) -> int:
    """Count the chats in the file alone, without its log."""
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM message").fetchone()[0])
        except sqlite3.OperationalError:  # not even the tables are there yet
            return 0


async def test_an_idle_store_has_all_chats_in_the_file_itself(path, emptied):
    async with opened(path, idle=0.05, log=3600) as ours:
        for name in CHATS:
            assert await ours.append(name, *messages_of(name))
        with trio.fail_after(30):
            done = emptied()
            while chats_without_log(path) < len(CHATS):
                await done.wait()
                done = emptied()
        assert Path(f"{path}-wal").stat().st_size == 0


async def test_a_store_that_is_never_idle_has_older_chats_in_the_file_itself(path, emptied):
    async with opened(path, idle=3600, log=0) as ours:
        for number, name in enumerate(CHATS, 1):
            done = emptied()
            assert await ours.append(name, *messages_of(name))
            with trio.fail_after(30):
                await done.wait()
            assert chats_without_log(path) == number


async def test_a_log_that_another_server_reads_is_no_error_and_waits(path, emptied):
    async with opened(path, idle=0.02, log=0.05) as ours:
        assert await ours.append("0", *messages_of("0"))
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM chat").fetchall()
            assert await ours.append("1", *messages_of("1"))
            with trio.fail_after(30):
                for _ in range(3):
                    await emptied().wait()
            assert Path(f"{path}-wal").stat().st_size > 0
            assert await ours.texts("1") == ["1"]
        with trio.fail_after(30):
            done = emptied()
            while Path(f"{path}-wal").stat().st_size > 0:
                await done.wait()
                done = emptied()
        assert chats_without_log(path) == 2
        assert ours.problems == []


def killed_server(path: Path) -> None:
    """Leave the files of a server that was killed, with all its chats in the log."""
    with opened_file(path) as chat_file:
        for name in CHATS:
            append(chat_file, name, *messages_of(name * 5000), title=name)
        snapshot = {file: file.read_bytes() for file in path.parent.iterdir()}
    for file, content in snapshot.items():
        file.write_bytes(content)


def flip(path: Path, offset: int) -> bytes:
    place = Path(f"{path}-wal")
    content = bytearray(place.read_bytes())
    content[offset] ^= 1
    place.write_bytes(content)
    return bytes(content)


def offset_of(path: Path, text: str) -> int:
    return Path(f"{path}-wal").read_bytes().index(text.encode()) + 1


async def reopen(path: Path) -> tuple[list[str], list[str], list[Path]]:
    """The chats that are listed, what was said, and the logs that were kept aside."""
    async with opened(path) as ours:
        listed = sorted(each.id for each in await ours.store.list(WORKSPACE, 99))
        aside = [*path.parent.glob("*-wal.corrupt-*")]
        return listed, ours.problems, aside


HEADER, FRAME = 32, 24 + 4096


def test_only_what_was_not_sound_before_is_checked_again(path, monkeypatch):
    killed_server(path)
    checked: list[int] = []
    sums_after = wal._Frame.sums_after

    def count(frame: wal._Frame, before: wal.Sums, *, big: bool) -> wal.Sums:
        checked.append(frame.page)
        return sums_after(frame, before, big=big)

    monkeypatch.setattr(wal._Frame, "sums_after", count)
    assert [*wal.repair_log(path)] == []
    assert len(checked) > 20
    checked.clear()
    assert [*wal.repair_log(path)] == []
    assert checked == []
    flip(path, HEADER + FRAME * 20 + 99)
    [sentence] = wal.repair_log(path)
    assert "was damaged" in sentence


@pytest.mark.long(but=3)
@pytest.mark.parametrize("is_indexed", [True, False])
@pytest.mark.parametrize("place", ["header", "salt", "checksum", "text", "number"])
async def test_a_flipped_byte_in_the_log_loses_no_chat_and_is_announced(path, place, is_indexed):
    killed_server(path)
    second = HEADER + FRAME * 20
    offset = {
        "header": 9,
        "salt": second + 9,
        "checksum": second + 17,
        "text": offset_of(path, CHATS[1] * 3000),
        "number": HEADER + 18,
    }[place]
    broken = flip(path, offset)
    if not is_indexed:
        Path(f"{path}-shm").unlink()
    listed, problems, [aside] = await reopen(path)
    assert listed == CHATS
    [problem] = problems
    assert aside.read_bytes() == broken
    assert "The log of stored chats was damaged" in problem
    assert aside.name in problem
    assert "could be recovered" in problem
    assert ("may be wrong" in problem) >= (place == "text")
    assert await reopen(path) == (CHATS, [], [aside])


async def test_a_damaged_end_of_the_log_is_noticed_by_the_index(path):
    killed_server(path)
    flip(path, -10)
    listed, [problem], _ = await reopen(path)
    assert listed == CHATS
    assert "The last change in it could be recovered" in problem


async def test_a_log_that_cannot_be_repaired_is_cut_and_what_is_lost_is_announced(
    path, monkeypatch
):
    killed_server(path)
    broken = flip(path, offset_of(path, CHATS[3] * 3000))
    monkeypatch.setattr(wal, "LARGEST_FILE", 0)
    listed, [problem], [aside] = await reopen(path)
    assert listed == CHATS[:3]
    assert "The last 3 changes in it may be lost." in problem
    assert aside.read_bytes() == broken
    assert await reopen(path) == (CHATS[:3], [], [aside])


async def test_the_log_of_a_killed_server_is_no_damage_wherever_it_was_cut(path):
    killed_server(path)
    place = Path(f"{path}-wal")
    content = place.read_bytes()
    files = {file: file.read_bytes() for file in path.parent.iterdir() if file.suffix != ".shm"}
    lengths = [0, 5, HEADER, HEADER + 10, HEADER + 24, HEADER + FRAME * 20 + 24, len(content) - 1]
    for length in lengths:
        for file, before in files.items():
            file.write_bytes(before)
        Path(f"{path}-shm").unlink(missing_ok=True)
        place.write_bytes(content[:length])
        assert [*wal.repair_log(path)] == []
        assert place.read_bytes() == content[:length]


async def test_the_log_of_a_server_that_runs_is_not_looked_at(path):
    async with opened(path) as theirs:
        assert await theirs.append("c", *messages_of("one"))
        broken = flip(path, HEADER + FRAME + 100)
        assert [*wal.repair_log(path)] == []
        assert Path(f"{path}-wal").read_bytes() == broken


@pytest.mark.parametrize(
    "change", [Path.unlink, lambda log: log.write_bytes(b"")], ids=["removed", "emptied"]
)
async def test_a_log_that_a_server_removes_before_it_is_locked_is_no_damage(
    path, monkeypatch, change
):
    killed_server(path)

    class ChangedMeanwhile(wal.Presence):
        def __init__(self, path: Path) -> None:
            change(Path(f"{path}-wal"))
            super().__init__(path)

    monkeypatch.setattr(wal, "Presence", ChangedMeanwhile)
    assert [*wal.repair_log(path)] == []


async def test_checksums_are_those_of_sqlite_and_frames_of_an_earlier_log_are_no_damage(path):
    with opened_file(path) as chat_file:
        for number in range(3):
            append(chat_file, f"{number}", *messages_of("x" * (90_000 // (number + 1))))
            chat_file.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        snapshot = {file: file.read_bytes() for file in path.parent.iterdir()}
    for file, content in snapshot.items():
        file.write_bytes(content)
    log = wal._read(path, Path(f"{path}-wal"))
    assert 0 < log.broken_at() < len(log.frames)
    assert [*wal.repair_log(path)] == []
