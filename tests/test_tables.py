"""The tables in `docs` are those of the code."""

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"


def test_the_tables_for_people_are_those_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    written = (DOCS / "tables.md").read_text("utf-8")
    assert runpy.run_path(str(DOCS / "generate.py"))["text"]() == written, (
        "docs/tables.md is out of date: python docs/generate.py"
    )
