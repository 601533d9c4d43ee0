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
from eca_server.chat import Chat, Chats
from eca_server.chat.flags import end_of, flags_within
from eca_server.chat.store import ChatSettings
from eca_server.chat.title import title_of_fork
from eca_server.features.chat_views import ChatViews
from eca_server.features.current_models import CurrentModels
from eca_server.llm.history import Message

__all__ = ["Forks"]


@attrs.frozen(eq=False)
class Forks:
    """The maker of chats that begin with messages of an existing one."""

    models: CurrentModels
    chats: Chats
    views: ChatViews

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handler of forks."""

        async def fork(params: m.ChatForkParams) -> m.ChatForkResponse:
            chat = await self.views.find(params.chat_id)
            flag = chat.settings.flags.get(params.content_id)
            end = end_of(chat.history, params.content_id if flag is None else flag.after)
            if end is None:
                raise RPCError(
                    INVALID_PARAMS,
                    "params.contentId: expected the id of a flag, or of a user message that "
                    f"was answered in this chat, got {params.content_id[:100]!r}",
                )
            forked = await self.fork_chat(chat, chat.history[:end])
            if self.chats.get(chat.id) is chat:  # not deleted meanwhile
                note = m.ChatTextContent(text=f"\n\nThis chat was forked to {forked.title}.\n\n")
                chat.emit("system", note)
            return m.ChatForkResponse(chat_id=forked.id)

        return {"chat/fork": fork}

    async def fork_chat(
        self, chat: Chat, messages: Sequence[Message], title: str | None = None
    ) -> Chat:
        """Create a chat that begins with messages of an existing one, and show it.

        Args:
            chat: the existing chat.
            messages: its messages.
            title: the title; None: that of the existing chat, with a number.
        """
        flags = flags_within(chat.settings.flags, messages)
        settings = attrs.evolve(
            chat.settings, trust=False, flags=flags, is_named_by_user=True, kind=None
        )
        title = title or title_of_fork(chat.title, await self.chats.titles())
        return await self.begin_chat(messages, title, settings)

    async def begin_chat(
        self, messages: Sequence[Message], title: str, settings: ChatSettings
    ) -> Chat:
        """Create a chat with messages of an existing one, and show it to the client."""
        chat = await self.chats.begin(messages, title=title, settings=settings)
        if settings.model in self.models.current.names:
            chat.selection.model, chat.selection.variant = settings.model, settings.variant
        chat.selection.behavior = settings.behavior
        await self.views.show_new(chat)
        return chat
