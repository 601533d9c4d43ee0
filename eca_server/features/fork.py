"""A chat that goes on as two (chapter "Chat fork").

The rules it keeps: the new chat begins with the messages up to the one that was named, that one
included; from then on neither knows of the other. What the files were before the first chat
changed them stays that one's: a rollback of the new chat undoes what the new chat did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from eca_protocol import messages as m
from eca_protocol.errors import INVALID_PARAMS, RPCError
from eca_protocol.peer import Handler
from eca_server.chat import Chat
from eca_server.chat.pages import page_of
from eca_server.chat.rollback import UnknownMessage, place_of
from eca_server.chat.store import ChatSettings
from eca_server.chat.title import title_of_fork
from eca_server.features.chats import contents_of, found
from eca_server.features.connection import Connection
from eca_server.llm.history import Message

__all__ = ["begin_chat", "fork_chat", "handlers_of"]


def handlers_of(connection: Connection) -> Mapping[str, Handler]:
    """The handler."""

    async def fork(params: m.ChatForkParams) -> m.ChatForkResponse:
        chat = await found(connection, params.chat_id)
        try:
            place, _ = place_of(chat.history, params.content_id)
        except UnknownMessage:
            raise RPCError(
                INVALID_PARAMS,
                "params.contentId: expected the id of a message of the user's that was answered in "
                f"this chat, got {params.content_id[:100]!r}",
            ) from None
        title = await fork_chat(connection, chat, chat.history[: place + 1])
        if connection.chats.get(chat.id) is chat:  # and not deleted meanwhile
            told = m.ChatTextContent(text=f"This chat goes on as another one, too: {title}.")
            chat.emit("system", told)
        return m.ChatForkResponse()

    return {"chat/fork": fork}


async def fork_chat(connection: Connection, chat: Chat, messages: Sequence[Message]) -> str:
    """Make a chat that begins with these messages of another one, and show it; its title."""
    ids = {each.content_id for each in messages}
    flags = {key: flag for key, flag in chat.settings.flags.items() if key in ids}
    settings = attrs.evolve(chat.settings, trust=False, flags=flags, is_named_by_user=True)
    title = title_of_fork(chat.title, await connection.chats.titles())
    await begin_chat(connection, messages, title, settings)
    return title


async def begin_chat(
    connection: Connection, messages: Sequence[Message], title: str, settings: ChatSettings
) -> None:
    """Make a chat of what was said elsewhere, and show it to the client."""
    chat = await connection.chats.begin(messages, title=title, settings=settings)
    if settings.model in connection.models.names:
        chat.selection.model, chat.selection.variant = settings.model, settings.variant
    chat.selection.behavior = settings.behavior
    opened = m.ChatOpenedParams(chat_id=chat.id, title=chat.title)
    connection.session.notify("chat/opened", opened, asked=True)
    await chat.showing.run(contents_of(connection, chat, page_of(chat.history)))
    chat.tell_title()
