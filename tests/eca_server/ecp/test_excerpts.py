"""Texts that are cut for a report: a key must be masked before the cut."""

from __future__ import annotations

import pytest

from eca_server.ecp import scenario
from eca_server.ecp.graders import text_match


def test_a_cut_text_shows_no_half_of_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_PASSWORD", "my-own-password")
    text_match._masker.cache_clear()
    try:
        shown = text_match.shorten("x" * 390 + " my-own-password and more")
    finally:
        text_match._masker.cache_clear()
    assert "my-own" not in shown
    assert "password" not in scenario._log_excerpt("my-own-password" + "x" * 4090)
