"""`directory_tree`: the files that Git does not ignore, in as many levels as fit."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import attrs
import pytest
import trio

from eca_server.agent.tools import directory_tree
from eca_server.agent.tools.directory_tree import DirectoryTree
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.tool import ToolError
from tests.eca_server.agent.tools.file_tools import (
    files_in,
    output_text,
    prepare,
    run,
    stop_at_checkpoints,
)


def made(folder: Path, *names: str) -> DirectoryTree:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return DirectoryTree(files=files_in(folder))


async def test_a_tree_is_indented_and_counted(tmp_path):
    tool = made(tmp_path, "b.txt", "a.txt", "src/x/deep.py", "src/y.py", ".hidden")
    call = await prepare(tool, path=".")
    assert call.paths == (".",)
    assert call.summary == "Listing file tree"
    assert await output_text(tool, path=".") == (
        f"{tmp_path}/\n src/\n  x/\n   deep.py\n  y.py\n .hidden\n a.txt\n b.txt\n\n"
        "2 directories, 5 files"
    )


async def test_a_directory_that_is_not_opened_says_how_many_files_it_holds(tmp_path):
    tool = made(tmp_path, "a/b/c", "a/b/d", "a/e", "f")
    assert await output_text(tool, path=str(tmp_path), max_depth=1) == (
        f"{tmp_path}/\n a/ (3 files)\n f\n\n2 directories, 4 files"
    )
    assert " a/\n  b/ (2 files)\n  e\n f\n" in await output_text(
        tool, path=str(tmp_path), max_depth=2
    )


async def test_what_git_ignores_is_left_out_and_named_shown(tmp_path):
    tool = made(tmp_path, "kept.py", "build/lib/x.o", "sub/notes.log", "sub/forced.log")
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "add", "-f", "sub/forced.log"], cwd=tmp_path, check=True)
    assert await output_text(tool, path=".") == (
        f"{tmp_path}/\n sub/\n  forced.log\n .gitignore\n kept.py\n\n1 directory, 3 files"
    )
    assert await output_text(tool, path="build") == (
        f"{tmp_path}/build/\n lib/\n  x.o\n\n1 directory, 1 file; Git ignores all of them"
    )


async def test_an_empty_directory_is_empty(tmp_path):
    assert await output_text(made(tmp_path), path=".") == f"{tmp_path}/\n\n0 directories, 0 files"


async def test_a_tree_that_does_not_fit_loses_its_deepest_levels(tmp_path):
    made(tmp_path, *(f"{one}/{two}/{three}" for one in "ab" for two in "ab" for three in "abc"))
    tool = DirectoryTree(files=files_in(tmp_path, cap=Cap(lines=10, size=10_000)))
    assert await output_text(tool, path=".") == (
        f"{tmp_path}/\n a/\n  a/ (3 files)\n  b/ (3 files)\n b/\n  a/ (3 files)\n  b/ (3 files)\n"
        "... cut, 20 bytes left out ... (only 2 levels are shown; list a subdirectory to see "
        "the rest)\n\n6 directories, 12 files"
    )


async def test_one_level_that_does_not_fit_is_cut(tmp_path):
    made(tmp_path, *(f"{n:03}" for n in range(100)))
    tool = DirectoryTree(files=files_in(tmp_path, cap=Cap(lines=10, size=10_000)))
    text = await output_text(tool, path=".")
    assert text.count("\n 0") == 10
    assert re.search(r"009\n\.\.\. cut, \d+ bytes left out \.\.\. \(list a subdirectory", text)
    assert text.endswith("0 directories, 100 files")


async def test_more_files_than_are_listed_are_reported(tmp_path):
    tool = attrs.evolve(made(tmp_path, "a", "b", "c", "d"), most=3)
    text = await output_text(tool, path=".")
    assert "3 files; only the first 3 files were listed" in text


async def test_hostile_names_and_kinds_do_no_harm(tmp_path):
    tool = made(tmp_path, "a\nb", "dir/x")
    (tmp_path / os.fsdecode(b"bad\xff")).write_text("")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "self").symlink_to("self")
    os.mkfifo(tmp_path / "pipe")
    assert await output_text(tool, path=".") == (
        f"{tmp_path}/\n dir/\n  x\n a\\nb\n bad\\xff\n\n1 directory, 3 files"
    )


@pytest.mark.parametrize(
    ("path", "words"), [("f", "got a file"), ("missing", "got nothing"), ("", "empty")]
)
async def test_what_is_no_directory_is_refused(tmp_path, path, words):
    with pytest.raises(ToolError, match=words):
        await run(made(tmp_path, "f"), path=path)


async def test_a_stop_ends_it(tmp_path, monkeypatch):
    call = await prepare(made(tmp_path, "f"), path=".")
    with trio.CancelScope() as scope:
        stop_at_checkpoints(monkeypatch, directory_tree, scope)
        await call.run()
    assert scope.cancelled_caught
