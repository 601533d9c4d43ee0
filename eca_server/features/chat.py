"""Prompts, and requests that stop or steer them (chapter "Code Assistant Features"; W-20 to W-23).

A handler translates, calls the chat and answers at once: before the next message is read, the turn
is registered, stopped or deleted.
"""

from __future__ import annotations

from collections.abc import Mapping

from eca_protocol import messages as m
from eca_protocol.peer import Handler
from eca_server.features import (
    chats,
    fork,
    inline,
    queries,
    rollback,
    selection,
    steering,
    tools,
)
from eca_server.features.connection import Connection
from eca_server.features.prompts import begin_prompt

__all__ = ["make_handlers"]


def make_handlers(connection: Connection) -> Mapping[str, Handler]:
    """Return the handlers of chats."""

    def prompt(params: m.ChatPromptParams) -> m.ChatPromptResponse:
        return begin_prompt(connection, params)

    def prompt_stop(params: m.ChatPromptStopParams) -> None:
        chat = connection.chats.at(params.chat_id)
        was_busy = chat is not None and chat.is_busy
        if chat is not None:
            chat.stop()
        elif "rewrites" in vars(connection):
            connection.rewrites.stop(params.chat_id)
        if not was_busy:
            # A client whose server was restarted waits for the end of a lost turn (W-22).
            idle = m.ChatStatusChangedParams(chat_id=params.chat_id, status="idle")
            connection.session.notify("chat/statusChanged", idle)

    return {
        "chat/prompt": prompt,
        "chat/promptStop": prompt_stop,
        **inline.make_handlers(connection),
        **steering.make_handlers(connection),
        **queries.make_handlers(connection),
        **selection.make_handlers(connection),
        **chats.make_handlers(connection),
        **fork.make_handlers(connection),
        **rollback.make_handlers(connection),
        **tools.make_handlers(connection),
    }
