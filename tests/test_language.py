"""Plain English, as far as a program can tell: see `tests/language.py` and CONTRIBUTING.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.language import ROOT, Finding, findings, modules

OWN = ("tests/language.py", "tests/test_language.py")
"""The list of what is not written has to be written."""

TOPS = ("docs", "eca_protocol", "eca_server", "fuzz", "tests")
SHARES = 8
"""Parts of the check, which run side by side."""

WIRE_NAMES = ("eca_protocol/messages/",)
"""Packages whose attributes have the names of members on the wire."""


def has_checked_names(path: Path) -> bool:
    return not path.relative_to(ROOT).as_posix().startswith(WIRE_NAMES)


def is_checked(path: Path) -> bool:
    name = path.relative_to(ROOT).as_posix()
    is_foreign = not {"node_modules", "pinned"}.isdisjoint(path.parts)
    return name not in OWN and not is_foreign


def findings_of(path: Path) -> Iterator[Finding]:
    is_product = path.relative_to(ROOT).parts[0].startswith("eca")
    return findings(path, names=is_product and has_checked_names(path), texts=is_product)


@pytest.mark.parametrize("share", range(SHARES))
def test_sentences_and_names_are_plain(share: int) -> None:
    paths = [path for path in modules([ROOT / top for top in TOPS]) if is_checked(path)]
    assert not [str(each) for path in paths[share::SHARES] for each in findings_of(path)]


def test_what_is_not_plain_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""What it is."""\n'
        "kept = 1  # nobody reads this\n"
        '"""How much there is."""\n'
        "def told(found: int) -> str:\n"
        '    """Return what stands in a file, as `told` says."""\n'
        '    return "It goes on."\n'
        "def test_nobody_is_told() -> None: ...\n",
        encoding="utf-8",
    )
    found = [
        (each.line, each.text.partition(":")[0])
        for each in findings(module, names=True, texts=True)
    ]
    assert found == [
        (1, "a docstring begins with 'What'"),
        (3, "a docstring begins with 'How'"),
        (5, "'stands in'"),
        (2, "'nobody'"),
        (6, "'goes on'"),
        (7, "'nobody' in the name of a test"),
        (7, "'told' in the name of a test"),
        (2, "the name 'kept' hides what it holds"),
        (4, "the name 'found' hides what it holds"),
        (4, "the name 'told' hides what it holds"),
    ]
