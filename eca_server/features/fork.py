"""Forks of chats (chapter "Chat fork").

A fork begins with the messages up to and including the named one; afterwards the chats are
independent. Before-images of files stay with the first chat: a rollback of the fork undoes only
changes of the fork.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from eca_protocol import messages as m
from eca_protocol.errors import INVALID_PARAMS, RPCError
from eca_protocol.peer import Handler
from eca_server.chat import Chat
from eca_server.chat.flags import end_of, flags_within
from eca_server.chat.pages import page_of
from eca_server.chat.store import ChatSettings
from eca_server.chat.title import title_of_fork
from eca_server.features.chats import contents_of, find_chat
from eca_server.features.connection import Connection
from eca_server.llm.history import Message

__all__ = ["begin_chat", "fork_chat", "make_handlers", "messages_so_far"]


def make_handlers(connection: Connection) -> Mapping[str, Handler]:
    """Return the handler of forks."""

    async def fork(params: m.ChatForkParams) -> m.ChatForkResponse:
        chat = await find_chat(connection, params.chat_id)
        flag = chat.settings.flags.get(params.content_id)
        end = end_of(chat.history, params.content_id if flag is None else flag.after)
        if end is None:
            raise RPCError(
                INVALID_PARAMS,
                "params.contentId: expected the id of a flag, or of a user message that "
                f"was answered in this chat, got {params.content_id[:100]!r}",
            )
        forked = await fork_chat(connection, chat, chat.history[:end])
        if connection.chats.get(chat.id) is chat:  # not deleted meanwhile
            note = m.ChatTextContent(text=f"\n\nThis chat was forked to {forked.title}.\n\n")
            chat.emit("system", note)
        return m.ChatForkResponse(chat_id=forked.id)

    return {"chat/fork": fork}


def messages_so_far(chat: Chat) -> Sequence[Message]:
    """Return a chat's messages with those of the turn that runs, up to a call without result."""
    turn = chat.turn
    return [*chat.history, *(() if turn is None else turn.calls.complete(turn.messages))]


async def fork_chat(
    connection: Connection, chat: Chat, messages: Sequence[Message], title: str | None = None
) -> Chat:
    """Create a chat that begins with messages of an existing one, and show it.

    Args:
        connection: the connection.
        chat: the existing chat.
        messages: its messages.
        title: the title; None: that of the existing chat, with a number.
    """
    flags = flags_within(chat.settings.flags, messages)
    settings = attrs.evolve(
        chat.settings, trust=False, flags=flags, is_named_by_user=True, kind=None
    )
    title = title or title_of_fork(chat.title, await connection.chats.titles())
    return await begin_chat(connection, messages, title, settings)


async def begin_chat(
    connection: Connection, messages: Sequence[Message], title: str, settings: ChatSettings
) -> Chat:
    """Create a chat with messages of an existing one, and show it to the client."""
    chat = await connection.chats.begin(messages, title=title, settings=settings)
    if settings.model in connection.models.names:
        chat.selection.model, chat.selection.variant = settings.model, settings.variant
    chat.selection.behavior = settings.behavior
    opened = m.ChatOpenedParams(chat_id=chat.id, title=chat.title)
    connection.session.notify("chat/opened", opened, newest=True)
    await chat.replayer.run(contents_of(connection, chat, page_of(chat.history)))
    chat.titling.announce()
    return chat
