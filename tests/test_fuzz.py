"""The fuzz targets hold for every input that is kept in the repository."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lazy import module_of

FUZZ = Path(__file__).resolve().parent.parent / "fuzz"
TARGETS = sorted(path.stem.removeprefix("fuzz_") for path in FUZZ.glob("fuzz_*.py"))
SHARED = ("runner", "answers")
ROWS = (FUZZ / "README.md").read_text()

targets = pytest.mark.parametrize("target", TARGETS)


@pytest.fixture
def check(target: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    for file in SHARED:
        monkeypatch.setitem(sys.modules, file, module_of(FUZZ / f"{file}.py"))
    return module_of(FUZZ / f"fuzz_{target}.py").check


@targets
def test_a_target_holds_for_each_stored_input(target, check):
    inputs = sorted((FUZZ / "corpus" / target).iterdir())
    assert inputs
    for path in inputs:
        try:
            check(path.read_bytes())
        except BaseException as fault:
            fault.add_note(f"the input is {path.relative_to(FUZZ)}")
            raise


@targets
def test_a_target_has_texts_an_invariant_and_a_row(target):
    runner = module_of(FUZZ / "runner.py")
    assert all(isinstance(word, bytes) for word in runner.words(target))
    assert runner.words(target)
    assert (FUZZ / f"fuzz_{target}.py").read_text().startswith('"""')
    assert f"| `fuzz_{target}.py` |" in ROWS


THOUGHT = b"""data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking"}}

data: {"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{"}}

"""


@pytest.mark.parametrize(
    ("target", "broken", "instead", "data"),
    [
        ("framing", "eca_protocol.framing.ContentLengthDecoder.feed_eof", lambda _: [], b"X: 2\n"),
        ("anthropic", "eca_server.models.anthropic.blocks._PROSE", (), THOUGHT),
        ("shell", "eca_server.agent.tools.shell_syntax._ESCAPED_IN_QUOTES", "", b"ls 'a$b'"),
        ("diff", "eca_server.agent.tools.diff._range", lambda *ends: str(ends), b"a\xffb"),
        ("jsonc", "eca_server.config.jsonc.Positions.position", lambda _, __: None, b'{"a":1}'),
    ],
    ids=["framing", "anthropic", "shell", "diff", "jsonc"],
)
def test_a_target_notices_a_broken_promise(check, monkeypatch, broken, instead, data):
    check(data)
    monkeypatch.setattr(broken, instead)
    with pytest.raises((AssertionError, KeyError)):
        check(data)
