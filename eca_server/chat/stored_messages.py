"""Conversion of messages to stored ones and back: a user's has the id of its content."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

import attrs

from eca_server.chat.store import StoredMessage
from eca_server.llm.history import Message

__all__ = ["restored", "stored"]

_GENERATED: Final = "-"
"""The beginning of the id of a stored message that has no content id."""


def stored(messages: Sequence[Message]) -> list[StoredMessage]:
    """Give messages ids."""
    return [
        StoredMessage(id=each.content_id or f"{_GENERATED}{uuid.uuid4()}", message=each)
        for each in messages
    ]


def restored(stored_message: StoredMessage) -> Message:
    """Return a stored message; older servers stored a user's content id only in the row's id."""
    message = stored_message.message
    if message.role != "user" or message.content_id or stored_message.id.startswith(_GENERATED):
        return message
    return attrs.evolve(message, content_id=stored_message.id)
