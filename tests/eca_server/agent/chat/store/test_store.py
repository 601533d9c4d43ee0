"""Stored chats exist after a restart, readable only by the user, and only if storing is on."""

import random
import stat
import time
from functools import partial
from pathlib import Path

import pytest
import trio

from eca_server.agent.chat.store import queries, rollbacks
from eca_server.agent.chat.store.file import LARGE_BODY
from eca_server.agent.chat.store.place import store_path, workspace_key
from eca_server.agent.chat.store.rows import ChatRecord, ChatRow, ChatSettings, TurnUsage
from eca_server.agent.chat.store.store import Store
from eca_server.models.history import ImagePart, Message, TextPart
from tests.eca_server.agent.chat.store.keeping import (
    WORKSPACE,
    image,
    messages_of,
    opened,
    opened_file,
    texts_of,
    turn,
)
from tests.lazy import imported_by


async def test_a_chat_comes_back_after_a_restart_as_it_was(path):
    picture = ImagePart(media_type="image/png", data=b"\x00\xff" * 50)
    first = (*turn("a"), Message(role="user", parts=(picture,), content_id="p"))
    before = time.time()
    async with opened(path) as ours:
        assert await ours.append("c", *first, title="A chat")
        assert await ours.append("c", *turn("b"))
    async with opened(path) as ours:
        chat = await ours.chat("c")
    assert chat.messages == (*first, *turn("b"))
    assert (chat.id, chat.title) == ("c", "A chat")
    assert before <= chat.created <= chat.updated <= time.time()


async def test_a_prompt_of_an_older_server_has_the_id_of_its_row(path):
    old = Message(role="user", parts=(TextPart("hi"),))
    row, record = ChatRow("c", WORKSPACE, None, 1.0, 2.0), ChatRecord(messages=(old, old))
    with opened_file(path) as chats:
        query = partial(queries.append, chat=row, record=record, ids=("old", "-made"), turn="t")
        assert chats.write("c", query)
    async with opened(path) as ours:
        assert [each.content_id for each in (await ours.chat("c")).messages] == ["old", None]


async def test_an_error_in_the_settling_of_drafts_hides_no_chat(path, monkeypatch):
    def settle(_: object) -> None:
        raise ValueError("an error of ours")

    async with opened(path) as ours:
        assert await ours.append("c", *turn("a"))
        monkeypatch.setattr("eca_server.agent.chat.store.running.settle", settle)
        assert (await ours.chat("c")).messages == turn("a")


@pytest.mark.parametrize("size", [LARGE_BODY - 200, LARGE_BODY, 3 * LARGE_BODY + 7])
async def test_a_large_message_is_stored_once_and_whole(path, size):
    text = random.Random(size).randbytes(size // 2 + 1).hex()[:size]
    async with opened(path) as ours:
        for each in (text, text, "and a small one"):
            assert await ours.append("c", *messages_of(each))
    async with opened(path) as ours:
        assert await ours.texts("c") == [text, "and a small one"]
        assert ours.problems == []


@pytest.mark.requirement("CHAT-35")
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_of_a_cleared_chat_the_name_and_what_it_took_stay_of_a_deleted_one_nothing(
    path, is_deleted
):
    taken, trusted = TurnUsage(tokens=7), ChatSettings(trust=True)
    async with opened(path) as ours:
        await ours.append("c", *turn("a"), title="named", usage=taken)
        await ours.append("c", settings=ChatSettings(trust=True))
        await ours.append("d", *messages_of("d"))
        await ours.store.add_before_images("c", [image("a-0", "/f", data=b"old")])
        for name in ("c", "never there"):
            if is_deleted:
                assert await ours.store.delete(name)
                assert await ours.store.load(name) is None
            else:
                assert await ours.store.clear(name, ChatRecord(title="mine", settings=trusted))
        assert await ours.before_images("c") == ()
        await ours.append("c", *messages_of("new"))
        chat = await ours.chat("c")
        by_age = [each.id for each in await ours.store.list(WORKSPACE, 9, by="created")]
        assert ours.problems == []
    assert texts_of(chat) == ["new"]
    expected = (None, (), ChatSettings()) if is_deleted else ("mine", (taken,), trusted)
    assert (chat.title, chat.usages, chat.settings) == expected
    assert by_age == (["c", "d"] if is_deleted else ["d", "c"])


async def test_before_images_of_files_are_stored_in_order(path):
    images = (
        image("1", "/f", data=b"before", mode=0o640, after=b"digest"),
        image("1", "/f", data=b"between"),
        image("1", "/new", existed=False),
        image("1", "/large", data=None),
        image("1", "/g", existed=False, moved_from="/\udcfe"),
        image("2", "/\udcff\n", data=b"\0odd\xff"),
    )
    async with opened(path) as ours:
        assert (await ours.store.add_before_images("c", images[:2])).numbers
        assert (await ours.store.add_before_images("other", images[:1])).numbers
        assert (await ours.store.add_before_images("c", images[2:])).numbers
    async with opened(path) as ours:
        assert await ours.before_images("c") == images
        assert await ours.before_images("other") == images[:1]


async def test_changes_are_read_a_part_at_a_time(path, monkeypatch):
    monkeypatch.setattr(rollbacks, "BYTES_AT_ONCE", 20)
    names = [f"/{each}" for each in range(5)]
    async with opened(path) as ours:
        await ours.store.add_before_images(
            "c", [image("1", each, data=b"1" * 10) for each in names]
        )
        first = await ours.store.first_change("c", ["none", "1"])
        changes = await ours.store.changes_from("c", first)
        assert [each.path for each in changes] == names
        assert await ours.store.first_change("c", ["none"]) == 0
    with opened_file(path) as file:
        part = file.read(lambda each: rollbacks.changes_from(each, "c", first))
        assert [each.path for each in part] == names[:2]  # of gigabytes, no call reads all


@pytest.mark.parametrize(("directory", "file"), [(0o755, 0o644), (0o500, 0o400)])
async def test_only_the_user_can_read_and_write_what_is_stored(path, directory, file):
    path.parent.mkdir(parents=True)
    for suffix in ("", "-wal", "-shm", ".lock"):
        Path(f"{path}{suffix}").touch(mode=file)
    path.parent.chmod(directory)
    async with opened(path) as ours:
        await ours.append("c", *turn("a"))
        modes = {
            each.name: stat.S_IMODE(each.stat().st_mode)
            for each in (path.parent, *path.parent.iterdir())
        }
    assert modes == {
        "data": 0o700,
        ".gitignore": 0o600,
        "chats.sqlite": 0o600,
        "chats.sqlite-wal": 0o600,
        "chats.sqlite-shm": 0o600,
        "chats.sqlite.lock": 0o600,
    }


async def test_an_unused_store_touches_nothing(path):
    store = Store(path, on_problem=pytest.fail)
    assert await store.close()
    assert not path.parent.exists()


async def test_after_close_calls_do_nothing(path):
    async with opened(path) as ours:
        await ours.append("c", *messages_of("kept"))
        assert await ours.store.close()
        assert not await ours.append("c", *messages_of("late"))
        assert not await ours.store.delete("c")
        assert await ours.store.load("c") is None
        assert await ours.store.close()
    async with opened(path) as ours:
        assert await ours.texts("c") == ["kept"]


async def test_a_cancelled_append_writes_what_was_given_at_the_call_and_close_ends(
    path,
):
    messages = list(messages_of("a", "b"))
    async with opened(path) as ours:
        with trio.CancelScope() as scope:
            scope.cancel()
            with pytest.raises(trio.Cancelled):
                await ours.store.append("c", WORKSPACE, ChatRecord(messages=messages))
            messages.clear()
            assert await ours.store.close()
    async with opened(path) as ours:
        assert await ours.texts("c") == ["a", "b"]


async def test_odd_ids_and_titles_are_preserved(path):
    odd = ["", "\0", "a\0b", "'; DROP TABLE chat; --", "\U0001f600", "x" * 10_000]
    async with opened(path) as ours:
        for each in odd:
            assert await ours.append(each, *messages_of(each), workspace=each, title=each)
        for each in odd:
            chat = await ours.chat(each)
            assert (chat.title, texts_of(chat)) == (each, [each])
            assert [summary.id for summary in await ours.store.list(each, 2)] == [each]


@pytest.mark.long
def test_sqlite_is_not_imported_before_the_first_call():
    assert "sqlite3" not in imported_by("import eca_server.agent.chat.store.store")


def test_the_file_lies_where_the_xdg_rules_say(tmp_path):
    home = {"HOME": "/home/me"}
    default = Path("/home/me/.local/share/eca-python/chats.sqlite")
    assert store_path(home) == default
    assert store_path({**home, "XDG_DATA_HOME": "relative"}) == default
    assert store_path({**home, "XDG_DATA_HOME": ""}) == default
    configured = store_path({**home, "XDG_DATA_HOME": str(tmp_path)})
    assert configured == tmp_path / "eca-python" / "chats.sqlite"
    assert store_path({}).parts[-4:] == (".local", "share", "eca-python", "chats.sqlite")


def test_a_workspace_is_its_real_roots_in_any_order(tmp_path):
    one, two, link = tmp_path / "one", tmp_path / "two", tmp_path / "link"
    one.mkdir()
    link.symlink_to(one)
    assert workspace_key([one, two]) == workspace_key([two, link, one])
    keys = {workspace_key(roots) for roots in ([], [one], [two], [one, two], [Path("/\udcff")])}
    assert len(keys) == 5
