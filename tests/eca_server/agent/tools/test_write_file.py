"""`write_file`: whole files, as approved, never over an unknown content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from eca_server.agent.tools import write_file
from eca_server.agent.tools.read_file import ReadFile
from eca_server.agent.tools.tool import ToolError
from eca_server.agent.tools.write_file import WriteFile
from eca_server.workspace.reading import Fingerprint
from tests.eca_server.agent.tools.file_tools import (
    change_of,
    files_in,
    prepare,
    run,
    stop_at_checkpoints,
)


@pytest.fixture
def tool(tmp_path: Path) -> WriteFile:
    return WriteFile(files=files_in(tmp_path))


async def refusal(tool: WriteFile, path: str, content: str = "new") -> str:
    with pytest.raises(ToolError) as fault:
        await run(tool, path=path, content=content)
    return str(fault.value)


async def test_a_new_file_is_created_with_its_directories(tool, tmp_path):
    call = await prepare(tool, path="a/b/new.txt", content="one\ntwo\n")
    assert not (tmp_path / "a").exists()
    assert call.paths == ("a/b/new.txt",)
    assert call.summary == "Creating file new.txt"
    output = await call.run()
    assert (tmp_path / "a/b/new.txt").read_text() == "one\ntwo\n"
    change = change_of(output)
    assert change == change_of(call)
    assert change.path == str(tmp_path / "a/b/new.txt")
    assert change.diff == "@@ -0,0 +1,2 @@\n+one\n+two"
    assert (change.lines_added, change.lines_removed) == (2, 0)


async def test_an_existing_file_is_compared_with_what_it_was(tool, tmp_path):
    (tmp_path / "f").write_text("one\ntwo\n")
    change = change_of(await run(tool, path="f", content="one\n2\n"))
    assert change.diff == "@@ -1,2 +1,2 @@\n one\n-two\n+2"
    assert (tmp_path / "f").read_text() == "one\n2\n"


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "a\nc\n", b"a\r\nc\r\n"),
        (b"a\nb\n", "a\r\nc\r\n", b"a\r\nc\r\n"),
        (b"\xef\xbb\xbfa\n", "ü", b"\xef\xbb\xbf\xc3\xbc"),
        (b"caf\xe9 au lait\n", "ca é\n", b"ca \xe9\n"),
        (b"caf\xe9 au lait\n", "€\n", b"\xe2\x82\xac\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffb\n", b"\xef\xbb\xbfb\n"),
        (b"\xff\xfea\0", "\ufeffb", b"\xff\xfeb\0"),
        (b"a\n", "\ufeffb\n", b"\xef\xbb\xbfb\n"),
    ],
    ids=[
        *["line ends kept", "line ends given", "mark kept", "encoding kept", "encoding too small"],
        *["mark given", "mark of UTF-16 given", "only the content has a mark"],
    ],
)
async def test_encoding_and_line_ends_are_preserved_where_possible(
    tool, tmp_path, before, content, after
):
    (tmp_path / "f").write_bytes(before)
    await run(tool, path="f", content=content)
    assert (tmp_path / "f").read_bytes() == after


async def test_the_mode_is_preserved(tool, tmp_path):
    (tmp_path / "run").write_text("old")
    (tmp_path / "run").chmod(0o751)
    await run(tool, path="run", content="new")
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o751


async def test_it_refuses_if_the_file_changed_while_approval_waited(tool, tmp_path):
    (tmp_path / "f").write_text("old")
    over_a_file = await prepare(tool, path="f", content="new")
    new_file = await prepare(tool, path="g", content="new")
    (tmp_path / "f").write_text("by the user")
    (tmp_path / "g").write_text("by the user")
    for call, words in ((over_a_file, "has changed"), (new_file, "already exists")):
        with pytest.raises(ToolError, match=words):
            await call.run()
    assert [(tmp_path / name).read_text() for name in "fg"] == ["by the user"] * 2


async def test_it_refuses_if_the_file_changed_since_the_model_read_it(tool, tmp_path):
    read = ReadFile(files=tool.files)
    (tmp_path / "f").write_text("old")
    await run(read, path="f")
    (tmp_path / "f").write_text("by the user")
    assert "has changed since you read it: read it again" in await refusal(tool, "f")
    await run(read, path="f")
    await run(tool, path="f", content="new")
    assert (tmp_path / "f").read_text() == "new"
    await run(tool, path="f", content="newer")
    assert (tmp_path / "f").read_text() == "newer"


async def test_a_file_that_is_gone_since_it_was_read_is_reported_once(tool, tmp_path):
    (tmp_path / "f").write_text("old")
    await run(ReadFile(files=tool.files), path="f")
    (tmp_path / "f").unlink()
    assert "was removed since you read it" in await refusal(tool, "f")
    await run(tool, path="f", content="new")
    assert (tmp_path / "f").read_text() == "new"


async def test_what_is_no_text_is_not_overwritten(tool, tmp_path):
    (tmp_path / "binary").write_bytes(b"\0\1")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert "binary" in await refusal(tool, "binary")
    assert "a directory" in await refusal(tool, "folder")
    assert "a named pipe" in await refusal(tool, "pipe")
    assert (tmp_path / "binary").read_bytes() == b"\0\1"


async def test_a_link_that_leads_out_is_refused_before_the_user_is_asked(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "out").write_text("precious")
    (tmp_path / "root/link").symlink_to(tmp_path / "out")
    with pytest.raises(ToolError, match="leads out of the workspace"):
        await prepare(WriteFile(files=files_in(tmp_path / "root")), path="link", content="x")


async def test_half_a_surrogate_pair_is_no_content(tool):
    assert "half a surrogate pair" in await refusal(tool, "f", "\ud800")


async def test_a_full_disk_is_reported_and_leaves_nothing(tool, tmp_path, monkeypatch):
    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in await refusal(tool, "f")
    assert not list(tmp_path.iterdir())


async def test_a_stop_leaves_the_file_as_it_was(tool, tmp_path, monkeypatch):
    (tmp_path / "f").write_text("old")
    call = await prepare(tool, path="f", content="new")
    with trio.CancelScope() as scope:
        stop_at_checkpoints(monkeypatch, write_file, scope)
        await call.run()
    assert scope.cancelled_caught
    assert (tmp_path / "f").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


async def test_it_returns_what_is_needed_to_undo_it(tool, tmp_path):
    for before, content in ((None, "old"), (b"old", "new")):
        call = await prepare(tool, path="a/f", content=content)
        (change,) = call.changes
        assert (change.path, change.moved_from) == (tmp_path / "a/f", None)
        assert (None if change.before is None else change.before.data) == before
        await call.run()
        assert change.after == Fingerprint.of((tmp_path / "a/f").read_bytes())
