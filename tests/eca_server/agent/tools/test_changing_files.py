"""`write_file`, `edit_file`, `preview_file_change`, `move_file`: changes as approved, or none."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eca_server.agent.tools.edit_file import EditFile, PreviewFileChange
from eca_server.agent.tools.files import Files
from eca_server.agent.tools.move_file import MoveFile
from eca_server.agent.tools.read_file import ReadFile
from eca_server.agent.tools.tool import FileChange, ToolError
from eca_server.agent.tools.write_file import WriteFile
from eca_server.workspace.reading import Fingerprint
from tests.eca_server.agent.tools.file_tools import (
    change_of,
    files_in,
    output_text,
    prepare,
    refusal,
    run,
    text_of,
)

TEXT = "one\ntwo\nthree\n"


class Folder:
    """A workspace with a file `f`, and the tools that change it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "f").write_text(TEXT)
        self.files: Files = files_in(path)
        self.read = ReadFile(files=self.files)
        self.write = WriteFile(files=self.files)
        self.edit = EditFile(files=self.files)
        self.preview = PreviewFileChange(files=self.files)
        self.move = MoveFile(files=self.files)

    def __truediv__(self, name: str) -> Path:
        return self.path / name


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def edit_of(original: str, new: str, path: str = "f", **more: object) -> dict[str, Any]:
    return {"path": path, "original_content": original, "new_content": new, **more}


async def test_a_new_file_is_created_with_its_directories(folder):
    call = await prepare(folder.write, path="a/b/new.txt", content="one\ntwo\n")
    assert not (folder / "a").exists()
    assert (call.paths, call.summary) == (("a/b/new.txt",), "Creating file new.txt")
    output = await call.run()
    assert (folder / "a/b/new.txt").read_text() == "one\ntwo\n"
    change = change_of(output)
    assert change == change_of(call)
    assert change.path == str(folder / "a/b/new.txt")
    assert change.diff == "@@ -0,0 +1,2 @@\n+one\n+two"
    assert (change.lines_added, change.lines_removed) == (2, 0)


async def test_an_existing_file_keeps_its_mode_and_is_compared_with_what_it_was(folder):
    (folder / "f").chmod(0o751)
    call = await prepare(folder.write, path="f", content="one\n2\nthree\n")
    assert call.summary == "Replacing file f"
    change = change_of(await call.run())
    assert change.diff == "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    assert (folder / "f").read_text() == "one\n2\nthree\n"
    assert (folder / "f").stat().st_mode & 0o777 == 0o751


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        pytest.param(b"a\r\nb\r\n", "a\nc\n", b"a\r\nc\r\n", id="line ends kept"),
        pytest.param(b"a\nb\n", "a\r\nc\r\n", b"a\r\nc\r\n", id="line ends given"),
        pytest.param(b"\xef\xbb\xbfa\n", "ü", b"\xef\xbb\xbf\xc3\xbc", id="mark kept"),
        pytest.param(b"caf\xe9 au lait\n", "ca é\n", b"ca \xe9\n", id="encoding kept"),
        pytest.param(b"caf\xe9 au lait\n", "€\n", b"\xe2\x82\xac\n", id="encoding too small"),
        pytest.param(b"\xef\xbb\xbfa\n", "\ufeffb\n", b"\xef\xbb\xbfb\n", id="mark given"),
        pytest.param(b"\xff\xfea\0", "\ufeffb", b"\xff\xfeb\0", id="mark of UTF-16 given"),
        pytest.param(b"a\n", "\ufeffb\n", b"\xef\xbb\xbfb\n", id="only the content has a mark"),
    ],
)
async def test_encoding_and_line_ends_are_preserved_where_possible(folder, before, content, after):
    (folder / "f").write_bytes(before)
    call = await prepare(folder.write, path="f", content=content)
    for shown in (call.summary, text_of(await call.run())):
        assert ("its encoding changes from latin-1 to utf-8" in shown) is (content == "€\n")
    assert (folder / "f").read_bytes() == after


async def test_what_was_done_is_reported(folder):
    text = await output_text(folder.edit, **edit_of("e", "E", all_occurrences=True))
    assert text.endswith("/f: 2 lines added, 2 removed. 3 occurrences were replaced.")
    text = await output_text(folder.edit, **edit_of("two \n", "2\n"))
    assert "differs from original_content in whitespace" in text
    text = await output_text(folder.move, source="f", destination="g")
    assert text == f"Moved {folder / 'f'} to {folder / 'g'}."


async def test_an_edit_preserves_encoding_mark_line_ends_and_mode(folder):
    for encoding, newline in (("utf-16", "\r\n"), ("utf-8-sig", "\r"), ("latin-1", "\n")):
        before = newline.join(["é" + "a" * 99, "[here]", "end"])
        (folder / "f").write_bytes(before.encode(encoding))
        (folder / "f").chmod(0o640)
        await run(folder.read, path="f")
        await run(folder.edit, **edit_of("[here]", "é\nb"))
        expected = before.replace("[here]", f"é{newline}b")
        assert (folder / "f").read_bytes() == expected.encode(encoding)
        assert (folder / "f").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("edit", edit_of("four", "4"), "not found"),
        ("edit", edit_of("o", "0"), "2 times"),
        ("edit", edit_of("", "0"), "empty"),
        ("edit", edit_of("one", "1", "missing"), "does not exist. Create it with write_file"),
        ("edit", edit_of("one", "1", "."), "a directory"),
        ("edit", edit_of("one", "1", "binary"), "binary"),
        ("edit", edit_of("caf\xe9", "€", "latin"), "latin-1, which has no '€'"),
        ("preview", edit_of("x", "a", "new"), "leave original_content empty"),
        ("preview", edit_of("", "a"), "empty"),
        ("write", {"path": "binary", "content": "new"}, "binary"),
        ("write", {"path": "folder", "content": "new"}, "a directory"),
        ("write", {"path": "pipe", "content": "new"}, "a named pipe"),
        ("write", {"path": "new/", "content": ""}, "new/' names a directory"),
        ("write", {"path": "g", "content": "\ud800"}, "half a surrogate pair"),
        ("write", {"path": "link", "content": "new"}, "leads out of the workspace"),
        ("move", {"source": "missing", "destination": "g"}, "missing' does not exist"),
        ("move", {"source": "f", "destination": "latin"}, "latin' already exists"),
        ("move", {"source": "f", "destination": "folder"}, "folder' already exists"),
        ("move", {"source": "folder", "destination": "folder/a"}, "cannot be moved into itself"),
        ("move", {"source": "f", "destination": ""}, "empty"),
        ("move", {"source": "f", "destination": "new/"}, "new/' names a directory"),
        ("move", {"source": ".", "destination": "../moved"}, "is an open folder"),
    ],
)
async def test_what_cannot_be_done_is_refused_with_a_reason(folder, name, arguments, words):
    (folder / "binary").write_bytes(b"one\0")
    (folder / "latin").write_bytes(b"one caf\xe9\n")
    (folder / "folder").mkdir()
    (folder / "link").symlink_to("/etc/none")
    os.mkfifo(folder / "pipe")
    before = sorted(folder.path.rglob("*"))
    tool = getattr(folder, name)
    assert words in await refusal(tool, **arguments)
    assert sorted(folder.path.rglob("*")) == before
    assert (folder / "f").read_text() == TEXT
    assert (folder / "binary").read_bytes() == b"one\0"
    assert (folder / "latin").read_bytes() == b"one caf\xe9\n"
    if words == "leads out of the workspace":  # known before the user is asked
        with pytest.raises(ToolError, match=words):
            await prepare(tool, **arguments)


async def test_nothing_of_a_file_outside_is_sent_unasked(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "f"
    outside.write_text("the secret is 1234\n")
    wrong = edit_of("the secret is 1\n", "x", str(outside))
    for tool in (folder.edit, folder.preview):
        assert "1234" not in await refusal(tool, **wrong)
    await run(folder.read, path=str(outside))
    assert "1234" in await refusal(folder.edit, **wrong)


CHANGES = [("write", {"path": "f", "content": "new"}), ("edit", edit_of("two", "2"))]


@pytest.mark.parametrize(("name", "arguments"), CHANGES)
async def test_it_refuses_if_the_file_changed_since_the_model_read_it(folder, name, arguments):
    tool = getattr(folder, name)
    await run(folder.read, path="f", limit=1)
    (folder / "f").write_text(f"{TEXT}more\n")
    assert "has changed since you read it: read it again" in await refusal(tool, **arguments)
    await run(folder.read, path="f")
    await run(tool, **arguments)
    assert (folder / "f").read_text() != f"{TEXT}more\n"
    await run(folder.write, path="f", content="newer")  # the model knows what it wrote itself
    assert (folder / "f").read_text() == "newer"


async def test_a_file_that_is_gone_since_it_was_read_is_reported_once(folder):
    await run(folder.read, path="f")
    (folder / "f").unlink()
    assert "was removed since you read it" in await refusal(folder.write, path="f", content="new")
    await run(folder.write, path="f", content="new")
    assert (folder / "f").read_text() == "new"
    (folder / "f").unlink()
    await refusal(folder.read, path="f")  # so that the model knows it
    await run(folder.write, path="f", content="newer")


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        (*CHANGES[0], "has changed"),
        (*CHANGES[1], "has changed"),
        ("write", {"path": "g", "content": "new"}, "already exists"),
        ("move", {"source": "f", "destination": "g"}, "already exists"),
    ],
)
async def test_it_refuses_what_changed_during_the_approval(folder, name, arguments, words):
    call = await prepare(getattr(folder, name), **arguments)
    for file in "fg":
        (folder / file).write_text("by the user")
    with pytest.raises(ToolError, match=words):
        await call.run()
    assert [(folder / file).read_text() for file in "fg"] == ["by the user"] * 2


async def test_a_full_disk_is_reported_and_leaves_nothing(folder, monkeypatch):
    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    message = await refusal(folder.write, path="g", content="new")
    assert "No space left on device" in message
    assert list(folder.path.iterdir()) == [folder / "f"]


async def test_a_call_has_what_is_needed_to_undo_it(folder):
    for before, content in ((None, "old"), (b"old", "new")):
        call = await prepare(folder.write, path="a/g", content=content)
        (change,) = call.changes
        assert (change.path, change.moved_from) == (folder / "a/g", None)
        assert (None if change.before is None else change.before.data) == before
        await call.run()
        assert change.after == Fingerprint.of(content.encode())
    (folder / "f").chmod(0o640)
    (folder / "link").symlink_to("f")
    call = await prepare(folder.edit, **edit_of("two", "2", "link"))
    (change,) = call.changes
    assert (change.path, change.moved_from) == (folder / "f", None)
    assert (change.before.data, change.before.mode) == (TEXT.encode(), 0o640)
    await call.run()
    assert (folder / "link").is_symlink()
    assert (folder / "f").read_text() == "one\n2\nthree\n"
    assert change.after == Fingerprint.of((folder / "f").read_bytes())


async def test_a_passage_is_replaced_and_its_change_shown_before_and_after(folder):
    preview = await prepare(folder.preview, **edit_of("two", "2"))
    shown = await preview.run()
    call = await prepare(folder.edit, **edit_of("two", "2"))
    assert (folder / "f").read_text() == TEXT
    assert (call.summary, call.paths) == ("Editing file f", ("f",))
    assert change_of(call).diff == "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    assert change_of(preview) == change_of(shown) == change_of(call)
    assert change_of(await call.run()) == change_of(call)
    assert (folder / "f").read_text() == "one\n2\nthree\n"
    text = await output_text(folder.preview, **edit_of("", "a\nb\n", "new"))
    assert text.endswith("2 lines would be added, 0 removed:\n@@ -0,0 +1,2 @@\n+a\n+b")
    assert not (folder / "new").exists()


async def test_a_file_moves_and_directories_it_needs_are_made(folder):
    call = await prepare(folder.move, source="f", destination="a/b/g")
    assert (call.paths, call.summary) == (("f", "a/b/g"), "Moving f to a/b/g")
    summary = folder.move.summary({"source": "a/old.py", "destination": "a/new.py"})
    assert summary == "Moving old.py to new.py"
    assert folder.move.summary({"source": "a/old.py"}) == "Moving file"
    content = Fingerprint.of(TEXT.encode())
    moved = FileChange(
        path=folder / "a/b/g",
        moved_from=folder / "f",
        after=content,
        new_directories=(folder / "a", folder / "a/b"),
    )
    assert call.changes == (moved,)
    await call.run()
    assert not (folder / "f").exists()
    assert (folder / "a/b/g").read_text() == TEXT


async def test_what_the_model_knows_moves_along(folder):
    await run(folder.write, path="folder/g", content="old")
    await run(folder.move, source="folder", destination="moved")
    (folder / "moved/g").write_text("by the user")
    message = await refusal(folder.write, path="moved/g", content="new")
    assert "has changed since you read it" in message
    await run(folder.write, path="folder/g", content="new")


async def test_a_workspace_folder_that_was_moved_away_is_not_made_again(tmp_path):
    (tmp_path / "w").mkdir()
    (tmp_path / "mine").write_text("outside")
    folder = Folder(tmp_path / "w")
    early = [
        await prepare(folder.write, path="a/new", content="x"),
        await prepare(folder.move, source="f", destination="a/g"),
        await prepare(folder.move, source=str(tmp_path / "mine"), destination="g"),
    ]
    (tmp_path / "w").rename(tmp_path / "moved")
    late = [
        partial(prepare, folder.write, path="a/new", content="x"),
        partial(prepare, folder.write, path="f", content="x"),
        partial(prepare, folder.edit, **edit_of("two", "2")),
    ]
    for call in (*(each.run for each in early), *late):
        with pytest.raises(ToolError, match=r"The workspace folder .*/w' does not exist now"):
            await call()
    assert {each.name for each in tmp_path.iterdir()} == {"moved", "mine"}
