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
from eca_server.chat import Chat, Prompt, Turn
from eca_server.chat.subagents import SubagentChat
from eca_server.chat.title import shortened_title
from eca_server.commands import named_command
from eca_server.features.connection import Connection
from eca_server.features.fork import messages_so_far
from eca_server.features.prompts import accept, answer, begin_prompt, shown_text

__all__ = ["make_handlers"]

INLINE = "inline"
ANSWER_SECONDS = 1.0
"""Longest wait of a turn for the answer to its request."""

_NO_SOURCE = "The chat to continue from does not exist, so this chat begins empty."


def make_handlers(connection: Connection) -> Mapping[str, Handler]:
    """Return the handler of inline prompts."""
    beginning: set[str] = set()

    def inline_prompt(
        params: m.ChatInlinePromptParams,
    ) -> m.ChatPromptResponse | Awaitable[m.ChatPromptResponse]:
        if not params.chat_id.strip():
            raise RPCError(INVALID_PARAMS, "params.chatId: expected the id of a chat, got nothing")
        chat = connection.chats.subagent(params.chat_id) or connection.chats.open(params.chat_id)
        if isinstance(chat, SubagentChat) or chat.id in beginning or not _looks_new(chat):
            return begin_prompt(connection, _in_chat(connection, chat, params))
        beginning.add(chat.id)
        begun = _Begun(connection, chat, params, lambda: beginning.discard(chat.id))
        return begun.answer()

    return {"chat/inlinePrompt": inline_prompt}


def _looks_new(chat: Chat) -> bool:
    """Return whether a chat has no history, title or prompt yet."""
    was_prompted = chat.is_busy or chat.settings.model is not None
    return not (was_prompted or chat.history or chat.title)


def _in_chat(
    connection: Connection, chat: Chat | SubagentChat, params: m.ChatInlinePromptParams
) -> m.ChatPromptParams:
    """Return the prompt as a chat prompt; an inline chat gets the configured agent."""
    fields = attrs.asdict(params, recurse=False)
    del fields["source_chat_id"]
    if chat.settings.kind == INLINE:
        fields["agent"] = params.agent or connection.config.chat_inline.agent
    return m.ChatPromptParams(**fields)


class _Begun:
    """The first prompt of a chat that may be new; the chat and its source may need restoring."""

    def __init__(
        self,
        connection: Connection,
        chat: Chat,
        params: m.ChatInlinePromptParams,
        begun: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._chat = chat
        self._params = params
        self._begun = begun
        self._lacks_source = False
        self._answered = trio.Event()
        self._shown = shown_text(connection, params.message)
        self._seeded = chat.mailbox.do(self._seed)
        chat.prompt(Prompt(text=self._shown, body=self._run))

    async def answer(self) -> m.ChatPromptResponse:
        """Return the answer once the chat's model is known."""
        try:
            await self._seeded.wait()
            needs_model = named_command(self._params.message) is None
            return answer(self._connection, self._chat, self._prompt, needs_model=needs_model)
        finally:
            self._answered.set()

    @property
    def _prompt(self) -> m.ChatPromptParams:
        return _in_chat(self._connection, self._chat, self._params)

    async def _run(self, turn: Turn) -> None:
        with trio.move_on_after(ANSWER_SECONDS):
            await self._answered.wait()
        if self._lacks_source:
            turn.say(_NO_SOURCE, role="system")
        await accept(self._connection, self._chat, self._prompt).body(turn)

    async def _seed(self) -> None:
        """Copy the source's messages into the chat, unless the chat is stored."""
        chat, connection = self._chat, self._connection
        try:
            if not (chat.history or chat.title):
                await self._begin_new()
            if connection.chats.get(chat.id) is chat:  # not deleted meanwhile
                opened = m.ChatOpenedParams(chat_id=chat.id, title=chat.title)
                connection.session.notify("chat/opened", opened, newest=True)
        finally:
            self._begun()

    async def _begin_new(self) -> None:
        chat, connection, params = self._chat, self._connection, self._params
        source = None
        if params.source_chat_id and params.source_chat_id != chat.id:
            source = await connection.chats.find(params.source_chat_id)
            self._lacks_source = source is None
        self._select(source)
        await connection.chats.begin(
            messages_so_far(source) if source is not None else (),
            title=f"inline: {shortened_title(self._shown)}",
            settings=attrs.evolve(chat.settings, kind=INLINE),
            chat=chat,
        )

    def _select(self, source: Chat | None) -> None:
        """Select the chat's model: the selected one, else the configured, else the source's."""
        connection, params, selection = self._connection, self._params, self._chat.selection
        configured = connection.config.chat_inline
        selection.model = params.model or selection.model or configured.model
        selection.variant = params.variant or selection.variant or configured.variant
        if source is not None:
            model = source.selection.model or source.settings.model
            if selection.model is None and model in connection.models.names:
                selection.model = model
            if selection.model == model:
                selection.variant = (
                    selection.variant or source.selection.variant or source.settings.variant
                )
            before = source.selection.behavior or source.settings.behavior
            selection.behavior = selection.behavior or before
