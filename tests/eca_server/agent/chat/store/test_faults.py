"""After any disk error the chat continues, the user is notified once, and no file is deleted."""

import errno
import importlib
import os
import shutil
import sqlite3
import sys
import threading
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from eca_server.agent.chat import store as package
from eca_server.agent.chat.store import file, rollbacks, schema, store
from eca_server.agent.chat.store.rows import ChatRecord, ChatSettings, Rollback, UndoStep
from eca_server.agent.chat.store.worker import Limits
from eca_server.models.history import BlockPart, Message
from tests.eca_server.agent.chat.store.keeping import (
    WORKSPACE,
    append,
    image,
    locked,
    messages_of,
    opened,
    opened_file,
    rows,
    set_aside,
)
from tests.eca_server.agent.chat.store.process import (
    fill_the_disk,
    spawn,
    write_where_it_is_forbidden,
)
from tests.promises import within


async def test_a_full_disk_is_reported_once_and_nothing_is_lost_once_there_is_space(path):
    with spawn(fill_the_disk, path) as running:
        [problem] = running.read_rest()
    assert problem.startswith(f"Chats are not stored, and stay only in memory: {path}: ")
    async with opened(path) as ours:
        texts = await ours.texts("c")
        assert [text.rstrip("x") for text in texts] == [str(n) for n in range(len(texts))]
        assert ours.problems == []


def test_a_directory_that_may_not_be_written_is_reported_once(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    with spawn(write_where_it_is_forbidden, closed / "data" / "chats.sqlite") as running:
        [problem] = running.read_rest()
    assert "closed/data: Permission denied." in problem


def a_file_for_a_directory(path: Path) -> None:
    path.parent.write_text("a file")


OTHER_KIND = "expected a regular file, got something else"


@pytest.mark.parametrize(
    ("obstacle", "words"),
    [
        (None, "expected a directory, got a file"),
        (Path.mkdir, OTHER_KIND),
        (os.mkfifo, OTHER_KIND),
        (lambda path: path.symlink_to("nothing"), "No such file or directory"),
    ],
    ids=["a file for a directory", "a directory", "a pipe", "a link to nothing"],
)
async def test_an_obstacle_is_reported_once(path, obstacle, words, caplog):
    if obstacle is None:
        a_file_for_a_directory(path)
    else:
        path.parent.mkdir()
        obstacle(path)
    async with opened(path) as ours:
        for number in range(3):
            assert not await ours.append("c", *messages_of(f"{number}"))
        assert await ours.store.load("c") is None
        assert await ours.store.list(WORKSPACE, 5) == ()
        assert not (await ours.store.add_before_images("c", [image("1", "/f", data=b"")])).numbers
        assert not await ours.store.delete("other")
        (problem,) = ours.problems
        assert words in problem
        assert not await ours.store.close()
    assert len(caplog.messages) == 1, caplog.messages


async def test_what_could_not_be_written_is_written_in_order_once_it_can(path):
    a_file_for_a_directory(path)
    async with opened(path) as ours:
        for number in range(3):
            for chat in ("c", "gone"):
                await ours.append(chat, *messages_of(f"{number}"))
        await ours.store.delete("gone")
        path.parent.unlink()
        assert await ours.store.close()
    async with opened(path) as ours:
        assert await ours.texts("c") == ["0", "1", "2"]
        assert await ours.store.load("gone") is None


@pytest.mark.parametrize(("seconds", "reports"), [(600.0, 1), (0.0, 2)])
async def test_a_disk_that_fails_again_much_later_is_reported_again(
    path, monkeypatch, seconds, reports
):
    monkeypatch.setattr(file, "EPISODE_SECONDS", seconds)
    async with opened(path) as ours:
        for number in range(2):
            a_file_for_a_directory(path)
            assert not await ours.append("c", *messages_of(f"{number}"))
            path.parent.unlink()
            assert await ours.append("c", *messages_of(f"then {number}"))
            path.parent.rename(path.parent.with_name(f"aside {number}"))
        assert sum("are not stored" in problem for problem in ours.problems) == reports


GARBAGE = b"no database " * 500


async def test_corrupt_files_of_one_second_are_set_aside_and_new_ones_begun(path):
    path.parent.mkdir()
    for number in range(3):
        path.write_bytes(GARBAGE + b"%d" % number)
        async with opened(path) as ours:
            assert await ours.append("c", *messages_of("new"))
            assert await ours.texts("c") == ["new"]
            (problem,) = ours.problems
        names = [each.name for each in set_aside(path)]
        assert all(name.startswith("chats.sqlite.corrupt-2") for name in names)
        assert any(f"{path} was damaged. It was renamed to {name}" in problem for name in names)
    contents = {each.read_bytes() for each in set_aside(path)}
    assert contents == {GARBAGE + b"%d" % number for number in range(3)}


async def test_a_corrupt_file_that_another_server_has_open_stays_in_its_place(path):
    async with opened(path) as before:
        await before.store.load("c")
    async with opened(path) as theirs:
        await theirs.store.load("c")
        path.write_bytes(GARBAGE)
        async with opened(path) as ours:
            assert not await ours.append("c", *messages_of("ours"))
            (problem,) = ours.problems
            assert "another server still has it open" in problem
            assert path.read_bytes() == GARBAGE
            await theirs.store.close()
            assert await ours.append("c", *messages_of("more"))
            assert await ours.texts("c") == ["ours", "more"]
    assert len(set_aside(path)) == 1


@pytest.mark.parametrize("what", ["its directory", "the file", "replaced", "a backup with a log"])
async def test_a_file_that_is_removed_while_it_is_open_is_made_anew(path, what):
    other = path.with_name("other")
    backup = [path.with_name("backup"), path.with_name("backup-wal")]
    async with opened(other) as before:
        await before.append("other", *messages_of("theirs"))
        for copy, suffix in zip(backup, ("", "-wal"), strict=True):
            shutil.copy(f"{other}{suffix}", copy)
    async with opened(path) as ours:
        await ours.append("c", *messages_of("lost"))
        if what == "its directory":
            shutil.rmtree(path.parent)
        elif what == "the file":
            path.unlink()
        elif what == "replaced":
            other.replace(path)
        else:
            for copy, suffix in zip(backup, ("", "-wal"), strict=True):
                copy.replace(f"{path}{suffix}")
        assert await ours.append("c", *messages_of("new"))
        assert await ours.append("d", *messages_of("another"))
        (problem,) = ours.problems
        assert problem.startswith(f"{path} was removed or replaced while it was in use")
    async with opened(path) as afterwards:
        assert await afterwards.texts("c") == ["new"]
        assert await afterwards.texts("d") == ["another"]
        assert [chat.id for chat in await afterwards.store.list(WORKSPACE, 9)][2:] == (
            ["other"] if what in {"replaced", "a backup with a log"} else []
        )
        assert afterwards.problems == []


@pytest.mark.parametrize(
    "change", ["ALTER TABLE message ADD COLUMN more TEXT", "DROP TABLE before_image"]
)
async def test_a_file_that_a_newer_server_changes_meanwhile_is_reported_as_such(path, change):
    async with opened(path) as ours:
        assert await ours.append("c", *messages_of("0"))
        rows(path, change)
        rows(path, f"PRAGMA user_version = {len(schema.MIGRATIONS) + 1}")
        await ours.append("c", *messages_of("1"))
        await ours.store.add_before_images("c", [image("1", "/f", data=b"")])
        (problem,) = ours.problems
        assert "a newer server has written it. Restart or upgrade this one." in problem


async def test_a_file_of_a_newer_server_is_left_alone(path):
    path.parent.mkdir()
    rows(path, "CREATE TABLE chat (of, another, shape)")
    rows(path, "PRAGMA user_version = 1000")
    before = path.read_bytes()
    async with opened(path) as ours:
        for text in "ab":
            assert not await ours.append("c", *messages_of(text))
        (problem,) = ours.problems
        assert f"expected version {len(schema.MIGRATIONS)} or older, got 1000" in problem
        assert "a newer server has written it" in problem
    assert path.read_bytes() == before


NEWER = (
    *schema.MIGRATIONS,
    ("ALTER TABLE usage ADD COLUMN currency TEXT", "CREATE TABLE later (a)"),
    ("INSERT INTO later VALUES (1)",),
)
FAILING = (*schema.MIGRATIONS, ("DROP TABLE message", "DROP TABLE nothing"))


async def test_a_file_of_an_older_server_is_brought_up_to_date_or_stays_as_it_was(
    path, monkeypatch
):
    async with opened(path) as ours:
        await ours.append("c", *messages_of("old"))
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", FAILING)
        async with opened(path) as ours:
            assert not await ours.append("c", *messages_of("new"))
    monkeypatch.setattr(schema, "MIGRATIONS", NEWER)
    for _ in range(2):
        async with opened(path) as ours:
            assert await ours.texts("c") == ["old"]
    assert rows(path, "PRAGMA user_version") == [(len(NEWER),)]
    assert rows(path, "SELECT * FROM later") == [(1,)]


async def test_a_file_of_each_older_version_is_brought_up_to_date(path, monkeypatch):
    for version in range(1, len(schema.MIGRATIONS)):
        with monkeypatch.context() as patched, opened_file(path) as older:
            patched.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:version])
            append(older, "c", *messages_of("1"))
        async with opened(path) as ours:
            images = (image("1", "/f", data=b"before"),)
            assert (await ours.store.add_before_images("c", images)).numbers
            assert await ours.before_images("c") == images
            assert await ours.append("c", settings=ChatSettings(model="p/m"))
            assert [chat.model for chat in await ours.store.list(WORKSPACE, 9)] == ["p/m"]
            assert await ours.store.delete("c")
            assert await ours.before_images("c") == ()
            assert ours.problems == []
        path.unlink()


async def test_a_disk_that_does_not_answer_holds_nothing_up(path):
    async with opened(path, write=0.02, read=0.02, close=0.02) as ours:
        await ours.append("c", *messages_of("0"))
        with locked(path):
            for number in range(1, 4):
                assert not await ours.append("c", *messages_of(f"{number}"))
            ours.set_limits(read=30)
            with trio.fail_after(10):  # known to be late: reads do not wait again
                assert await ours.store.load("c") is None
                assert await ours.store.list(WORKSPACE, 5) == ()
                assert await ours.store.unfinished_rollbacks(WORKSPACE, "c") == ()
            ours.set_limits(backlog=4)
            images = [image("1", f"/{name}", data=b"old") for name in "fg"]
            waiting, too_much = [await ours.store.add_before_images("c", [i]) for i in images]
            assert waiting.numbers is None
            late, unread = ours.problems
            assert late == f"{path} does not answer: chats stay only in memory until it does."
            assert unread.startswith(f"Stored chats cannot be listed or opened until {path} ans")
        ours.set_limits(late=10)
        assert await ours.texts("c") == ["0", "1", "2", "3"]
        assert await ours.before_images("c") == (images[0],)
        assert (waiting.numbers, too_much.numbers) == ((1,), None)
        ours.set_limits(write=10)
        assert await ours.append("c", *messages_of("4"))
        assert not ours.store.is_late
        assert len(ours.problems) == 2


async def test_a_thread_that_cannot_start_holds_nothing_up(path, monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    async with opened(path) as ours:
        with monkeypatch.context() as patched, trio.fail_after(10):
            patched.setattr(threading.Thread, "start", refuse)
            assert await ours.store.load("c") is None
            assert not await ours.append("c", *messages_of("0"))
        assert "does not answer" in ours.problems[0]
        assert await ours.texts("c") == ["0"]


@pytest.mark.parametrize(("kib", "is_late"), [(1, True), (32 * 1024, False)])
async def test_a_large_text_is_waited_for_longer_by_all_calls_behind_it(
    path, kib, is_late, mock_clock
):
    async with opened(path, write=1, read=1) as ours:
        await ours.append("c", *messages_of("0"))
        with locked(path) as holder:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ours.append, "c", *messages_of("x" * kib * 1024))
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(ours.append, "d", *messages_of("small"))
                nursery.start_soon(ours.store.load, "d")
                await trio.testing.wait_all_tasks_blocked()
                mock_clock.jump(3.5)
                await trio.testing.wait_all_tasks_blocked()
                assert ours.store.is_late == is_late
                holder.rollback()
        assert bool(ours.problems) == is_late
        ours.set_limits(read=60)
        assert await ours.texts("d") == ["small"]
        await ours.append("d", *messages_of("more"))
        assert ours.store._thread.queued_bytes == 0


async def test_closing_does_not_wait_for_a_disk_that_does_not_answer(path):
    problems: list[str] = []
    async with opened(path) as ours:
        await ours.store.load("c")
    limits = Limits(write=0, close=0.05)
    late = store.Store(path, on_problem=problems.append, limits=limits)
    with locked(path):
        assert not await late.append("c", WORKSPACE, ChatRecord(messages=messages_of("late")))
        with within(2):
            assert not await late.close()
    assert problems == [f"{path} does not answer: chats stay only in memory until it does."]


STEP = UndoStep(path="/f")
ROLLBACK = Rollback(chat="c", cut="one", first_change=1, undoes=True, steps=(STEP,))
LATER = (image("2", "/f", data=b"later"),)


async def test_a_rollback_whose_end_waits_to_be_written_is_not_done_again(path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async with opened(path) as ours, opened(path) as another:
        await ours.append("c", *messages_of("zero", "one"))
        assert await ours.store.note_rollback(ROLLBACK)
        noted = attrs.evolve(ROLLBACK, last_message=2)
        assert await ours.store.unfinished_rollbacks(WORKSPACE, "") == (noted,)
        with monkeypatch.context() as patched:
            patched.setattr(rollbacks, "finish_rollback", full)
            assert not await ours.store.finish_rollback(ROLLBACK)
            assert await ours.store.unfinished_rollbacks(WORKSPACE, "") == ()
        record = ChatRecord(title="named", settings=ChatSettings(trust=True))
        await another.store.finish_rollback(ROLLBACK, record)
        await another.store.add_before_images("c", LATER)
        assert await ours.texts("c") == ["zero"]
        chat = await ours.chat("c")
        assert (chat.title, chat.settings) == (record.title, record.settings)
        assert await ours.store.unfinished_rollbacks(WORKSPACE, "") == ()
        assert await ours.before_images("c") == LATER


async def test_what_another_server_adds_to_a_rollback_that_was_killed_stays(path):
    rollback = attrs.evolve(ROLLBACK, cut="zero")
    async with opened(path) as killed, opened(path) as another:
        await killed.append("c", *messages_of("zero", "one"))
        await killed.store.add_before_images("c", (image("one", "/f", data=b"before"),))
        await killed.store.note_rollback(rollback)
        await another.append("c", *messages_of("two"))
        await another.store.add_before_images("c", LATER)
        [unfinished] = await another.store.unfinished_rollbacks(WORKSPACE, "")
        assert attrs.evolve(unfinished, last_message=None, last_change=None) == rollback
        await another.store.finish_rollback(unfinished)
        assert await another.texts("c") == ["two"]
        assert await another.before_images("c") == LATER
        assert [chat.id for chat in await another.store.list(WORKSPACE, 9)] == ["c"]


async def test_a_step_that_is_noted_takes_those_before_it_along(path):
    steps = tuple(UndoStep(path=name) for name in ("/a", "/b", "/c"))
    async with opened(path) as ours:
        await ours.append("c", *messages_of("zero"))
        await ours.store.note_rollback(Rollback(chat="c", cut=None, steps=steps))
        await ours.store.note_step("c", "/b")
        [unfinished] = await ours.store.unfinished_rollbacks(WORKSPACE, "")
        assert unfinished.steps == steps[2:]


async def test_a_message_that_cannot_be_written_or_read_costs_no_other(path):
    bad = Message(role="user", parts=(BlockPart(raw=object()),), content_id="bad")
    async with opened(path) as ours:
        await ours.append("bad", bad)
        assert await ours.append("good", *messages_of("a", "b", "c"))
        assert await ours.store.load("bad") is None
        assert await ours.texts("good") == ["a", "b", "c"]
        assert ours.problems == ["A part of chat bad could not be stored: LocalProtocolError."]
    rows(path, "UPDATE message SET body = x'7b' WHERE id = 'b'")
    async with opened(path) as ours:
        assert await ours.texts("good") == ["a", "c"]
        (problem,) = ours.problems
        assert problem.startswith("A message of chat good cannot be read")


async def test_a_chat_that_could_not_be_loaded_continues_behind_what_is_stored(path):
    async with opened(path) as ours:
        await ours.append("c", *messages_of("old"))
    path.rename(path.with_name("elsewhere"))
    path.mkdir()
    async with opened(path) as ours:
        assert await ours.store.load("c") is None
        path.rmdir()
        path.with_name("elsewhere").rename(path)
        assert await ours.append("c", *messages_of("new"))
        assert await ours.texts("c") == ["old", "new"]
        assert len(ours.problems) == 1


def forget(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Let the next import of these modules load them again, until the test has ended."""
    for name in modules:
        module = importlib.import_module(f"{package.__name__}.{name}")
        monkeypatch.setattr(package, name, module)  # or the package would keep the new one
        monkeypatch.delitem(sys.modules, module.__name__)


async def test_an_interpreter_without_sqlite_is_reported_once(path, monkeypatch):
    forget(monkeypatch, "file", "salvage", "scan", "schema", "wal")
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    async with opened(path) as ours:
        for number in range(3):
            assert not await ours.append("c", *messages_of(f"{number}"))
        assert await ours.store.load("c") is None
        (problem,) = ours.problems
        assert "sqlite3" in problem
        assert not await ours.store.close()


async def test_modules_that_cannot_be_opened_for_a_while_cost_nothing(path, monkeypatch):
    module = "eca_server.agent.chat.store.file"
    refusals = [OSError(errno.EMFILE, "Too many open files")] * 2

    class Finder:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == module and refusals:
                raise refusals.pop()

    forget(monkeypatch, "file")
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    async with opened(path, write=0.02, late=30.0) as ours:
        await ours.append("c", *messages_of("a"))
        assert await ours.texts("c") == ["a"]
        assert not refusals
