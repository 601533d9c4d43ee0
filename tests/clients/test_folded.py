"""The SDK's own strict reducer over each client's day: nothing that comes is a fault to it."""

import pytest

from eca_protocol.fold import Conversation
from tests.clients.conftest import SpendDay
from tests.clients.personality import PERSONALITIES


@pytest.mark.requirement("CLIENT-16", "CLIENT-32", "CLIENT-33")
@pytest.mark.parametrize("name", PERSONALITIES)
def test_a_day_is_folded_without_an_error(spend_day: SpendDay, name: str) -> None:
    seat, conversation = spend_day(name).seat, Conversation()
    for side, value in seat.passed:
        assert conversation.passed(side, value) == ()
    answers = {chat_id: chat.text() for chat_id, chat in conversation.fold.chats.items()}
    assert answers == {chat_id: chat.answer for chat_id, chat in seat.screen.chats.items()}
