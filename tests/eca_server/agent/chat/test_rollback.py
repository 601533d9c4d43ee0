"""Chats that go back to before a message, with the files they changed, and chats that fork."""

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from eca_server.agent.chat.store.rows import Rollback, StoredContent, UndoStep
from eca_server.agent.chat.store.store import Store
from eca_server.config.lock import Locked
from eca_server.connection.features import rollback
from tests.eca_server.agent.chat.agent_session import hook, hooked
from tests.eca_server.agent.chat.current import current, reaction, refused, reopened, since, values
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Editor, call, contents, writes


async def send_prompt(ours: Editor, text: str, **params: Any) -> str:
    """Send a prompt to a chat that trusts, wait for its end, and return its content id."""
    received = await ours.turn(text, trust=True, **{"model": SCRIPT, **params})
    return received.prompt_ids[0]


async def roll_back(ours: Editor, content_id: str, *include: str) -> list[tuple[str, Any]]:
    params = {"chatId": "c", "contentId": content_id, "include": list(include)}
    return await reaction(ours, "chat/rollback", params)


async def refused_rollback(ours: Editor, content_id: str, *include: str, chat: str = "c") -> Any:
    """The error of a rollback that is refused."""
    params = {"chatId": chat, "contentId": content_id, "include": list(include)}
    return await refused(ours, "chat/rollback", params)


def shown_messages(messages: list[tuple[str, Any]]) -> list[str]:
    return [params["message"] for params in values(messages, "$/showMessage")]


def tree(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


@pytest.mark.requirement("FIELD:ChatRollbackParams.chatId", "FIELD:ChatRollbackParams.contentId")
async def test_a_chat_goes_back_and_the_client_is_shown_what_remains(tmp_path, folder):
    async with current(data=tmp_path, folder=folder) as ours:
        first = await send_prompt(ours, "say one")
        second = await send_prompt(ours, writes(a="1"))
        await ours.ask("chat/addFlag", {"chatId": "c", "contentId": second, "text": "here"})
        messages = await roll_back(ours, second)
        names = [name for name, _ in messages]
        assert names == ["chat/cleared", "text", "text", "usage", "$/showMessage", "answer"]
        assert values(messages) == ["say one", "one"]
        assert shown_messages(messages) == ["1 new file deleted."]
        assert tree(folder) == {}
        assert (await refused_rollback(ours, second))["code"] == -32602
        assert (await refused_rollback(ours, first, chat="no"))["code"] == -32602
        assert not (await ours.ask("chat/open", {"chatId": "no"}))["found"]
        await send_prompt(ours, "again", model=ECHO)
    async with current(data=tmp_path, folder=folder) as ours:
        texts = await reopened(ours)
        assert texts == ["say one", "one", "again", "again"]
        names = [name for name, _ in await roll_back(ours, first)]
        assert names[:2] == ["chat/cleared", "answer"]
        assert (await ours.ask("chat/list"))["chats"] == []


@pytest.mark.requirement("FIELD:ChatRollbackParams.include", "VALUE:ChatRollbackInclude=messages")
async def test_messages_and_files_go_back_each_without_the_other(stored, folder):
    first = await send_prompt(stored, writes(a="1", b="x"))
    second = await send_prompt(stored, writes(a="2"))
    third = await send_prompt(stored, writes(a="3"))
    messages = await roll_back(stored, third, "tools")
    assert [name for name, _ in messages] == ["$/showMessage", "answer"]
    assert tree(folder) == {"a": "2", "b": "x"}
    assert (await roll_back(stored, second, "messages"))[0][0] == "chat/cleared"
    assert tree(folder) == {"a": "2", "b": "x"}
    assert shown_messages(await roll_back(stored, first)) == ["2 new files deleted."]
    assert tree(folder) == {}


@pytest.mark.parametrize("include", [(), ("messages",)])
async def test_later_messages_go_with_one_that_the_store_has_lost(tmp_path, folder, include):
    async with current(data=tmp_path, folder=folder) as ours:
        lost = await send_prompt(ours, writes(a="1"))
        for file in tmp_path.rglob("chats.sqlite*"):
            file.unlink()
        await send_prompt(ours, writes(a="2"))
        assert values(await roll_back(ours, lost, *include)) == []
        assert tree(folder) == {"a": "2" if include else "1"}
    async with current(data=tmp_path, folder=folder) as ours:
        assert (await ours.ask("chat/list"))["chats"] == []


@pytest.mark.requirement("VALUE:ChatRollbackInclude=tools")
@pytest.mark.parametrize("patiently", [True, False])
async def test_a_file_changed_by_others_stops_a_rollback(stored, folder, monkeypatch, patiently):
    (folder / "kept").write_text("old")
    monkeypatch.setattr("eca_server.agent.chat.memory.LARGEST_IMAGE", 1000)
    monkeypatch.setattr(rollback, "ASKED_AGAIN", (60.0, 120.0))
    full = "x" * 1000
    (folder / "full").write_text(full)
    (folder / "big").write_text(f"{full}x")
    (folder / "kept").chmod(0o640)
    changed = writes(kept="new", mine="1", gone="2", big="small", full="small")
    first = await send_prompt(stored, changed)
    (folder / "mine").write_text("the user's")
    (folder / "kept").unlink()
    begun = len(stored.received)
    error = await refused_rollback(stored, first)
    assert error["data"] == {"code": "not_restorable"}
    assert shown_messages(since(stored, begun)) == [error["message"]]
    assert f"{folder / 'mine'}: changed since" in error["message"]
    assert f"{folder / 'big'}: too large to be stored before the change" in error["message"]
    assert "kept:" not in error["message"]
    expected = {"mine": "the user's", "gone": "2", "big": "small", "full": "small"}
    assert tree(folder) == expected
    assert (await refused_rollback(stored, first))["message"] == error["message"]
    assert (await refused_rollback(stored, first, "tools"))["data"]
    assert tree(folder) == expected
    if patiently:  # to ask once more is to want the rest
        monkeypatch.setattr(rollback, "ASKED_AGAIN", (0.0, 60.0))
    how = ("tools",) if patiently else ("tools", "rest")
    [words] = shown_messages(await roll_back(stored, first, *how))
    assert words.startswith("2 files restored, 1 new file deleted.\n\nNot restored:\n- ")
    assert tree(folder) == {"mine": "the user's", "kept": "old", "big": "small", "full": full}
    assert (folder / "kept").stat().st_mode & 0o777 == 0o640


async def test_a_double_click_is_no_confirmation_however_slow_the_disk_is(
    stored, folder, monkeypatch
):
    monkeypatch.setattr(rollback, "ASKED_AGAIN", (0.0, 60.0))  # as if the refusal took a second
    first = await send_prompt(stored, writes(mine="1"))
    (folder / "mine").write_text("the user's")
    params = {"chatId": "c", "contentId": first, "include": ["tools"]}
    clicks = [stored.request("chat/rollback", params) for _ in range(2)]
    await stored.send(*clicks)
    for click in clicks:
        answer = await stored.until(lambda each, click=click: each.get("id") == click["id"])
        assert answer["error"]["data"] == {"code": "not_restorable"}


async def test_a_client_that_drops_messages_has_those_of_a_rollback_in_its_chat(tmp_path, folder):
    vscode = {"clientInfo": {"name": "VsCode"}}
    async with current(data=tmp_path, folder=folder, **vscode) as ours:
        first = await send_prompt(ours, writes(mine="1"))
        (folder / "mine").write_text("the user's")
        error = await refused_rollback(ours, first)
        assert ours.contents()[-1]["text"] == f"\n\n{error['message']}\n\n"
        assert error["message"] not in str(await ours.turn("say more", model=SCRIPT))
        (folder / "mine").write_text("1")
        await roll_back(ours, first)
        last = {"type": "text", "text": "\n\n1 new file deleted.\n\n"}
        assert contents(ours.received)[-1] == ("system", last)


async def test_what_commands_changed_stays_and_the_user_is_notified(stored, folder):
    denied = await send_prompt(stored, call("shell_command", command="touch b"), agent="plan")
    assert stored.contents(kind="toolCallRejected")
    assert shown_messages(await roll_back(stored, denied)) == []
    first = await send_prompt(
        stored, f"{writes(a='1')}\n{call('shell_command', command='touch b')}", agent="code"
    )
    [words] = shown_messages(await roll_back(stored, first))
    assert words == "1 new file deleted.\n\nChanges made by shell commands were not undone."
    assert tree(folder) == {"b": ""}


@pytest.mark.parametrize("is_late", [False, True])
async def test_what_a_hook_makes_of_a_written_file_is_undone_too(tmp_path, folder, is_late):
    (folder / "f").write_text("old")
    command = f"echo formatted > {folder / 'f'}"
    config = hooked(h=hook("postToolCall", command, matcher=".*write_file"))
    async with current(config, data=tmp_path, folder=folder) as ours:
        first = await send_prompt(ours, writes(f="new", g="new"))
        assert tree(folder) == {"f": "formatted\n", "g": "new"}
        if is_late:
            (folder / "f").write_text("the user's")
            assert "changed since" in (await refused_rollback(ours, first))["message"]
            return
        await roll_back(ours, first)
    assert tree(folder) == {"f": "old"}


def full_disk(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def nothing(*_: Any) -> None:
    await trio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("broken", "by", "why", "meanwhile"),
    [
        ("undo.replace_file", full_disk, "No space left on device", {"b": "4"}),
        ("store.store.Store.content", nothing, "its previous content cannot be read now",
            {"a": "1", "b": "4"}),
    ],
)  # fmt: skip
async def test_what_cannot_be_put_back_is_later(
    tmp_path, folder, monkeypatch, broken, by, why, meanwhile
):
    (folder / "b").write_text("old")
    (folder / "c").write_text("old")
    async with current(data=tmp_path, folder=folder) as ours:
        calls = f"{writes(a='1', b='2', c='3')}\n{writes(b='4', c='5')}"
        first = await send_prompt(ours, f"{calls}\nsay done")
        (folder / "c").write_text("old")  # by hand
        with monkeypatch.context() as patched:
            patched.setattr(f"eca_server.agent.chat.{broken}", by)
            error = await refused_rollback(ours, first)
        assert f"- {folder / 'b'}: {why}" in error["message"]
        assert "the messages were not removed" in error["message"]
        assert tree(folder) == {**meanwhile, "c": "old"}
        await send_prompt(ours, "say more")
    async with current(data=tmp_path, folder=folder) as ours:
        assert [each["messageCount"] for each in (await ours.ask("chat/list"))["chats"]] == [6]
        [words] = shown_messages(await roll_back(ours, first))
        done = ["1 file restored", "1 new file deleted"][: len(meanwhile)]
        assert words == f"{', '.join(done)}."
        assert tree(folder) == {"b": "old", "c": "old"}


async def test_what_was_refused_is_not_done_later(stored, folder, monkeypatch):
    note = Store.note_rollback

    async def note_late(store: Store, rollback: Rollback) -> bool:
        await note(store, rollback)
        return False

    first = await send_prompt(stored, writes(a="1"))
    monkeypatch.setattr(Store, "note_rollback", note_late)
    error = await refused_rollback(stored, first)
    assert error["message"] == "Nothing was undone: the rollback cannot be recorded on disk."
    await send_prompt(stored, "say more")
    [chat] = (await stored.ask("chat/list"))["chats"]
    assert chat["messageCount"] > 2
    assert tree(folder) == {"a": "1"}


async def test_moves_and_links_are_seen_through(stored, tmp_path, folder):
    (folder / "here").mkdir()
    (folder / "here" / "f").write_text("1")
    moved = call("move_file", source="here", destination="there/deep")
    first = await send_prompt(stored, f"{writes(**{'here/f': '2'})}\n{moved}")
    second = await send_prompt(stored, writes(**{"there/deep/f": "3", "there/new": "4"}))
    (folder / "there").rename(tmp_path / "outside")
    (folder / "there").symlink_to(tmp_path / "outside")
    assert "now a link to" in (await refused_rollback(stored, second))["message"]
    (folder / "there").unlink()
    (tmp_path / "outside").rename(folder / "there")
    assert shown_messages(await roll_back(stored, first)) == [
        "2 files restored, 1 new file deleted."
    ]
    assert tree(folder) == {"here/f": "1"}


async def test_a_file_whose_name_the_disk_spells_differently_is_restored(stored, folder):
    composed, decomposed = "\xe9", "e\u0301"
    (folder / composed).write_text("1")
    first = await send_prompt(stored, writes(**{composed: "2"}))
    (folder / composed).rename(folder / decomposed)
    assert shown_messages(await roll_back(stored, first)) == ["1 file restored."]
    assert tree(folder) == {decomposed: "1"}


async def test_a_different_file_in_the_place_of_a_moved_one_stays(stored, folder):
    (folder / "old").write_text("ours")
    first = await send_prompt(stored, call("move_file", source="old", destination="new"))
    (folder / "new").write_text("not ours")  # as in another repository in this place
    assert "new: changed since" in (await refused_rollback(stored, first))["message"]
    assert tree(folder) == {"new": "not ours"}
    (folder / "new").write_text("ours")
    assert shown_messages(await roll_back(stored, first)) == ["1 file restored."]
    assert tree(folder) == {"old": "ours"}


async def test_a_stop_drops_a_prompt_that_waits_for_a_rollback(stored):
    await send_prompt(stored, "say one")
    begun, done = len(stored.received), trio.Event()
    worked = stored.connection.chats.open("c").mailbox.do(done.wait)
    await stored.prompt("hello", model=ECHO)
    await stored.stop()
    await stored.ask("chat/list")  # which comes after it
    done.set()
    await worked.wait()
    await stored.turn("bye", model=ECHO)
    texts = values(since(stored, begun))
    assert texts == ["Stopped. Prompts that were dropped:\n\nhello", "bye", "bye"]


async def test_a_chat_deleted_while_it_goes_back_is_gone_after_a_shutdown(tmp_path):
    async with current(data=tmp_path) as ours:
        await send_prompt(ours, "say one")
        done = trio.Event()
        ours.connection.chats.open("c").mailbox.do(done.wait)
        await ours.ask("chat/delete", {"chatId": "c"})
        request = ours.request("shutdown")
        await ours.send(request)
        await trio.testing.wait_all_tasks_blocked()
        done.set()
        await ours.answer(request)
    async with current(data=tmp_path) as ours:
        assert (await ours.ask("chat/list"))["chats"] == []


@pytest.mark.parametrize("taken_again", [True, False])
async def test_a_chat_deleted_twice_while_it_goes_back_is_deleted_then(stored, taken_again):
    await send_prompt(stored, "say one")
    done, memory = trio.Event(), stored.connection.chats.memory
    worked = stored.connection.chats.open("c").mailbox.do(done.wait)
    await stored.ask("chat/delete", {"chatId": "c"})
    if taken_again:
        await stored.prompt("hello", model=ECHO)
    await stored.ask("chat/delete", {"chatId": "c"})
    assert await memory.store.load("c") is not None
    done.set()
    await worked.wait()
    await trio.testing.wait_all_tasks_blocked()
    await stored.ask("chat/list")
    assert await memory.store.load("c") is None


async def test_a_chat_is_not_read_back_while_its_rollback_is_being_finished(tmp_path, monkeypatch):
    at_it, goes_on, ended = trio.Event(), trio.Event(), []

    @asynccontextmanager
    async def impatient_lock(*_: Any, **__: Any) -> AsyncIterator[None]:
        if at_it.is_set():
            raise Locked
        yield

    content = Store.content

    async def late(store: Store, number: int) -> StoredContent | None:
        at_it.set()
        await goes_on.wait()
        ended.append("finished")
        return await content(store, number)

    monkeypatch.setattr(Store, "content", late)
    monkeypatch.setattr("eca_server.agent.chat.restoring.lock", impatient_lock)
    async with current(data=tmp_path) as ours:
        await send_prompt(ours, "say one")
        memory = ours.connection.chats.memory
        steps = (UndoStep(path=str(tmp_path / "f"), change=1),)
        await memory.store.note_rollback(Rollback(chat="c", cut=None, steps=steps))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(memory.rollbacks.recover)
            await at_it.wait()

            @nursery.start_soon
            async def read_back() -> None:
                await memory.rollbacks.recover("c")
                ended.append("read back")

            await trio.testing.wait_all_tasks_blocked(0.05)
            goes_on.set()
    assert ended[0] == "finished"


@pytest.mark.requirement(
    "FIELD:ChatForkParams.chatId", "FIELD:ChatForkParams.contentId", "FIELD:ChatForkResponse.chatId"
)
async def test_a_fork_continues_beside_the_chat_it_came_from(tmp_path, folder):
    async with current(data=tmp_path, folder=folder) as ours:
        await send_prompt(ours, "say one")
        second = await send_prompt(ours, "say two")
        third = await send_prompt(ours, "say three")
        for content_id in (second, third):
            flag = {"chatId": "c", "contentId": content_id, "text": "here"}
            await ours.ask("chat/addFlag", flag)
        await ours.ask("chat/update", {"chatId": "c", "title": "Mine (9)"})
        messages = await reaction(ours, "chat/fork", {"chatId": "c", "contentId": second})
        assert messages[0][0] == "chat/opened"
        new = messages[0][1]["chatId"]
        assert messages[1:] == [
            ("text", "say one"), ("text", "one"), ("text", "say two"), ("flag", "here"),
            ("usage", None), ("metadata", "Mine (10)"),
            ("text", "\n\nThis chat was forked to Mine (10).\n\n"), ("answer", {"chatId": new}),
        ]  # fmt: skip
        params = {"chatId": "c", "contentId": "no"}
        assert "got 'no'" in (await refused(ours, "chat/fork", params))["message"]
        await ours.turn("say four", new, model=SCRIPT)
        await ours.ask("chat/delete", {"chatId": "c"})
    async with current(data=tmp_path, folder=folder) as ours:
        [listed] = (await ours.ask("chat/list"))["chats"]
        assert [listed["id"], listed["title"], listed["messageCount"]] == [new, "Mine (10)", 5]
        texts = await reopened(ours, new)
        assert texts == ["say one", "one", "say two", "say four", "four"]


async def test_in_a_chat_deleted_meanwhile_nothing_is_reported_of_its_fork(stored, monkeypatch):
    async def append(*_: object, **__: object) -> None:
        stored.connection.chats.delete("c")

    content_id = await send_prompt(stored, "say one")
    await stored.ask("chat/update", {"chatId": "c", "title": "Mine"})
    chat, begun = stored.connection.chats.open("c"), len(stored.received)
    monkeypatch.setattr(Store, "append", append)
    await stored.ask("chat/fork", {"chatId": "c", "contentId": content_id})
    chat.titling.announce()
    await stored.ask("chat/queryContext", {"query": ""})
    assert contents(stored.received[begun:]) == []


async def test_a_chat_deleted_meanwhile_has_its_files_back_and_its_id_is_free(tmp_path, folder):
    async with current(data=tmp_path, folder=folder) as ours:
        first = await send_prompt(ours, writes(**{f"f{number}": "1" for number in range(5)}))
        request = ours.request("chat/rollback", {"chatId": "c", "contentId": first})
        delete = ours.request("chat/delete", {"chatId": "c"})
        await ours.send(request, delete, ours.prompt_request("hello", model=ECHO))
        await ours.expect_finished()
        assert tree(folder) == {}
    async with current(data=tmp_path, folder=folder) as ours:
        assert await reopened(ours) == ["hello"] * 2


async def test_where_chats_are_not_stored_the_user_is_notified_that_files_stay(folder):
    async with current(folder=folder) as ours:
        first = await send_prompt(ours, writes(a="1"))
        second = await send_prompt(ours, "say hello")
        assert shown_messages(await roll_back(ours, second)) == []
        [words] = shown_messages(await roll_back(ours, first))
        assert words == "No file was restored: this server stores no chats and file contents."
        assert tree(folder) == {"a": "1"}
