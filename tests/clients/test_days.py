"""Whole days with the clients that people really use, over the real process and real pipes."""

from pathlib import Path

import pytest

from eca_protocol.fold import Conversation
from eca_protocol.testing.watching import Watcher
from tests.clients.conftest import Day, SpendDay, seated, spend
from tests.clients.personality import PERSONALITIES

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

OF_EACH_CLIENT = pytest.mark.parametrize("name", PERSONALITIES, scope="module")
"""The tests of one day follow each other, so that few workers of a run spend it."""


def methods(day: Day) -> set[str]:
    return {value["method"] for value in day.seat.received if "method" in value}


@pytest.mark.requirement(
    "W-2a", "W-2b", "W-3a", "W-3b", "W-3c", "W-3e", "W-4a", "W-4c", "W-10a", "W-10d", "W-10e",
    "W-11a", "W-11b", "W-13b", "W-13d", "W-13l", "W-20a", "W-20b", "W-20d", "W-22a", "LIFE-7",
)  # fmt: skip
@OF_EACH_CLIENT
def test_a_day(spend_day: SpendDay, name: str) -> None:
    day = spend_day(name)
    assert not day.seat.dropped
    assert not day.evening.children
    if day.who.leaves_by is None:
        assert day.evening.code == 0
    assert len(day.seat.screen.chats) >= 10
    assert all(not chat.open_thoughts for chat in day.seat.screen.chats.values())


@pytest.mark.requirement("W-12c", "W-12d")
@OF_EACH_CLIENT
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
    with seated(name, tmp_path, "--protocol-revision", "2025-10") as seat:
        day = spend(seat)
    assert not day.evening.children
    assert methods(day) <= OCTOBER | OF_ANSWERS


@pytest.mark.requirement("W-2d", "CLIENT-7", "CLIENT-23")
@OF_EACH_CLIENT
def test_a_day_is_watched_without_a_finding(spend_day: SpendDay, name: str) -> None:
    """By the rules of the conformance kit nothing breaks one that the server says."""
    watcher, findings = Watcher(), []
    for side, value in spend_day(name).seat.passed:
        findings += watcher.feed(side, {"jsonrpc": "2.0", **value})  # vscode-jsonrpc shows none
    assert [each for each in (*findings, *watcher.finish()) if each.side == "server"] == []


@pytest.mark.requirement("CLIENT-16", "CLIENT-32", "CLIENT-33")
@OF_EACH_CLIENT
def test_a_day_is_folded_without_an_error(spend_day: SpendDay, name: str) -> None:
    """The SDK's own strict reducer finds no fault in what comes."""
    seat, conversation = spend_day(name).seat, Conversation()
    for side, value in seat.passed:
        assert conversation.passed(side, value) == ()
    answers = {chat_id: chat.text() for chat_id, chat in conversation.fold.chats.items()}
    assert answers == {chat_id: chat.answer for chat_id, chat in seat.screen.chats.items()}
