"""Texts that are cut for a report: of half a key nobody would know that it is one."""

from __future__ import annotations

import pytest

from eca_server.ecp import scenario
from eca_server.ecp.graders import text_match


def test_what_is_cut_shows_no_half_of_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_PASSWORD", "my-own-password")
    text_match._hide.cache_clear()
    try:
        shown = text_match.shortened("x" * 390 + " my-own-password and more")
    finally:
        text_match._hide.cache_clear()
    assert "my-own" not in shown
    assert "password" not in scenario._end_of("my-own-password" + "x" * 4090)
