"""The rules of the conformance kit over each client's day: nothing that we say breaks one."""

import pytest

from eca_protocol.testing.watching import Watcher
from tests.clients.conftest import SpendDay
from tests.clients.personality import PERSONALITIES


@pytest.mark.requirement("W-2d", "CLIENT-7", "CLIENT-23")
@pytest.mark.parametrize("name", PERSONALITIES)
def test_a_day_is_watched_without_a_finding(spend_day: SpendDay, name: str) -> None:
    watcher, findings = Watcher(), []
    for side, value in spend_day(name).seat.passed:
        findings += watcher.feed(side, {"jsonrpc": "2.0", **value})  # vscode-jsonrpc shows none
    assert [each for each in (*findings, *watcher.finish()) if each.side == "server"] == []
