"""Chats that two editors have open at once: what one adds or deletes, the other takes over."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_server.agent.chat import refreshing
from eca_server.agent.chat.memory import Storage
from eca_server.agent.chat.store import queries
from eca_server.agent.chat.store.place import store_path
from eca_server.agent.chat.store.store import Store
from eca_server.models.history import Message, TextPart
from tests.eca_server.agent.chat.current import current, since, values
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Editor, editor
from tests.eca_server.agent.chat.test_rollback import full_disk, send_prompt
from tests.eca_server.agent.chat.test_stored_chats import shown_title_and_texts


@asynccontextmanager
async def two_editors(data: Path) -> AsyncIterator[tuple[Editor, Editor, str]]:
    """Two editors with one chat of two prompts, and the id of the second one."""
    async with current(data=data) as ours, current(data=data) as theirs:
        for text in ("first", "second"):
            cut = await send_prompt(ours, text, model=ECHO)
        await theirs.ask("chat/open", {"chatId": "c"})
        yield ours, theirs, cut


async def remove(theirs: Editor, what: str, cut: str) -> None:
    """Delete the chat, clear it, or remove its second prompt; the disk has it afterwards."""
    params = {"contentId": cut, "include": ["messages"], "messages": True}
    await theirs.ask(f"chat/{what}", {"chatId": "c", **params})
    await theirs.ask("chat/list")


async def opened(ours: Editor) -> list[str]:
    """Open the chat; return the texts that are shown of it, whatever was shown before."""
    await ours.ask("chat/open", {"chatId": "c"})
    return values(since(ours, cleared_at(ours)))


def cleared_at(ours: Editor) -> int:
    """The position of the last clear; behind all messages if there is none."""
    received = [each.get("method") for each in ours.received]
    cleared = [n for n, method in enumerate(received) if method == "chat/cleared"]
    return cleared[-1] if cleared else len(received)


async def listed(ours: Editor) -> dict[str, int]:
    """The listed chats, with their number of messages."""
    return {each["id"]: each["messageCount"] for each in (await ours.ask("chat/list"))["chats"]}


REMOVED = [("rollback", ["first", "first"]), ("clear", []), ("delete", None)]


@pytest.mark.parametrize(("what", "remaining"), REMOVED)
async def test_what_one_editor_removes_the_other_neither_lists_nor_opens(tmp_path, what, remaining):
    async with two_editors(tmp_path) as (ours, theirs, cut):
        await remove(theirs, what, cut)
        assert await listed(ours) == ({"c": 2} if remaining else {})
        assert await opened(ours) == (remaining or [])
        is_there = (await ours.ask("chat/open", {"chatId": "c"}))["found"]
        assert is_there == (remaining is not None)
        assert "second" not in (ours.model_context() if is_there else "")
        begun = len(ours.received)
        await send_prompt(ours, "three", model=ECHO)
        assert await listed(ours) == await listed(theirs) == {"c": 2 + len(remaining or [])}
        assert not ours.notified("$/showMessage", begun)


@pytest.mark.parametrize(("what", "remaining"), REMOVED)
async def test_what_one_editor_removes_the_other_does_not_send(tmp_path, what, remaining):
    is_deleted, remaining = remaining is None, remaining or []
    what_happened = "This chat was deleted" if is_deleted else "Messages of this chat were removed"
    notice = f"{what_happened} in another editor"
    async with two_editors(tmp_path) as (ours, theirs, cut):
        await remove(theirs, what, cut)
        received = await ours.turn("three", model=ECHO)
        assert notice in received.answer
        assert "second" not in ours.model_context()
        assert ("first" in ours.model_context()) == bool(remaining)
        await ours.notice("chat/cleared")
        await ours.ask("chat/list")
        *texts, last = values(since(ours, cleared_at(ours)))
        assert (texts, notice in last) == ([*remaining, "three", "three"], True)
        assert await opened(ours) == [*remaining, "three", "three"]
        assert not ours.notified("$/showMessage")
        assert notice not in (await ours.turn("four", model=ECHO)).answer
    async with current(data=tmp_path) as later:
        assert await opened(later) == [*remaining, "three", "three", "four", "four"]


async def test_a_deleted_chat_whose_turn_begins_during_the_listing_is_listed(tmp_path, monkeypatch):
    async def prompt_first(store: Store, chat_ids: Collection[str]) -> Collection[str]:
        await ours.send(ours.prompt_request("wait forever", model=SCRIPT))
        while not ours.connection.chats.get("c").is_busy:
            await trio.lowlevel.checkpoint()
        return await emptied(store, chat_ids)

    emptied = Store.emptied
    async with two_editors(tmp_path) as (ours, theirs, cut):
        await remove(theirs, "delete", cut)
        with monkeypatch.context() as patch:
            patch.setattr(Store, "emptied", prompt_first)
            assert list(await listed(ours)) == ["c"]
        await ours.expect_stopped()


async def test_what_a_turn_could_not_wait_for_is_not_sent_by_the_next(tmp_path, monkeypatch):
    async with two_editors(tmp_path) as (ours, theirs, cut):
        await remove(theirs, "rollback", cut)
        await ours.turn("/resume c", chat="different", model=ECHO)  # reads it, too
        with monkeypatch.context() as patch:
            patch.setattr(refreshing, "SECONDS", 0)
            await send_prompt(ours, "three", model=ECHO)
        assert "removed in another editor" in (await ours.turn("four", model=ECHO)).answer
        assert "second" not in ours.model_context()
        await ours.notice("chat/cleared")
        assert await opened(ours) == [
            e for text in ("first", "three", "four") for e in (text, text)
        ]
        assert "another editor" not in (await ours.turn("five", model=ECHO)).answer


async def test_an_editor_that_cannot_clear_a_chat_is_shown_the_notice(tmp_path):
    async with editor(data=tmp_path) as ours, current(data=tmp_path) as theirs:
        cut = (await ours.turn("first", model=ECHO)).prompt_ids[0]
        await theirs.ask("chat/open", {"chatId": "c"})
        await remove(theirs, "rollback", cut)
        assert "removed in another editor" in (await ours.turn("second", model=ECHO)).answer
        assert "first" not in ours.model_context()


async def test_what_one_editor_adds_after_its_rollback_the_other_continues_with(tmp_path):
    async with two_editors(tmp_path) as (ours, theirs, cut):
        await remove(theirs, "rollback", cut)
        for text in ("three", "four"):  # as many as there were, and more
            await send_prompt(theirs, text, model=ECHO)
        await send_prompt(ours, "five", model=ECHO)
        texts = [each for text in ("first", "three", "four", "five") for each in (text, text)]
        assert await opened(ours) == await opened(theirs) == texts


async def test_a_chat_stays_if_its_file_was_removed_and_not_its_messages(tmp_path):
    async with two_editors(tmp_path) as (ours, theirs, _):
        path = store_path({"XDG_DATA_HOME": str(tmp_path)})
        path.unlink()
        await theirs.turn("x", chat="other", model=ECHO)
        assert (await listed(ours))["c"] == 4
        await send_prompt(ours, "three", model=ECHO)
        assert "second" in ours.model_context()
        assert await opened(ours) == ["first", "first", "second", "second", "three", "three"]


async def test_a_renamed_chat_that_was_deleted_elsewhere_stays_deleted(tmp_path):
    async with two_editors(tmp_path) as (ours, theirs, cut):
        await remove(theirs, "delete", cut)
        await ours.ask("chat/update", {"chatId": "c", "title": "mine"})
        assert await listed(ours) == {}
        assert await opened(ours) == []


async def test_a_chat_that_is_opened_again_shows_what_another_server_added(tmp_path):
    async with current(data=tmp_path) as ours, current(data=tmp_path) as theirs:
        await send_prompt(ours, "one", model=ECHO)
        await theirs.ask("chat/open", {"chatId": "c"})
        await send_prompt(theirs, "two", model=ECHO)
        await theirs.ask("chat/update", {"chatId": "c", "title": "theirs"})
        title, texts = await shown_title_and_texts(ours)
        assert (title, texts) == ("theirs", ["one", "one", "two", "two"])
        await send_prompt(ours, "three", model=ECHO)
        assert "two" in ours.model_context()


async def test_what_came_while_an_opened_chat_was_read_again_stays(tmp_path, monkeypatch):
    async with current(data=tmp_path) as ours, current(data=tmp_path) as theirs:
        await send_prompt(ours, "one", model=ECHO)
        await theirs.ask("chat/open", {"chatId": "c"})
        await send_prompt(theirs, "two", model=ECHO)
        history = ours.connection.chats.get("c").history
        read = Storage.read_changed

        async def read_slowly(self: Storage, known: Sequence[Message], **more: Any) -> Any:
            stored = await read(self, known, **more)
            assert stored is not None
            history.replace([*history, Message(role="user", parts=(TextPart("three"),))])
            return stored

        monkeypatch.setattr(Storage, "read_changed", read_slowly)
        await ours.ask("chat/open", {"chatId": "c"})
        assert "three" in repr(history.model_context)


async def test_a_turn_that_is_not_on_the_disk_stays_when_the_chat_is_opened_again(
    tmp_path, monkeypatch
):
    async with current(data=tmp_path) as ours, current(data=tmp_path) as theirs:
        await send_prompt(ours, "one", model=ECHO)
        await ours.ask("chat/update", {"chatId": "c", "title": "ours"})
        await theirs.ask("chat/open", {"chatId": "c"})
        for text in ("two", "three"):
            await send_prompt(theirs, text, model=ECHO)
        with monkeypatch.context() as patch:
            patch.setattr(queries, "append", full_disk)
            await send_prompt(ours, "unstored", model=ECHO)
            _, texts = await shown_title_and_texts(ours)
        assert texts == ["one", "one", "unstored", "unstored"]
