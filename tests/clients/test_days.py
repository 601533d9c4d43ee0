"""Whole days with the clients that people really use, over the real process and real pipes."""

from pathlib import Path

import pytest

from tests.clients.conftest import Day, SpendDay, spend
from tests.clients.day import CONFIG
from tests.clients.personality import PERSONALITIES
from tests.clients.seat import Place, Seat

OCTOBER = {
    "chat/contentReceived",
    "config/updated",
    "tool/serverUpdated",
    "editor/getDiagnostics",
    "$/showMessage",
    "$/progress",
}
"""The methods of October's edition, and those that every client waits for (W-11)."""

TODAY = [name for name, who in PERSONALITIES.items() if "chatCapabilities" in who.assistant]
OF_ANSWERS = {"chat/cleared", "chat/opened", "rewrite/contentReceived"}
"""Methods that belong to the answers of `chat/open`, `chat/clear` and `rewrite/prompt`."""


def methods(day: Day) -> set[str]:
    return {value["method"] for value in day.seat.received if "method" in value}


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


@pytest.mark.requirement("W-12c", "W-12d")
@pytest.mark.parametrize("name", PERSONALITIES)
def test_only_clients_of_todays_edition_are_notified_of_chats(
    spend_day: SpendDay, name: str
) -> None:
    more = methods(spend_day(name)) - OCTOBER - (set() if name in TODAY else OF_ANSWERS)
    assert (more >= {"chat/opened", "chat/deleted"}) is (name in TODAY)
    assert bool(more) is (name in TODAY)


@pytest.mark.requirement("W-12a")
@pytest.mark.parametrize(
    "name", [TODAY[0], *(pytest.param(name, marks=pytest.mark.long) for name in TODAY[1:])]
)
def test_a_day_at_a_server_that_is_to_speak_octobers_edition(name: str, tmp_path: Path) -> None:
    """A client of today loses what it has buttons for, and can chat like any other."""
    place = Place.make(tmp_path)
    seat = Seat(PERSONALITIES[name], place, "--protocol-revision", "2025-10", config=CONFIG)
    try:
        day = spend(seat)
    finally:
        seat.line.close()
    assert not day.evening.children
    assert methods(day) <= OCTOBER | OF_ANSWERS
