"""The README's examples do what it says: each is run, and prints what stands beneath it."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import attrs
import pytest

from eca_server.config import load

REPOSITORY = Path(__file__).resolve().parent.parent
README = (REPOSITORY / "README.md").read_text("utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@attrs.frozen
class Example:
    """A block of Python and the block of text behind it, which it prints."""

    code: str
    printed: str


def examples() -> list[Example]:
    blocks = [(match[1], match[2]) for match in BLOCK.finditer(README)]
    following = [*blocks[1:], ("", "")]
    return [
        Example(code, next_text if next_kind == "text" else "")
        for (kind, code), (next_kind, next_text) in zip(blocks, following, strict=True)
        if kind == "python"
    ]


EXAMPLES = examples()


@pytest.fixture
def _eca_server_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The console script, of the tree under test, in a home where nothing is configured."""
    script = tmp_path / "bin" / "eca-server"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m eca_server "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("ECA_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


def test_there_are_eight_examples() -> None:
    assert len(EXAMPLES) == 8


@pytest.mark.usefixtures("_eca_server_on_path")
@pytest.mark.parametrize("example", EXAMPLES, ids=range(1, len(EXAMPLES) + 1))
def test_an_example_prints_what_the_readme_says(
    example: Example, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "example.py"
    path.write_text(example.code, "utf-8")
    names = runpy.run_path(str(path))
    tests = [function for name, function in names.items() if name.startswith("test_")]
    for test in tests:
        test()
    assert capsys.readouterr().out == example.printed
    assert example.printed or tests


def test_the_configurations_are_some_that_the_server_takes(tmp_path: Path) -> None:
    first, *others = [match[2] for match in BLOCK.finditer(README) if match[1] == "json"]
    path = tmp_path / "config.json"
    for text in (*others, first):
        path.write_text(text, "utf-8")
        loaded = load(
            initialization_options=None, roots=(), environ={"TEAM": "x"}, config_file=path
        )
        assert not loaded.problems
    provider = loaded.config.providers["local"]
    assert f"local/{next(iter(provider.models))}" == loaded.config.default_model


def test_every_file_that_is_linked_is_there() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert len(targets) >= 4
    for target in targets:
        assert (REPOSITORY / target).is_file(), target
