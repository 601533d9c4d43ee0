"""Records of chats for the store, and the messages in them: a user's has its content's id."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

import attrs

from eca_server.agent.chat.store.rows import ChatSettings, StoredMessage, TurnUsage
from eca_server.agent.chat.store.running import Running
from eca_server.models.history import Message

_GENERATED: Final = "-"
"""The beginning of the id of a stored message that has no content id."""


@attrs.frozen(kw_only=True)
class ChatRecord:
    """Additions to a stored chat.

    Attributes:
        title: the chat's title; None: keep the stored one.
        settings: the chat's settings; None: keep the stored ones.
        running: the state of the running turn with the messages.
    """

    messages: Sequence[Message] = ()
    title: str | None = None
    settings: ChatSettings | None = None
    usage: TurnUsage | None = None
    running: Running | None = None


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
