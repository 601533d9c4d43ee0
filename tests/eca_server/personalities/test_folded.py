"""The SDK's own strict reducer over each client's day: nothing that comes is a fault to it."""

from __future__ import annotations

import pytest

from eca_protocol.fold import Conversation
from tests.eca_server.personalities.conftest import SpendDay
from tests.eca_server.personalities.personality import PERSONALITIES


@pytest.mark.parametrize("name", PERSONALITIES)
def test_a_day_is_folded_without_a_fault(spend_day: SpendDay, name: str) -> None:
    conversation = Conversation()
    for value in spend_day(name).seat.heard:
        assert conversation.passed("server", value) == ()
    assert conversation.fold.chats
