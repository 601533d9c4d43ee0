"""What files were before a call changes them is kept, or it is known that it is not."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from eca_server.chat.store.database import Database
from tests.eca_server.chat.current import current, refused
from tests.eca_server.chat.test_rollback import (
    full_disk,
    rolled_back,
    said,
    shown,
    tree,
    writes,
)

pytestmark = [pytest.mark.trio, pytest.mark.requirement]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


async def test_what_a_file_was_is_kept_though_another_server_holds_the_disk_up(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "b").write_text("old")
    async with current(data=tmp_path, folder=folder) as ours:
        await said(ours, "say one")
        with closing(sqlite3.connect(next(tmp_path.rglob("chats.sqlite")))) as holder:
            holder.execute("BEGIN IMMEDIATE")
            monkeypatch.setattr("eca_server.chat.store.store.WRITE_SECONDS", 0.02)
            second = await said(ours, writes(b="new"))
        assert tree(folder) == {"b": "new"}
        assert shown(await rolled_back(ours, second)) == ["1 file put back."]
        assert tree(folder) == {"b": "old"}


async def test_a_file_is_named_if_what_it_was_could_not_be_kept(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "b").write_text("old")
    async with current(data=tmp_path, folder=folder) as ours:
        first = await said(ours, writes(a="1"))
        with monkeypatch.context() as patched:
            patched.setattr(Database, "add_before_images", full_disk)
            second = await said(ours, writes(b="2"))
        third = await said(ours, writes(b="3"))
        asked = {"chatId": "c", "contentId": second}
        error = await refused(ours, "chat/rollback", asked)
        assert f"- {folder / 'b'}: what it was could not be kept" in error["message"]
        assert tree(folder) == {"a": "1", "b": "3"}
        assert shown(await rolled_back(ours, third)) == ["1 file put back."]
        assert (await rolled_back(ours, second, "messages"))[0][0] == "chat/cleared"
        assert tree(folder) == {"a": "1", "b": "2"}
        [words] = shown(await rolled_back(ours, first, "rest"))
        assert words.startswith("1 file put back.\n\nLeft as they are:\n- ")
        assert tree(folder) == {"b": "2"}
        assert shown(await rolled_back(ours, await said(ours, writes(b="4")))) == [
            "1 file put back."
        ]
