"""Before-images of files are stored before a call, or known to be missing."""

import os
import sqlite3
import threading
from contextlib import closing
from typing import Any

import pytest
import trio

from eca_server.agent.chat.store import rollbacks
from eca_server.agent.chat.store.worker import LIMITS
from tests.eca_server.agent.chat.current import set_store_limits, since
from tests.eca_server.agent.chat.editor import SCRIPT, call, writes
from tests.eca_server.agent.chat.test_rollback import (
    full_disk,
    refused_rollback,
    roll_back,
    send_prompt,
    shown_messages,
    tree,
)


async def test_a_previous_content_is_stored_though_another_server_delays_the_disk(
    stored, tmp_path, folder
):
    (folder / "b").write_text("old")
    await send_prompt(stored, "say one")
    with closing(sqlite3.connect(next(tmp_path.rglob("chats.sqlite")))) as holder:
        holder.execute("BEGIN IMMEDIATE")
        set_store_limits(stored, write=0.02)
        second = await send_prompt(stored, writes(b="new"))
        set_store_limits(stored, write=LIMITS.write)
    assert tree(folder) == {"b": "new"}
    assert shown_messages(await roll_back(stored, second)) == ["1 file restored."]
    assert tree(folder) == {"b": "old"}


async def test_a_file_whose_previous_content_is_not_saved_is_named(stored, folder, monkeypatch):
    (folder / "b").write_text("old")
    first = await send_prompt(stored, writes(a="1"))
    with monkeypatch.context() as patched:
        patched.setattr(rollbacks, "add_before_images", full_disk)
        second = await send_prompt(stored, writes(b="2"))
    third = await send_prompt(stored, writes(b="3"))
    error = await refused_rollback(stored, second)
    assert f"- {folder / 'b'}: its previous content could not be stored" in error["message"]
    assert tree(folder) == {"a": "1", "b": "3"}
    assert shown_messages(await roll_back(stored, third)) == ["1 file restored."]
    assert (await roll_back(stored, second, "messages"))[0][0] == "chat/cleared"
    assert tree(folder) == {"a": "1", "b": "2"}
    [words] = shown_messages(await roll_back(stored, first, "rest"))
    assert words.startswith("1 new file deleted.\n\nNot restored:\n- ")
    assert tree(folder) == {"b": "2"}
    fourth = await send_prompt(stored, writes(b="4"))
    assert shown_messages(await roll_back(stored, fourth)) == ["1 file restored."]


@pytest.mark.parametrize("late", [False, True])
async def test_what_a_failed_call_changed_is_put_back(stored, folder, monkeypatch, late):
    (folder / "a").write_text("one\n")
    edit = call("edit_file", path="a", original_content="one", new_content="1")
    await stored.prompt(edit, model=SCRIPT)
    pending_call = await stored.content("toolCallRun")
    (folder / "a").write_text("one\nthe user's\n")
    with monkeypatch.context() as patched:
        if late:
            patched.setattr(rollbacks, "add_before_images", full_disk)
        await stored.approve(pending_call)
        await stored.expect_finished()
    assert stored.contents(kind="toolCalled")[0]["error"]
    [first] = stored.contents().prompt_ids
    await send_prompt(stored, f"{call('read_file', path='a')}\n{edit}")
    assert tree(folder) == {"a": "1\nthe user's\n"}
    assert shown_messages(await roll_back(stored, first)) == ["1 file restored."]
    assert tree(folder) == {"a": "one\nthe user's\n"}


async def test_a_call_stopped_before_a_change_leaves_none(stored, folder, monkeypatch):
    begun, goes_on, add = threading.Event(), threading.Event(), rollbacks.add_before_images

    def slowly(*arguments: Any) -> tuple[int, ...]:
        begun.set()
        goes_on.wait(10)
        return add(*arguments)

    (folder / "a").write_text("one\n")
    first = await send_prompt(stored, "say one")
    monkeypatch.setattr(rollbacks, "add_before_images", slowly)
    await stored.prompt(writes(a="2"), model=SCRIPT, trust=True)
    await trio.to_thread.run_sync(begun.wait, 10)
    await stored.expect_stopped()
    goes_on.set()
    (folder / "a").write_text("the user's\n")
    assert shown_messages(await roll_back(stored, first)) == []
    assert tree(folder) == {"a": "the user's\n"}


@pytest.mark.parametrize("call", ["fsync", "link"])
async def test_a_rollback_waits_for_a_stopped_call_that_writes(stored, folder, monkeypatch, call):
    begun, goes_on, real = threading.Event(), threading.Event(), getattr(os, call)

    def slowly(*arguments: Any, **more: Any) -> None:
        begun.set()
        goes_on.wait(30)
        real(*arguments, **more)

    await send_prompt(stored, "say one")
    chat = stored.connection.chats.open("c")
    with monkeypatch.context() as patched:
        patched.setattr(os, call, slowly)
        patched.setattr("eca_server.agent.chat.rollback.BODY_SECONDS", 0.05)
        await stored.prompt(writes(a="1"), model=SCRIPT, trust=True)
        await trio.to_thread.run_sync(begun.wait, 30)
        await stored.expect_stopped()
        second = chat.history[2].content_id
        error = await refused_rollback(stored, second)
    assert "Nothing was undone: a stopped tool call is still running." in error["message"]
    begun_again = len(stored.received)
    again = stored.request("chat/rollback", {"chatId": "c", "contentId": second})
    await stored.send(again)
    goes_on.set()
    await stored.answer(again)
    put_back = ["1 new file deleted."] if call == "link" else []
    assert shown_messages(since(stored, begun_again)) == put_back
    assert tree(folder) == {}
