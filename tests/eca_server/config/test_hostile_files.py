from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from eca_server.config import Config, load

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
    [
        "pipe",
        "directory",
        "device",
        "loop",
        "large",
        "huge",
        "not UTF-8",
        "deep",
        "long number",
    ],
)
def test_it_is_named_and_the_rest_counts(house: House, kind: str) -> None:
    path = make(house, kind)
    house.in_root(1, {"defaultModel": "a/b"})
    problem = house.problem()
    assert problem.source == str(path)
    assert house.load().config.default_model == "a/b"
    assert problem.line == (2 if kind == "not UTF-8" else None)


@pytest.mark.parametrize("kind", ["pipe", "directory", "device", "loop", "large", "not UTF-8"])
def test_as_a_reference_it_is_named_too(house: House, kind: str) -> None:
    path = make(house, kind)
    loaded = load(
        initialization_options={"welcomeMessage": f"${{file:{path}}}", "defaultModel": "a/b"},
        roots=[],
        environ={},
        home=house.home,
    )
    (problem,) = loaded.problems
    assert problem.key == "welcomeMessage"
    assert str(path) in problem.message
    assert loaded.config.default_model == "a/b"


def test_a_root_that_is_a_file_has_no_configuration(house: House) -> None:
    house.roots[0].write_text("")
    assert house.config() == Config()
