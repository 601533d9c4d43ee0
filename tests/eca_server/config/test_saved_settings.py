"""The settings saved from the editor: merged last, written to no file of the user's."""

import errno
import os
import pwd
import stat
from pathlib import Path

import pytest

from eca_server.config.data_file import DataFileError
from eca_server.config.directories import (
    data_directory,
    home_directory,
    make_data_directory,
    user_directory,
)
from eca_server.config.saved_settings import SavedSettings
from eca_server.workspace.ignore import list_files


@pytest.fixture
def layer(house) -> SavedSettings:
    house.environ["HOME"] = str(house.home)
    return SavedSettings(house.environ)


def save(layer: SavedSettings, model: str, root: Path | None = None) -> None:
    layer.change(lambda parts: parts.of(root).update(defaultModel=model))


def test_it_counts_after_everything_else_and_in_a_root_after_what_counts_everywhere(house, layer):
    extra = house.write(house.folder / "extra.json", {"defaultModel": "extra/m"})
    house.in_root(1, {"defaultModel": "root/m", "extraConfigs": [str(extra)]})
    before = house.load()
    save(layer, "ours/m")
    assert not before.is_current()
    assert house.load().is_current()
    assert house.config().default_model == "ours/m"
    save(layer, "second/m", house.roots[1])
    assert house.config().default_model == "second/m"
    house.roots.pop()
    assert house.config().default_model == "ours/m"
    house.config_file = house.write(house.folder / "given.json", {"defaultModel": "given/m"})
    assert house.config().default_model == "ours/m"
    house.options = {"pureConfig": True}
    assert house.config().default_model is None


def test_null_takes_away_what_others_say_and_only_the_user_reads_the_file(house, layer):
    house.in_user({"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}})
    save(layer, "a/b")
    layer.path.chmod(0o644)
    layer.change(lambda parts: parts.everywhere.update(mcpServers={"a": None}))
    assert set(house.config().mcp_servers) == {"b"}
    assert stat.S_IMODE(layer.path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "content",
    [
        *["", "{", "[]", '{"version": 2}', '{"version": 1, "everywhere": []}', "[" * 100_000],
        *['{"version": 1, "workspaces": []}', '{"version": 1, "workspaces": {"/a": 1}}'],
    ],
    ids=range(8),
)
def test_a_damaged_one_is_reported_and_left_alone(house, layer, content):
    save(layer, "ours/m")
    before = house.load()
    layer.path.write_text(content)
    problem = house.problem()
    assert problem.source == str(layer.path)
    assert "expected" in problem.message
    with pytest.raises(DataFileError, match="expected"):
        save(layer, "other/m")
    assert layer.path.read_text() == content
    assert house.load(before).config.default_model == "ours/m"


def test_a_secret_is_stored_elsewhere_and_inserted_here_alone(house, layer):
    server = {"url": "https://x", "headers": {"Authorization": "${kept:s:headers/Authorization}"}}
    layer.change(lambda parts: parts.everywhere.update(mcpServers={"s": server}))
    house.in_user({"mcpServers": {"theirs": {"url": "https://${kept:s:headers/Authorization}"}}})
    names = []

    def stored_secret(name: str) -> str | None:
        names.append(name)
        return "Bearer planted"

    loaded = house.load(stored_secret=stored_secret)
    assert loaded.config.mcp_servers["s"].headers == {"Authorization": "Bearer planted"}
    assert names == ["s:headers/Authorization"]
    assert loaded.config.mcp_servers["theirs"].is_damaged
    (problem,) = loaded.problems
    assert "got ${kept:..}" in problem.message
    assert house.load().config.mcp_servers["s"].is_damaged


def test_a_relative_variable_names_no_directory_and_a_user_may_have_no_home(tmp_path, monkeypatch):
    environ = {"HOME": str(tmp_path), "XDG_DATA_HOME": "data", "XDG_CONFIG_HOME": ""}
    assert data_directory(environ) == tmp_path / ".local" / "share" / "eca-python"
    assert user_directory(environ) == tmp_path / ".config" / "eca"
    assert data_directory({"XDG_DATA_HOME": "/data"}) == Path("/data/eca-python")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)  # a KeyError
    assert home_directory({}) == home_directory({"HOME": "work"}) == Path("/")


def test_our_data_is_private_and_in_no_listing_of_the_home(tmp_path):
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


def test_a_full_disk_leaves_no_empty_file_that_hides_nothing(tmp_path, monkeypatch):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        make_data_directory(tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Path.touch, "expected a directory, got a file"),
        (lambda path: path.symlink_to("missing"), "expected a directory, got a link to nothing"),
        (lambda path: path.symlink_to(path), "expected a directory, got a link to nothing"),
    ],
    ids=["file", "dangling link", "circle"],
)
def test_a_place_that_is_no_directory_is_named_with_what_it_is(tmp_path, make, why):
    make(tmp_path / "data")
    with pytest.raises(OSError, match=why) as refused:
        make_data_directory(tmp_path / "data")
    assert refused.value.filename == str(tmp_path / "data")


def test_parents_that_are_missing_are_private(tmp_path):
    before = os.umask(0)
    try:
        make_data_directory(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    for folder in ("a", "a/b", "a/b/c"):
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700
