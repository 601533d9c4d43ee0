"""Calls of one answer that rest on each other, and what the files were before them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_server.agent.chat.store.place import store_path
from eca_server.agent.chat.store.rows import BeforeImage
from eca_server.agent.chat.store.store import Store
from eca_server.agent.tools.move_file import MoveFile
from eca_server.agent.tools.tool import ToolOutput
from eca_server.agent.tools.write_file import WriteFile
from tests.eca_server.agent.chat.agent_session import (
    ALLOW,
    calls,
    of_calls,
    order,
    results,
    session,
)
from tests.eca_server.agent.chat.editor import Content, Editor, finishes
from tests.eca_server.agent.chat.store.keeping import before_images
from tests.eca_server.agent.chat.test_rollback import tree

Call = tuple[str, dict[str, str]]


def write(path: str, content: str) -> Call:
    return "eca_write_file", {"path": path, "content": content}


def edit(path: str, original: str, new: str) -> Call:
    return "eca_edit_file", {"path": path, "original_content": original, "new_content": new}


def move(source: str, destination: str) -> Call:
    return "eca_move_file", {"source": source, "destination": destination}


def shell(command: str) -> Call:
    return "eca_shell_command", {"command": command}


def told_of(ours: Editor, call: Content) -> list[Content]:
    return [each for each in of_calls(ours) if each["id"] == call["id"]]


@pytest.mark.requirement("TOOL-14")
async def test_a_call_is_asked_for_when_what_it_rests_on_was_done(tmp_path):
    (tmp_path / "other").write_text("one")
    made = calls(write("a", "one\n"), edit("a", "one", "two"), edit("other", "one", "1"))
    async with session(tmp_path, made) as (ours, provider):
        await ours.prompt("go")
        first = await ours.content("toolCallRun")
        third = await ours.content("toolCallRun")
        assert third["arguments"]["path"] == "other"
        assert [each["type"] for each in of_calls(ours)].count("toolCallRun") == 2
        await ours.approve(third)
        await ours.approve(first)
        second = await ours.content("toolCallRun")
        assert second["details"]["diff"] == "@@ -1 +1 @@\n-one\n+two"
        assert (tmp_path / "other").read_text() == "one"
        await ours.approve(second)
        await ours.expect_finished()
        for call in (first, second, third):
            assert order(told_of(ours, call)) == ["Prepare", "Run", "Running", "ed"]
        assert (tmp_path / "a").read_text() == "two\n"
        assert (tmp_path / "other").read_text() == "1"
        assert [text.split()[0] for text in results(provider)] == ["Created", "Edited", "Edited"]


@pytest.mark.requirement("W-35a", "TOOL-13")
@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ([edit("f", "one", "1"), edit("f", "two", "2"), edit("f", "1", "I")], {"f": "I\n2\n"}),
        ([edit("f", "one", "1"), write("f", "new\n")], {"f": "new\n"}),
        ([write("f", "new\n"), write("f", "newer\n"), move("f", "g")], {"g": "newer\n"}),
        ([move("f", "g"), write("f", "new\n"), edit("g", "one", "1")],
            {"f": "new\n", "g": "1\ntwo\n"}),
        ([move("f", "a/f"), move("a", "b"), edit("b/f", "two", "2")], {"b/f": "one\n2\n"}),
        ([edit("f", "one", "1"), move("f", "g"), move("g", "f")], {"f": "1\ntwo\n"}),
        ([shell("echo new > g; mkdir d"), edit("g", "new", "newer"),
            ("eca_shell_command", {"command": "mv ../f .", "working_directory": "d"})],
            {"d/f": "one\ntwo\n", "g": "newer\n"}),
        ([move("f", "g"), move("g", "h"), write("h", "new\n")], {"h": "new\n"}),
        ([edit("gone", "a", "b"), write("f", "new\n")], {"f": "new\n"}),
    ],
)  # fmt: skip
async def test_calls_of_one_answer_change_what_the_ones_before_them_left(tmp_path, made, expected):
    (tmp_path / "f").write_text("one\ntwo\n")
    async with session(tmp_path, calls(*made), **ALLOW) as (ours, _):
        await ours.turn("go")
        errors = [each["error"] for each in of_calls(ours) if each["type"] == "toolCalled"]
        assert errors == [call[1].get("path") == "gone" for call in made]
    assert tree(tmp_path) == expected


async def test_what_rests_on_a_rejected_call_cannot_be_done(tmp_path):
    made = calls(write("a", "one"), edit("a", "one", "two"))
    async with session(tmp_path, made) as (ours, provider):
        await ours.prompt("go")
        await ours.reject(await ours.content("toolCallRun"))
        await ours.expect_finished()
        assert "does not exist" in results(provider)[1]
        assert order(of_calls(ours))[-3:] == ["Rejected", "Run", "ed"]
    assert tree(tmp_path) == {}


async def test_what_can_never_be_done_is_reported_at_once_where_nothing_is_to_come(tmp_path):
    made = calls(edit("a", "one", "two"), ("eca_read_file", {"path": 5}), write("b", "two"))
    async with session(tmp_path, made) as (ours, _):
        await ours.prompt("go")
        asked = await ours.content("toolCallRun", manualApproval=True)
        assert asked["arguments"]["path"] == "b"
        assert [each["error"] for each in of_calls(ours) if "error" in each] == [True, True]
        await ours.stop()


async def test_a_stop_rejects_what_was_not_asked_for_yet(tmp_path):
    made = calls(write("a", "one"), edit("a", "one", "two"))
    async with session(tmp_path, made) as (ours, _):
        await ours.prompt("go")
        await ours.content("toolCallRun")
        await ours.expect_stopped()
        rejected = [each for each in of_calls(ours) if each["type"] == "toolCallRejected"]
        assert [each["reason"] for each in rejected] == ["user-choice"] * 2
        assert finishes(ours.contents()) == 1
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("path", ["a", ""])
async def test_a_stop_while_a_call_is_looked_at_closes_it_once(tmp_path, monkeypatch, caplog, path):
    (tmp_path / "a").write_text("one")
    async with session(tmp_path, calls(move(path, "b"))) as (ours, _):
        look = MoveFile._look

        def stop_meanwhile(tool: MoveFile, *paths: str) -> Any:
            trio.from_thread.run_sync(ours.connection.chats.open("c").stop)
            return look(tool, *paths)

        monkeypatch.setattr(MoveFile, "_look", stop_meanwhile)
        await ours.turn("go")
        assert order(of_calls(ours)) == ["Prepare", "Rejected"]
    assert not caplog.records


async def kept_images(data: Path) -> list[BeforeImage]:
    store = Store(store_path({"XDG_DATA_HOME": str(data)}), on_problem=pytest.fail)
    images = await before_images(store, "c")
    await store.close()
    return [*images]


async def test_a_file_is_saved_before_it_is_changed(tmp_path, folder, monkeypatch):
    data = tmp_path / "data"
    (folder / "f").write_text("before")
    found = []

    def look_what_is_kept(*_: object) -> ToolOutput:
        found.extend(trio.from_thread.run(kept_images, data))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(WriteFile, "_write", look_what_is_kept)
    async with session(folder, calls(write("f", "x")), data=data, **ALLOW) as (ours, _):
        await ours.turn("go")
    assert [image.data for image in found] == [b"before"]


async def test_nothing_is_stored_or_changed_by_a_call_whose_chat_was_deleted_meanwhile(
    tmp_path, folder, monkeypatch
):
    data = tmp_path / "data"
    (folder / "f").write_text("a secret")
    async with session(folder, calls(write("f", "x")), data=data, **ALLOW) as (ours, _):
        look = WriteFile._plan

        def delete_meanwhile(tool: WriteFile, *arguments: Any) -> Any:
            trio.from_thread.run_sync(ours.connection.chats.delete, "c")
            return look(tool, *arguments)

        monkeypatch.setattr(WriteFile, "_plan", delete_meanwhile)
        await ours.prompt("go")
        turn = ours.connection.chats.open("c").turn
        assert turn is not None
        await turn.ended.wait()
    assert await kept_images(data) == []
    assert tree(folder) == {"f": "a secret"}
    files = [Path(name, each) for name, _, names in os.walk(data) for each in names]
    assert not any(b"secret" in each.read_bytes() for each in files)
