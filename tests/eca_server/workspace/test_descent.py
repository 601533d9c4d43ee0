"""Directories opened step by step below an open one: no link, no `..`, no leak."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from eca_server.workspace import opening
from eca_server.workspace.descent import Descent
from eca_server.workspace.errors import InvalidPath, PathChanged
from eca_server.workspace.opening import Directory, open_directory


@pytest.fixture(params=[True, False], ids=["descriptors", "paths"])
def start(
    request: pytest.FixtureRequest, project: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Directory]:
    """Open the project, on a platform with descriptors of directories and on one without."""
    monkeypatch.setattr(opening, "_STEPS", request.param)
    for name in ("a/b/c", "a/d", "e"):
        (project / name).mkdir(parents=True)
        (project / name / "f").write_text(name)
    with open_directory(project) as opened:
        yield opened


def names(directory: Directory) -> list[str]:
    with directory.scan() as entries:
        return sorted(entry.name for entry in entries)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (one call)


def test_each_directory_is_reached_from_whichever_was_open_before(start):
    before = descriptors()
    with Descent(start) as descent:
        for path, held in (("a/b/c", ["f"]), ("a", ["b", "d"]), ("a/d", ["f"]), ("e", ["f"])):
            opened = descent.open(path)
            assert opened.path == start.path / path
            assert names(opened) == held
        assert names(descent.open("")) == ["a", "e"]
        descent.open("a/b/c")
    assert descriptors() == before


def test_neighbours_share_their_parents(start, monkeypatch):
    steps: list[str] = []
    open_subdirectory = Directory.open_subdirectory

    def record(self: Directory, name: str) -> Directory:
        steps.append(name)
        return open_subdirectory(self, name)

    monkeypatch.setattr(Directory, "open_subdirectory", record)
    with Descent(start) as descent:
        for path in ("a/b", "a/b/c", "a/b/c", "a/d"):
            descent.open(path)
    assert steps == ["a", "b", "c", "d"]


@pytest.mark.parametrize("path", ["..", "../outside", "a/../../outside", ".", "a/.", "/", "a//b"])
def test_only_a_path_straight_down_to_a_directory_is_followed(start, outside, path):
    before = descriptors()
    with Descent(start) as descent:
        with pytest.raises(InvalidPath, match="a relative path without"):
            descent.open(path)
        for missing in ("e/f", "e/missing", "e/f/g"):
            with pytest.raises((NotADirectoryError, FileNotFoundError)):
                descent.open(missing)
    assert descriptors() == before


@pytest.mark.parametrize("swapped", ["a", "a/b", "a/b/c"])
def test_a_link_is_not_followed_at_any_step(start, project, outside, swapped):
    (project / swapped).rename(project / "away")
    (project / swapped).symlink_to(outside)
    before = descriptors()
    with Descent(start) as descent:
        with pytest.raises(PathChanged, match=f"{swapped}' changed after it was checked"):
            descent.open("a/b/c")
        assert names(descent.open("e")) == ["f"]
    assert descriptors() == before
