"""Whole days with the clients that people really use, over the real process and real pipes."""

from __future__ import annotations

import pytest

from tests.eca_server.personalities.conftest import SpendDay
from tests.eca_server.personalities.personality import PERSONALITIES


@pytest.mark.requirement(
    "W-2a", "W-2b", "W-3a", "W-3b", "W-3c", "W-3e", "W-4a", "W-4c", "W-10a", "W-10d", "W-10e",
    "W-11a", "W-11b", "W-13b", "W-13d", "W-13l", "W-20a", "W-20b", "W-20d", "W-22a", "LIFE-7",
)  # fmt: skip
@pytest.mark.parametrize("name", PERSONALITIES)
def test_a_day(spend_day: SpendDay, name: str) -> None:
    day = spend_day(name)
    assert not day.seat.dropped
    assert not day.evening.children
    if day.who.leaves_by is None:
        assert day.evening.code == 0
    assert len(day.seat.screen.chats) >= 10
    assert all(not chat.open_thoughts for chat in day.seat.screen.chats.values())
