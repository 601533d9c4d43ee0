"""The ignored files that Git tracks: cached as long as is safe."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eca_server.agent.tools import tracked
from eca_server.agent.tools.tracked import IgnoredAndTracked
from eca_server.workspace import git
from eca_server.workspace.opening import Directory, open_directory


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(tracked, "time", clock)
    return clock


@pytest.fixture
def listed_directories(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Record the directories that Git lists."""
    folders: list[Path] = []
    list_paths = git.list_paths

    def note(folder: Directory, *args: Any, **kwargs: Any) -> Iterator[str]:
        folders.append(folder.path)
        return list_paths(folder, *args, **kwargs)

    monkeypatch.setattr(git, "list_paths", note)
    return folders


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    for name in ("a.log", "b.log", "c", "sub/d.log"):
        (tmp_path / name).write_text("")
    (tmp_path / ".gitignore").write_text("*.log\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    add(tmp_path, "a.log", "c", "sub/d.log")
    return tmp_path


def add(folder: Path, *names: str) -> None:
    subprocess.run(["git", "add", "-f", *names], cwd=folder, check=True)


def below(files: IgnoredAndTracked, folder: Path) -> list[str]:
    with open_directory(folder) as opened:
        return sorted(files.below(opened, checkpoint=lambda: None))


def test_they_are_named_relative_to_the_folder(repository):
    files = IgnoredAndTracked()
    assert below(files, repository) == ["a.log", "sub/d.log"]
    assert below(files, repository / "sub") == ["d.log"]


def test_git_is_not_asked_again_while_nothing_changed(repository, listed_directories, clock):
    files = IgnoredAndTracked()
    for now in (0.0, 30.0, 59.0):
        clock.now = now
        assert below(files, repository) == ["a.log", "sub/d.log"]
    assert listed_directories == [repository]
    clock.now = 61.0
    below(files, repository)
    assert listed_directories == [repository] * 2


def test_a_change_of_the_index_or_of_the_rules_is_seen_at_once(repository, clock):
    files = IgnoredAndTracked()
    below(files, repository)
    add(repository, "b.log")
    assert below(files, repository) == ["a.log", "b.log", "sub/d.log"]
    (repository / ".gitignore").write_text("/a.log\n")
    assert below(files, repository) == ["a.log"]
    (repository / ".git/info/exclude").write_text("/c\n")
    assert below(files, repository) == ["a.log", "c"]


def test_many_folders_are_not_all_remembered(repository, listed_directories):
    files = IgnoredAndTracked(most_directories=1)
    for folder in (repository, repository / "sub", repository):
        below(files, folder)
    assert len(listed_directories) == 3


def test_where_git_cannot_say_there_are_none(repository, tmp_path_factory, monkeypatch):
    assert below(IgnoredAndTracked(), tmp_path_factory.mktemp("bare")) == []
    monkeypatch.setenv("PATH", os.devnull)
    assert below(IgnoredAndTracked(), repository) == []
