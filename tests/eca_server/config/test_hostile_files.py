from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from eca_server.config.settings import Config

if TYPE_CHECKING:
    from conftest import House


def make(house: House, kind: str) -> Path:
    path = house.roots[0] / ".eca" / "config.json"
    path.parent.mkdir(parents=True)
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
        case "loop":
            path.symlink_to(path)
        case "large":
            path.write_bytes(b" " * (5 * 2**20))
        case "huge":
            path.touch()
            os.truncate(path, 2**42)
        case "not UTF-8":
            path.write_bytes(b'{\n"defaultModel": "\xff"}')
        case "deep":
            path.write_text('{"a":' * 100_000)
        case "long number":
            path.write_text(f'{{"connectTimeoutSeconds": {"9" * 10_000}}}')
    return path


@pytest.mark.parametrize(
    "kind",
    ["pipe", "directory", "device", "loop", "large", "not UTF-8", "huge", "deep", "long number"],
)
def test_it_is_named_and_the_rest_counts_also_where_it_is_a_reference(house, kind):
    path = make(house, kind)
    house.in_root(1, {"defaultModel": "a/b"})
    problem = house.problem()
    assert problem.source == str(path)
    assert problem.line == (2 if kind == "not UTF-8" else None)
    house.options = {"welcomeMessage": f"${{file:{path}}}"}
    loaded = house.load()
    assert loaded.config.default_model == "a/b"
    if kind not in {"deep", "long number"}:
        reference, _ = loaded.problems
        assert reference.key == "welcomeMessage"
        assert str(path) in reference.message


@pytest.mark.parametrize("code", [errno.EACCES, errno.ESTALE])
@pytest.mark.parametrize("place", ["root", "target of a link"])
def test_a_folder_that_cannot_be_accessed_counts_as_absent(house, monkeypatch, code, place):
    hidden = house.roots[0]
    if place != "root":
        (house.roots[0] / ".eca").mkdir(parents=True)
        hidden = house.folder / "elsewhere"
        (house.roots[0] / ".eca" / "agents").symlink_to(hidden / "agents")
        (house.roots[0] / ".eca" / "config.json").symlink_to(hidden / "config.json")
    house.in_root(1, {"defaultModel": "a/b"})
    stat = os.stat

    def refuse(path: Any, **options: Any) -> os.stat_result:
        if not isinstance(path, int) and os.path.realpath(path).startswith(str(hidden)):
            raise OSError(code, os.strerror(code), str(path))
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", refuse)
    assert house.config().default_model == "a/b"


def test_a_root_that_is_a_file_has_no_configuration(house):
    house.roots[0].write_text("")
    assert house.config() == Config()


MANY = {f"s{number}": {"command": "c"} for number in range(600)}
DEEP = json.loads("[" * 140 + "]" * 140)


@pytest.mark.parametrize(
    ("servers", "waiting", "words"),
    [
        ({"s": {"command": "c" * 2**20}}, 0, "expected at most 1048576 bytes, got more"),
        ({"s": {"args": ["a"] * 10_000}}, 0, "expected at most 10,000 values of a folder"),
        (MANY, 500, "100 settings do not count: a folder may have 500"),
        ({"s": DEEP}, 0, "128"),
    ],
    ids=["bytes", "values", "settings", "depth"],
)
@pytest.mark.parametrize("is_extra", [False, True])
def test_a_folder_configures_a_bounded_amount(untrusted, servers, waiting, words, is_extra):
    content = {"mcpServers": servers}
    if is_extra:
        untrusted.write(untrusted.roots[0] / ".eca" / "extra.json", content)
        content = {"extraConfigs": ["extra.json"]}
    untrusted.in_root(0, content)
    loaded = untrusted.load(trusts_workspace=is_extra)
    if not is_extra:
        assert len(loaded.withheld) == waiting
    assert len(loaded.config.mcp_servers) == waiting
    assert any(words in str(problem) for problem in loaded.problems)


def test_a_folder_names_a_bounded_number_of_files(untrusted):
    names = "".join(f"${{file:{number}}}" for number in range(2_100))
    untrusted.in_root(0, {"prompts": {"chat": names}})
    assert sum(path.name.isdigit() for path in untrusted.load().files) <= 2_000


def test_what_is_refused_is_not_reported_without_end(house):
    house.in_root(0, {"providers": {"openai": {f"k{number}": 1 for number in range(1_000)}}})
    assert len(house.load(known_providers=lambda: ["openai"]).problems) < 100
