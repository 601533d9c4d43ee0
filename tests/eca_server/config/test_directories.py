"""The user's directories."""

from __future__ import annotations

import errno
import os
import pwd
from pathlib import Path

import pytest

from eca_server.config.directories import (
    data_directory,
    home_directory,
    make_data_directory,
    user_directory,
)
from eca_server.workspace.ignore import list_files


def test_a_relative_variable_does_not_count(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "XDG_DATA_HOME": "data", "XDG_CONFIG_HOME": ""}
    assert data_directory(environ) == tmp_path / ".local" / "share" / "eca-python"
    assert user_directory(environ) == tmp_path / ".config" / "eca"
    assert data_directory({"XDG_DATA_HOME": str(tmp_path)}) == tmp_path / "eca-python"


def test_a_user_without_a_home_has_folders_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def unlisted(_: int) -> None:
        raise KeyError("uid not found")

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unlisted)
    assert home_directory({}) == Path("/")
    assert data_directory({"XDG_DATA_HOME": "/data"}) == Path("/data/eca-python")


def test_our_data_is_private_and_in_no_listing_of_the_home(tmp_path: Path) -> None:
    folder = data_directory({"HOME": str(tmp_path)})
    for _ in range(2):
        make_data_directory(folder)
    (folder / "logins.json").write_text("{}")
    (tmp_path / "mine").touch()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(list_files(tmp_path, limit=10)) == ["mine"]
    (folder / ".gitignore").write_text("")  # as servers before left it on a full disk
    make_data_directory(folder)
    assert list(list_files(tmp_path, limit=10)) == ["mine"]


def test_a_full_disk_leaves_no_empty_file_that_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        make_data_directory(tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


def test_parents_that_are_missing_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_data_directory(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    for folder in ("a", "a/b", "a/b/c"):
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700
