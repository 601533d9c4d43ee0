"""`read_file`, `view_image` and `directory_tree`; and stops of all tools that use files."""

import os
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from eca_server.agent.tools import directory_tree, grep, read_file, write_file
from eca_server.agent.tools.directory_tree import DirectoryTree
from eca_server.agent.tools.edit_file import EditFile
from eca_server.agent.tools.files import LARGEST
from eca_server.agent.tools.grep import Grep
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.read_file import ReadFile, ViewImage
from eca_server.agent.tools.write_file import WriteFile
from eca_server.models.attachments import MAX_IMAGE_BYTES
from eca_server.models.history import FilePart, ImagePart
from tests.eca_server.agent.chat.agent_session import calls, of_calls, older
from tests.eca_server.agent.tools.file_tools import (
    files_in,
    output_text,
    prepare,
    refusal,
    run,
    text_of,
    write,
)

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


GUESSED = (
    "(The file is not UTF-8. It is read and edited as Latin-1: if it has a different encoding, "
    "characters beyond ASCII are wrong, so do not change them.)"
)


@pytest.fixture
def tool(tmp_path: Path) -> ReadFile:
    return ReadFile(files=files_in(tmp_path))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("one\n\ttwo\n\nfour", "one\n\ttwo\n\nfour"),
        ("", "(the file is empty)"),
        (b"gr\xc3\xbc\xc3\x9fe\nok", "grüße\nok"),
        (b"\xef\xbb\xbfgr\xc3\xbc\xc3\x9fe\r\nok", "grüße\nok"),
        ("\ufeffgrüße\nok".encode("utf-16-le"), "grüße\nok"),
        (b"gr\xfc\xdfe\rok", f"grüße\nok\n{GUESSED}"),
        ("// 中\n".encode("gb18030"), f"// ÖÐ\n{GUESSED}"),
    ],
)
async def test_a_text_in_any_encoding_we_know_comes_as_it_is(tool, tmp_path, data, text):
    write(tmp_path, f=data)
    assert await output_text(tool, path="f") == text


async def test_a_part_says_what_was_left_out_and_how_to_continue(tool, tmp_path):
    write(tmp_path, f="1\n2\n3\n4\n5\n")
    assert await output_text(tool, path="f", line_offset=1, limit=2) == (
        "2\n3\n... cut, 4 bytes left out ... "
        "(lines 2 to 3 of 5 are shown; continue with line_offset=3)"
    )
    assert await output_text(tool, path="f", line_offset=3, limit=2) == "4\n5"
    assert "got 5" in await refusal(tool, path="f", line_offset=5)


@pytest.mark.requirement("W-6b")
async def test_an_output_stays_within_lines_and_bytes(tmp_path):
    write(tmp_path, f="a line\n" * 10_000, wide="ü" * 1_000 + "\nnext\n")
    for options in (
        {"cap": Cap(lines=50, size=10_000)},
        {"cap": Cap(lines=10_000, size=350)},
        {"max_lines": 50},
    ):
        text = await output_text(ReadFile(files=files_in(tmp_path, **options)), path="f")
        assert text.count("\n") == 50
        assert "lines 1 to 50 of 10000" in text
    tool = ReadFile(files=files_in(tmp_path, cap=Cap(lines=10, size=101)))
    text = await output_text(tool, path="wide")
    assert text.startswith("ü" * 50 + "\n... cut, 1906 bytes left out ...")
    assert text.endswith(
        "(only the beginning of line 1 of 2 is shown; continue with line_offset=1)"
    )
    assert await output_text(tool, path="wide", line_offset=1) == "next"


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89a..", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"%PDF-1.7\n\x00\xff", "application/pdf"),
    ],
)
async def test_a_picture_or_document_is_known_by_its_content(tool, tmp_path, data, media_type):
    write(tmp_path, f=data)
    words, part = (await run(tool, path="f")).parts
    assert f"{media_type}, {len(data)} bytes" in words.text
    view = ViewImage(files=tool.files)
    if media_type == "application/pdf":
        assert part == FilePart(name="f", media_type=media_type, data=data)
        assert "got application/pdf" in await refusal(view, path="f")
    else:
        assert part == ImagePart(media_type=media_type, data=data)
        assert (await run(view, path="f")).parts[1] == part


async def test_what_is_no_picture_or_too_large_is_refused(tool, tmp_path):
    write(tmp_path, text=b"text", large=PNG + b"\0" * MAX_IMAGE_BYTES)
    view = ViewImage(files=tool.files)
    message = await refusal(view, path="text")
    assert "Expected a PNG, JPEG, GIF or WebP picture, got a different type" in message
    assert "smaller copy" in await refusal(view, path="large")
    message = await refusal(tool, path="large")
    assert "type image/png of at most 3,700,000 bytes" in message


async def test_what_is_no_text_file_is_named(tool, tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "device").symlink_to("/dev/zero")
    write(tmp_path, binary=b"a\0b", odd=b"\xff\xfe\x00")
    for name, words in {
        "folder": "got a directory: .* directory_tree",
        "/": "got a directory",
        "pipe": "got a named pipe",
        "socket": "got a socket",
        "device": "got a device",
        "loop": "circle",
        "binary": "it is binary",
        "odd": "is not valid utf-16",
        "missing": "No such file or directory: '.*missing'",
        "": "got an empty string",
        "a\0b": "a NUL",
    }.items():
        assert re.search(words, await refusal(tool, path=name)), name


async def test_a_huge_file_is_refused_unread(tool, tmp_path):
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 30)
    message = await refusal(tool, path="huge")
    assert f"at most {LARGEST:,} bytes, got 1,073,741,824" in message
    assert "grep" in message


async def test_a_file_outside_is_read_and_named_for_approval(tmp_path):
    write(tmp_path, root__link="", f="outside")
    files = files_in(tmp_path / "root")
    call = await prepare(ReadFile(files=files), path="../f")
    assert call.paths == ("../f",)
    assert text_of(await call.run()) == "outside"
    (tmp_path / "root/link").unlink()
    (tmp_path / "root/link").symlink_to("../f")
    (place,) = (await prepare(ViewImage(files=files), path="link")).places
    assert place.real_path == (tmp_path / "f").resolve()


async def test_the_summary_names_the_file_once_there_is_a_name(tool):
    assert tool.summary({}) == "Reading file"
    assert tool.summary({"path": "src/a\nb.py"}) == "Reading file a\\nb.py"
    assert tool.summary({"path": "x" * 1_000_000}) == f"Reading file {'x' * 80}..."


@pytest.mark.parametrize("sees", [True, False])
async def test_only_models_with_image_input_are_offered_view_image(tmp_path, *, sees):
    write(tmp_path, f=PNG)
    script = calls(("eca_view_image", {"path": "f"}))
    async with older(script, folder=tmp_path) as (ours, provider):
        models = ours.connection.config.providers["p"].models
        models["m"] = attrs.evolve(models["m"], image_input=sees)  # type: ignore[index]
        ours.connection.parts.models.renew()
        await ours.turn("go")
        offered = {each["function"]["name"] for each in provider.requests[0].body["tools"]}
        assert ("eca_view_image" in offered) is sees
        assert of_calls(ours)[-1]["error"] is not sees


def tree_of(folder: Path, *names: str, **options: Any) -> DirectoryTree:
    write(folder, **dict.fromkeys(names, ""))
    return DirectoryTree(files=files_in(folder, **options))


async def test_a_tree_is_indented_and_counted(tmp_path):
    tool = tree_of(tmp_path)
    assert await output_text(tool, path=".") == f"{tmp_path}/\n\n0 directories, 0 files"
    tree_of(tmp_path, "b.txt", "a.txt", "src/x/deep.py", "src/y.py", "src/z/a", "src/z/b", ".hid")
    call = await prepare(tool, path=".")
    assert (call.paths, call.summary) == ((".",), "Listing file tree")
    assert text_of(await call.run()) == (
        f"{tmp_path}/\n src/\n  x/\n   deep.py\n  z/\n   a\n   b\n  y.py\n .hid\n a.txt\n b.txt\n\n"
        "3 directories, 7 files"
    )
    assert await output_text(tool, path=str(tmp_path), max_depth=1) == (
        f"{tmp_path}/\n src/ (4 files)\n .hid\n a.txt\n b.txt\n\n3 directories, 7 files"
    )
    text = await output_text(tool, path=".", max_depth=2)
    assert " src/\n  x/ (1 file)\n  z/ (2 files)\n  y.py\n .hid\n" in text
    text = await output_text(attrs.evolve(tool, most=3), path=".")
    assert "3 files; only the first 3 files were listed" in text


async def test_what_git_ignores_is_left_out_of_a_tree_and_named_shown(tmp_path):
    tool = tree_of(tmp_path, "kept.py", "build/lib/x.o", "sub/notes.log", "sub/forced.log")
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "add", "-f", "sub/forced.log"], cwd=tmp_path, check=True)
    assert await output_text(tool, path=".") == (
        f"{tmp_path}/\n sub/\n  forced.log\n .gitignore\n kept.py\n\n1 directory, 3 files"
    )
    assert await output_text(tool, path="build") == (
        f"{tmp_path}/build/\n lib/\n  x.o\n\n1 directory, 1 file; Git ignores all of them"
    )


async def test_a_tree_that_does_not_fit_loses_its_deepest_levels(tmp_path):
    names = [f"{one}/{two}/{three}" for one in "ab" for two in "ab" for three in "abc"]
    tool = tree_of(tmp_path, *names, cap=Cap(lines=10, size=10_000))
    assert await output_text(tool, path=".") == (
        f"{tmp_path}/\n a/\n  a/ (3 files)\n  b/ (3 files)\n b/\n  a/ (3 files)\n  b/ (3 files)\n"
        "... cut, 20 bytes left out ... (only 2 levels are shown; list a subdirectory to see "
        "the rest)\n\n6 directories, 12 files"
    )


async def test_one_level_that_does_not_fit_is_cut(tmp_path):
    tool = tree_of(tmp_path, *(f"{n:03}" for n in range(100)), cap=Cap(lines=10, size=10_000))
    text = await output_text(tool, path=".")
    assert text.count("\n 0") == 10
    assert re.search(r"009\n\.\.\. cut, \d+ bytes left out \.\.\. \(list a subdirectory", text)
    assert text.endswith("0 directories, 100 files")


async def test_hostile_names_and_kinds_do_no_harm_to_a_tree(tmp_path):
    tool = tree_of(tmp_path, "a\nb", "dir/x", os.fsdecode(b"bad\xff"))
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "self").symlink_to("self")
    os.mkfifo(tmp_path / "pipe")
    assert await output_text(tool, path=".") == (
        f"{tmp_path}/\n dir/\n  x\n a\\nb\n bad\\xff\n\n1 directory, 3 files"
    )
    for path, words in (("a\nb", "got a file"), ("missing", "got nothing"), ("", "empty")):
        assert words in await refusal(tool, path=path)


EDIT = {"original_content": "text", "new_content": "new"}


@pytest.mark.parametrize(
    ("module", "tool", "arguments"),
    [
        (read_file, ReadFile, {"path": "f"}),
        (write_file, WriteFile, {"path": "f", "content": "new"}),
        (write_file, EditFile, {"path": "f", **EDIT}),
        (directory_tree, DirectoryTree, {"path": "."}),
        (grep, Grep, {"path": ".", "pattern": "text"}),
    ],
)
async def test_a_stop_leaves_the_file_as_it_was(tmp_path, monkeypatch, module, tool, arguments):
    """Stop a call from inside its thread, at the module's next checkpoint."""
    write(tmp_path, f="text")
    call = await prepare(tool(files=files_in(tmp_path)), **arguments)
    check = trio.from_thread.check_cancelled
    with trio.CancelScope() as scope:

        def checkpoint() -> None:
            trio.from_thread.run_sync(scope.cancel)
            check()

        monkeypatch.setattr(module, "checkpoint", checkpoint)
        monkeypatch.setattr(grep, "find_ripgrep", lambda: None)
        await call.run()
    assert scope.cancelled_caught
    assert [path.read_text() for path in tmp_path.iterdir()] == ["text"]
