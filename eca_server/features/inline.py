"""Prompts of chats shown inside the edited text (chapter "Chat Inline Prompt").

A new chat begins with the messages of its source, which are not replayed. The source may be running
and stays unchanged. The prompt is queued at once, so a stop that follows it finds it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs
import trio

from eca_protocol import messages as m
from eca_protocol.errors import INVALID_PARAMS, RPCError
from eca_protocol.peer import Handler
from eca_server.chat import Chat, Chats, Prompt, Turn
from eca_server.chat.steering import messages_so_far
from eca_server.chat.title import shortened_title
from eca_server.commands import named_command
from eca_server.features.current_models import CurrentModels
from eca_server.features.prompts import Prompts
from eca_server.features.settings import Settings
from eca_server.session import Session

__all__ = ["InlinePrompts"]

INLINE = "inline"
ANSWER_SECONDS = 1.0
"""Longest wait of a turn for the answer to its request."""

_NO_SOURCE = "The chat to continue from does not exist, so this chat begins empty."


@attrs.frozen(eq=False)
class InlinePrompts:
    """The requests with inline prompts."""

    session: Session
    settings: Settings
    models: CurrentModels
    chats: Chats
    prompts: Prompts

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handler of inline prompts."""
        beginning: set[str] = set()

        def inline_prompt(
            params: m.ChatInlinePromptParams,
        ) -> m.ChatPromptResponse | Awaitable[m.ChatPromptResponse]:
            if not params.chat_id.strip():
                raise RPCError(
                    INVALID_PARAMS, "params.chatId: expected the id of a chat, got nothing"
                )
            chat = self.chats.open(params.chat_id)
            if chat.id in beginning or not _looks_new(chat):
                return self.prompts.begin(self.as_prompt(chat, params))
            beginning.add(chat.id)
            begun = _Begun(self, chat, params, lambda: beginning.discard(chat.id))
            return begun.answer()

        return {"chat/inlinePrompt": inline_prompt}

    def as_prompt(self, chat: Chat, params: m.ChatInlinePromptParams) -> m.ChatPromptParams:
        """Return the prompt as a chat prompt; an inline chat gets the configured agent."""
        fields = attrs.asdict(params, recurse=False)
        del fields["source_chat_id"]
        if chat.settings.kind == INLINE:
            fields["agent"] = params.agent or self.settings.config.chat_inline.agent
        return m.ChatPromptParams(**fields)


def _looks_new(chat: Chat) -> bool:
    """Return whether a chat has no history, title or prompt yet."""
    was_prompted = chat.is_busy or chat.settings.model is not None
    return not (was_prompted or chat.history or chat.title)


class _Begun:
    """The first prompt of a chat that may be new; the chat and its source may need restoring."""

    def __init__(
        self,
        owner: InlinePrompts,
        chat: Chat,
        params: m.ChatInlinePromptParams,
        begun: Callable[[], None],
    ) -> None:
        self._owner = owner
        self._chat = chat
        self._params = params
        self._begun = begun
        self._lacks_source = False
        self._answered = trio.Event()
        self._shown = owner.prompts.shown_text(params.message)
        self._seeded = chat.between_turns.do(self._seed)
        chat.prompt(Prompt(text=self._shown, body=self._run))

    async def answer(self) -> m.ChatPromptResponse:
        """Return the answer once the chat's model is known."""
        try:
            await self._seeded.wait()
            needs_model = named_command(self._params.message) is None
            return self._owner.prompts.answer(self._chat, self._prompt, needs_model=needs_model)
        finally:
            self._answered.set()

    @property
    def _prompt(self) -> m.ChatPromptParams:
        return self._owner.as_prompt(self._chat, self._params)

    async def _run(self, turn: Turn) -> None:
        with trio.move_on_after(ANSWER_SECONDS):
            await self._answered.wait()
        if self._lacks_source:
            turn.say(_NO_SOURCE, role="system")
        await self._owner.prompts.accept(self._chat, self._prompt).body(turn)

    async def _seed(self) -> None:
        """Copy the source's messages into the chat, unless the chat is stored."""
        chat, owner = self._chat, self._owner
        try:
            if not (chat.history or chat.title):
                await self._begin_new()
            if owner.chats.get(chat.id) is chat:  # not deleted meanwhile
                opened = m.ChatOpenedParams(chat_id=chat.id, title=chat.title)
                owner.session.notify("chat/opened", opened, newest=True)
        finally:
            self._begun()

    async def _begin_new(self) -> None:
        chat, chats, params = self._chat, self._owner.chats, self._params
        source = None
        if params.source_chat_id and params.source_chat_id != chat.id:
            source = await chats.find(params.source_chat_id)
            self._lacks_source = source is None
        self._select(source)
        await chats.begin(
            messages_so_far(source) if source is not None else (),
            title=f"inline: {shortened_title(self._shown)}",
            settings=attrs.evolve(chat.settings, kind=INLINE),
            chat=chat,
        )

    def _select(self, source: Chat | None) -> None:
        """Select the chat's model: the selected one, else the configured, else the source's."""
        owner, params, selection = self._owner, self._params, self._chat.selection
        configured = owner.settings.config.chat_inline
        selection.model = params.model or selection.model or configured.model
        selection.variant = params.variant or selection.variant or configured.variant
        if source is not None:
            model = source.selection.model or source.settings.model
            if selection.model is None and model in owner.models.current.names:
                selection.model = model
            if selection.model == model:
                selection.variant = (
                    selection.variant or source.selection.variant or source.settings.variant
                )
            before = source.selection.behavior or source.settings.behavior
            selection.behavior = selection.behavior or before
