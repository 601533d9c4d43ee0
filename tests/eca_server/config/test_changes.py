"""A second load: the files it depends on, their changes, and the last values of a broken file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from eca_server.config.loading import LoadedConfig
from eca_server.config.saved_settings import saved_settings_path
from eca_server.config.trust_store import TrustStore

if TYPE_CHECKING:
    from conftest import House


def again(house: House, before: LoadedConfig) -> LoadedConfig:
    return house.load(before)


def test_every_file_counts_that_is_read_or_looked_for(house: House) -> None:
    key = house.write(house.folder / "key", "sk-1")
    house.in_root(0, {"providers": {"p": {"key": f"${{file:{key}}}"}}})
    files = house.load().files
    assert {path for path, stamp in files.items() if stamp is not None} == {
        house.roots[0] / ".eca" / "config.json",
        key,
        TrustStore({}, house.home).path,
    }
    assert {path for path, stamp in files.items() if stamp is None} == {
        house.user,
        house.user.parent / "agents",
        house.roots[0] / ".eca" / "agents",
        house.roots[1] / ".eca" / "agents",
        house.roots[1] / ".eca" / "config.json",
        saved_settings_path({}, house.home),
    }


def test_the_users_decisions_about_folders_count_as_a_file(house: House) -> None:
    house.accepts = False
    house.in_root(0, {"defaultModel": "a/b"})
    loaded = house.load()
    assert loaded.is_current()
    house.accept(loaded)
    assert not loaded.is_current()


def test_nothing_touched_is_current(house: House) -> None:
    house.in_root(0, {"defaultModel": "a/b"})
    assert house.load().is_current()


def write(house: House) -> None:
    house.in_root(0, {"defaultModel": "c/d"})


def replace(house: House) -> None:
    """Save as editors do: replace the file by a new one of the same size and time."""
    path = house.roots[0] / ".eca" / "config.json"
    times = path.stat()
    new = house.write(path.with_name("new"), path.read_text().replace("a/b", "c/d"))
    os.utime(new, ns=(times.st_atime_ns, times.st_mtime_ns))
    new.replace(path)


def remove(house: House) -> None:
    (house.roots[0] / ".eca" / "config.json").unlink()


def appear(house: House) -> None:
    house.write(house.user, {})


def rewrite_the_key(house: House) -> None:
    house.write(house.folder / "key", "sk-longer")


@pytest.mark.parametrize("change", [write, replace, remove, appear, rewrite_the_key])
def test_a_change_to_any_of_the_files_is_seen(house: House, change: object) -> None:
    key = house.write(house.folder / "key", "sk-1")
    house.in_root(0, {"defaultModel": "a/b", "providers": {"p": {"key": f"${{file:{key}}}"}}})
    loaded = house.load()
    assert callable(change)
    change(house)
    assert not loaded.is_current()


def test_a_link_that_leads_elsewhere_is_a_change(house: House) -> None:
    one = house.write(house.folder / "one.json", {"defaultModel": "a/b"})
    two = house.write(house.folder / "two.json", {"defaultModel": "c/d"})
    link = house.roots[0] / ".eca" / "config.json"
    link.parent.mkdir(parents=True)
    link.symlink_to(one)
    house.load()  # accepts the link, then its target
    loaded = house.load()
    assert loaded.config.default_model == "a/b"
    link.unlink()
    link.symlink_to(two)
    assert not loaded.is_current()


@pytest.mark.parametrize("content", ["{", '{"defaultModel": "c/', "[]", b"\xff", "folder"])
def test_a_file_that_breaks_counts_as_it_was(house: House, content: str | bytes) -> None:
    path = house.in_root(0, {"defaultModel": "a/b", "lspTimeoutSeconds": 5})
    before = house.load()
    path.unlink()
    if content == "folder":
        path.mkdir()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    house.in_root(1, {"defaultModel": "e/f"})
    loaded = again(house, before)
    assert loaded.config.default_model == "e/f"
    assert loaded.config.lsp_timeout == 5
    (problem,) = loaded.problems
    assert problem.source == str(path)
    assert problem.message.endswith("its previous content stays in force)")
    assert again(house, loaded).config == loaded.config


def test_a_fixed_file_applies_again(house: House) -> None:
    path = house.in_root(0, {"defaultModel": "a/b"})
    before = house.load()
    path.write_text("{")
    broken = again(house, before)
    path.write_text('{"defaultModel": "c/d"}')
    assert not broken.is_current()
    fixed = again(house, broken)
    assert fixed.config.default_model == "c/d"
    assert fixed.problems == ()


def test_a_file_that_is_removed_says_nothing_any_more(house: House) -> None:
    path = house.in_root(0, {"defaultModel": "a/b"})
    before = house.load()
    path.unlink()
    loaded = again(house, before)
    assert loaded.config.default_model is None
    assert loaded.problems == ()


def test_the_file_that_was_asked_for_counts_as_it_was_when_it_is_gone(house: House) -> None:
    house.config_file = house.write(house.folder / "c.json", {"defaultModel": "a/b"})
    before = house.load()
    house.config_file.unlink()
    loaded = again(house, before)
    assert loaded.config.default_model == "a/b"
    assert len(loaded.problems) == 1


def test_a_prompts_file_is_looked_for_beside_the_file_that_names_it(house: House) -> None:
    house.in_root(0, {"behavior": {"a": {"systemPromptFile": "prompts/a.md"}}})
    house.write(house.user, {"behavior": {"b": {"systemPromptFile": "~/b.md"}}})
    house.environ["ECA_CONFIG"] = '{"behavior": {"c": {"systemPromptFile": "c.md"}}}'
    loaded = house.load()
    behaviors = loaded.config.behaviors
    assert behaviors["a"].system_prompt_file == str(house.roots[0] / ".eca" / "prompts" / "a.md")
    assert behaviors["b"].system_prompt_file == str(house.home / "b.md")
    assert behaviors["c"].system_prompt_file is None
    (problem,) = loaded.problems
    assert (problem.source, problem.key) == ("ECA_CONFIG", "behavior.c.systemPromptFile")


def test_an_impossible_path_is_a_problem_and_no_crash(house: House) -> None:
    house.in_root(0, {"providers": {"p": {"key": "${file:/a\\u0000b}"}}})
    house.in_root(1, '{"providers": {"q": {"key": "${file:/a\\u0000b}"}}}')
    loaded = house.load()
    assert [problem.key for problem in loaded.problems] == ["providers.p.key", "providers.q.key"]
    assert loaded.is_current()
    assert Path("/a\0b") in loaded.files
