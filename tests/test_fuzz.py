"""The fuzz targets hold for every input that is kept in the repository."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

FUZZ = Path(__file__).resolve().parent.parent / "fuzz"
TARGETS = sorted(path.stem.removeprefix("fuzz_") for path in FUZZ.glob("fuzz_*.py"))
INPUTS = [(name, path) for name in TARGETS for path in sorted((FUZZ / "corpus" / name).iterdir())]

targets = pytest.mark.parametrize("target", TARGETS)


def load(file: str) -> object:
    """A file of the fuzz folder as a module."""
    spec = importlib.util.spec_from_file_location(file, FUZZ / f"{file}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def check(target: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    monkeypatch.setitem(sys.modules, "runner", load("runner"))
    return load(f"fuzz_{target}").check


@pytest.mark.parametrize(
    ("target", "path"), INPUTS, ids=[f"{name}-{path.name}" for name, path in INPUTS]
)
def test_a_kept_input_holds(check: Callable[[bytes], None], path: Path) -> None:
    check(path.read_bytes())


@targets
def test_a_target_has_seeds_words_an_invariant_and_a_row(target: str) -> None:
    runner = load("runner")
    assert runner.seeds(target)
    assert all(isinstance(word, bytes) for word in runner.words(target))
    assert runner.words(target)
    assert (FUZZ / f"fuzz_{target}.py").read_text().startswith('"""')
    assert f"| `fuzz_{target}.py` |" in (FUZZ / "README.md").read_text()


@pytest.mark.parametrize("target", ["framing"])
def test_a_target_notices_a_broken_promise(
    check: Callable[[bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eca_protocol.framing.ContentLengthDecoder.feed_eof", lambda _: [])
    with pytest.raises(AssertionError):
        check(b"Content-Length: 2\r\n\r\n{")
