"""Prompts of chats shown inside the edited text (chapter "Chat Inline Prompt").

A new chat begins with the messages of its source, which are not replayed. The source may be running
and stays unchanged. The prompt is queued at once, so a stop that follows it finds it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

import attrs
import trio

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.errors import INVALID_PARAMS, RPCError
from eca_protocol.peer import Handler
from eca_server.agent.chat import Chat, Prompt, Turn
from eca_server.agent.chat.subagents import SubagentChat
from eca_server.agent.chat.title import shortened_title
from eca_server.connection.features.chat_views import ChatViews, messages_so_far
from eca_server.connection.features.composition import Composition, Feature
from eca_server.connection.features.prompts import Prompts

INLINE = "inline"
ANSWER_SECONDS = 1.0
"""Longest wait of a turn for the answer to its request."""

_NO_SOURCE = "The chat to continue from does not exist, so this chat begins empty."


class InlinePrompts(Feature):
    """The requests with inline prompts."""

    def __init__(self, parts: Composition, views: ChatViews, prompts: Prompts) -> None:
        super().__init__(parts)
        self.views = views
        self.prompts = prompts
        self._beginning: set[str] = set()

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handler of inline prompts."""
        return methods.handlers(methods.CHAT_INLINE_PROMPT.handled_by(self._inline_prompt))

    def _inline_prompt(
        self, params: m.ChatInlinePromptParams
    ) -> m.ChatPromptResponse | Awaitable[m.ChatPromptResponse]:
        if not params.chat_id.strip():
            raise RPCError(INVALID_PARAMS, "params.chatId: expected the id of a chat, got nothing")
        chat = self.chats.subagent(params.chat_id) or self.chats.open(params.chat_id)
        if isinstance(chat, SubagentChat) or chat.id in self._beginning or not _looks_new(chat):
            return self.prompts.begin(self._as_prompt(chat, params))
        self._beginning.add(chat.id)
        return self._begin(chat, params)

    def _begin(
        self, chat: Chat, params: m.ChatInlinePromptParams
    ) -> Awaitable[m.ChatPromptResponse]:
        """Prompt a chat that may be new; the chat and its source may need restoring."""
        lacks_source, answered = False, trio.Event()

        async def seed() -> None:
            nonlocal lacks_source
            try:
                if not (chat.history or chat.title):  # else the chat is stored
                    lacks_source = not await self._copy_source(chat, params)
                if self.chats.get(chat.id) is chat:  # not deleted meanwhile
                    self.views.announce_opened(chat)
            finally:
                self._beginning.discard(chat.id)

        async def body(turn: Turn) -> None:
            with trio.move_on_after(ANSWER_SECONDS):
                await answered.wait()
            if lacks_source:
                turn.report(_NO_SOURCE)
            await self.prompts.accept(chat, self._as_prompt(chat, params)).body(turn)

        async def answer() -> m.ChatPromptResponse:
            # Editors forget a chat whose first prompt is answered with `error`, and never show
            # what it says. So an unusable model is reported by the turn alone.
            try:
                await seeded.wait()
                prompt = self._as_prompt(chat, params)
                return self.prompts.answer(chat, prompt, needs_model=False)
            finally:
                answered.set()

        seeded = chat.mailbox.do(seed)
        chat.prompt(Prompt(text=self.prompts.shown_text(params.message), body=body))
        return answer()

    def _as_prompt(
        self, chat: Chat | SubagentChat, params: m.ChatInlinePromptParams
    ) -> m.ChatPromptParams:
        """Return the prompt as a chat prompt; an inline chat gets the configured agent."""
        fields = attrs.asdict(params, recurse=False)
        del fields["source_chat_id"]
        if chat.settings.kind == INLINE:
            fields["agent"] = params.agent or self.settings.config.chat_inline.agent
        return m.ChatPromptParams(**fields)

    async def _copy_source(self, chat: Chat, params: m.ChatInlinePromptParams) -> bool:
        """Begin a new chat with its source's messages; return False if the source is missing."""
        source = None
        has_source = bool(params.source_chat_id) and params.source_chat_id != chat.id
        if has_source:
            source = await self.chats.find(params.source_chat_id or "")
        self._select(chat, params, source)
        await self.chats.begin(
            messages_so_far(source) if source is not None else (),
            title=f"inline: {shortened_title(self.prompts.shown_text(params.message))}",
            settings=attrs.evolve(chat.settings, kind=INLINE),
            chat=chat,
        )
        return not has_source or source is not None

    def _select(self, chat: Chat, params: m.ChatInlinePromptParams, source: Chat | None) -> None:
        """Select the chat's model: the selected one, else the configured, else the source's."""
        selection, configured = chat.selection, self.settings.config.chat_inline
        selection.model = params.model or selection.model or configured.model
        selection.variant = params.variant or selection.variant or configured.variant
        if source is not None:
            model = source.selection.model or source.settings.model
            if selection.model is None and model in self.models.current.names:
                selection.model = model
            if selection.model == model:
                selection.variant = (
                    selection.variant or source.selection.variant or source.settings.variant
                )
            before = source.selection.behavior or source.settings.behavior
            selection.behavior = selection.behavior or before


def _looks_new(chat: Chat) -> bool:
    """Return whether a chat has no history, title or prompt yet."""
    was_prompted = chat.is_busy or chat.settings.model is not None
    return not (was_prompted or chat.history or chat.title)
