"""The chats of a client: prompts, decisions, selections, and requests about chats (W-20 to W-34).

A handler acts at once: before the next message is read, the turn is registered or stopped. The
notifications that follow from a request precede its answer.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

import anyio
import anyio.abc
import attrs

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.errors import INVALID_PARAMS, RPCError
from eca_protocol.peer import Peer
from eca_protocol.server.chat import ServerChat
from eca_protocol.server.connected_client import ConnectedClient
from eca_protocol.server.conversation import Conversation, Notify
from eca_protocol.server.declarations import Declarations, PromptHandler
from eca_protocol.server.selection import Selection
from eca_protocol.server.texts import arguments_of, named_command
from eca_protocol.server.turn import Turn
from eca_protocol.server.values import Prompt

__all__ = ["ChatRequests"]

_log = logging.getLogger("eca_protocol.server")

_NO_HANDLER: Final = "This server answers no prompts."


class ChatRequests:
    """The chats of one client.

    Attributes:
        client: the client, once it has introduced itself.
        tasks: the group of the chats' tasks.
        selection: the models and agents that the client has selected.
    """

    def __init__(self, declarations: Declarations, peer: Peer, notify: Notify) -> None:
        self.client: ConnectedClient = ConnectedClient()
        self.tasks: anyio.abc.TaskGroup
        self._declarations = declarations
        self._peer = peer
        self._notify = notify
        self._chats: dict[str, Conversation] = {}
        self.selection: Selection = Selection(declarations)
        self._allowed: set[str] = set()

    def handlers(self) -> Iterable[tuple[str, Callable[[Any], Any]]]:
        """Return the handlers of chats, by method."""
        return (
            methods.CHAT_PROMPT.handled_by(self._prompt),
            methods.CHAT_PROMPT_STOP.handled_by(self._stop),
            methods.CHAT_PROMPT_STEER.handled_by(self._steer),
            methods.CHAT_PROMPT_STEER_REMOVE.handled_by(self._remove_steers),
            methods.CHAT_TOOL_CALL_APPROVE.handled_by(self._approve),
            methods.CHAT_TOOL_CALL_REJECT.handled_by(self._reject),
            methods.CHAT_SELECTED_MODEL_CHANGED.handled_by(self._select_model),
            methods.CHAT_SELECTED_AGENT_CHANGED.handled_by(
                lambda params: self.selection.select_agent(params.agent, params.chat_id)
            ),
            methods.CHAT_SELECTED_BEHAVIOR_CHANGED.handled_by(
                lambda params: self.selection.select_agent(params.behavior)
            ),
            methods.CHAT_DELETE.handled_by(self._delete),
            methods.CHAT_CLEAR.handled_by(self._clear),
            methods.CHAT_UPDATE.handled_by(self._update),
            methods.CHAT_LIST.handled_by(self._list),
            methods.CHAT_OPEN.handled_by(self._open),
            methods.CHAT_HISTORY.handled_by(self._page),
            methods.CHAT_ROLLBACK.handled_by(self._roll_back),
            methods.CHAT_FORK.handled_by(self._fork),
        )

    def meet(self, client: ConnectedClient, *, agent: object) -> None:
        """Take the client, and the agent that its user prefers."""
        self.client = self.selection.client = client
        self.selection.select_agent(agent)

    async def close(self) -> None:
        """Stop all turns, and wait a limited time until they are closed."""
        async with anyio.create_task_group() as closing:
            for chat in tuple(self._chats.values()):
                closing.start_soon(chat.close)

    def _new_chat(self, chat_id: str) -> Conversation:
        chat = Conversation(chat_id, self.tasks, self._notify, self._answer)
        self._chats[chat_id] = chat
        return chat

    def _chat(self, chat_id: str) -> Conversation:
        if chat_id not in self._chats:
            raise RPCError(INVALID_PARAMS, f"chatId: there is no chat {chat_id!r}")
        return self._chats[chat_id]

    def _prompt(self, params: m.ChatPromptParams) -> m.ChatPromptResponse:
        """Register the turn and answer at once, even if the turn will fail (W-21)."""
        chat = self._chats.get(params.chat_id or "")
        if chat is None:
            chat = self._new_chat(params.chat_id or str(uuid.uuid4()))
            self._notify("chat/opened", m.ChatOpenedParams(chat_id=chat.id))
        model, agent = self.selection.selected(chat.id)
        chat.model = params.model or model
        if params.trust is not None:
            chat.trust = params.trust
        prompt = Prompt(
            text=params.message,
            arguments=arguments_of(params.message) if named_command(params.message) else "",
            contexts=params.contexts,
            model=chat.model,
            agent=self.selection.known_agent(params.agent or params.behavior) or agent,
            content_id=str(uuid.uuid4()),
        )
        chat.mailbox.prompt(prompt)
        is_known = chat.model in self._declarations.models
        status: m.ChatPromptStatus = "prompting" if is_known else "error"
        return m.ChatPromptResponse(chat_id=chat.id, model=chat.model, status=status)

    async def _answer(self, conversation: Conversation, turn: Turn) -> None:
        prompt, declared = turn.prompt, self._declarations
        command = declared.commands.get(named_command(prompt.text) or "")
        handler: PromptHandler | None = declared.handlers.get("prompt")
        handler = command.run if command is not None else handler
        if command is None and prompt.model not in declared.models:
            models = ", ".join(declared.models)
            turn.write("system", _text(f"There is no model {prompt.model!r}. Models: {models}."))
            return
        if handler is None:
            turn.write("system", _text(_NO_HANDLER))
            return
        known: list[m.ChatContext] = []
        for context in prompt.contexts:
            if isinstance(context, m.UnknownContext):
                kind = context.type or "without a type"
                turn.write("system", _text(f"A context was left out, since it is unknown: {kind}."))
            else:
                known.append(context)
        chat = ServerChat(
            turn, conversation, self.client, self._peer, declared.tools, self._allowed
        )
        answering: Awaitable[object] = handler(chat, attrs.evolve(prompt, contexts=tuple(known)))
        if (result := await answering) is not None:
            _log.warning("the result of a handler is not shown; use chat.say: %r", result)

    def _select_model(self, params: m.ChatSelectedModelChanged) -> None:
        is_known = self.selection.select_model(params.model, params.chat_id)
        if is_known and self.client.has_variants:
            chat = m.ChatConfig(variants=(), select_variant="")
            changed = m.ConfigUpdatedParams(chat_id=params.chat_id, chat=chat)
            self._notify("config/updated", changed)

    def _stop(self, params: m.ChatPromptStopParams) -> None:
        chat = self._chats.get(params.chat_id)
        if chat is not None and chat.turn is not None:
            chat.stop()
        else:  # a client whose server was restarted waits for the end of a lost turn (W-22)
            idle = m.ChatStatusChangedParams(chat_id=params.chat_id, status="idle")
            self._notify("chat/statusChanged", idle)

    def _steer(self, params: m.ChatPromptSteerParams) -> None:
        chat = self._chats.get(params.chat_id)
        if chat is not None and chat.turn is not None and not chat.turn.is_stopped:
            chat.turn.steers.append(params.message)

    def _remove_steers(self, params: m.ChatPromptSteerRemoveParams) -> None:
        chat = self._chats.get(params.chat_id)
        if chat is not None and chat.turn is not None:
            chat.turn.steers.clear()

    def _approve(self, params: m.ChatToolCallApproveParams) -> None:
        chat = self._chats.get(params.chat_id)
        call = chat and chat.turn and chat.turn.calls.get(params.tool_call_id)
        if call and call.approve() and params.save == "session":
            self._allowed.add(call.naming.name)

    def _reject(self, params: m.ChatToolCallRejectParams) -> None:
        chat = self._chats.get(params.chat_id)
        call = chat and chat.turn and chat.turn.calls.get(params.tool_call_id)
        if call:
            call.reject()

    def _delete(self, params: m.ChatDeleteParams) -> m.ChatDeleteResponse:
        chat = self._chats.pop(params.chat_id or "", None)
        if chat is not None:
            self.selection.forget(chat.id)
            chat.delete()
            self._notify("chat/deleted", m.ChatDeletedParams(chat_id=chat.id))
        return m.ChatDeleteResponse()

    async def _clear(self, params: m.ChatClearParams) -> m.ChatClearResponse:
        await self._chat(params.chat_id).clear()
        return m.ChatClearResponse()

    def _update(self, params: m.ChatUpdateParams) -> m.ChatUpdateResponse:
        chat = self._chat(params.chat_id)
        if params.title is not None:
            chat.rename(params.title)
        if params.trust is not None:
            chat.trust = params.trust
        return m.ChatUpdateResponse()

    def _list(self, params: m.ChatListParams) -> m.ChatListResponse:
        by_start = params.sort_by == "createdAt"
        chats = sorted(
            self._chats.values(), key=lambda each: each.created if by_start else each.updated
        )
        newest: Sequence[Conversation] = chats[::-1][: params.limit]
        return m.ChatListResponse(chats=tuple(each.summary() for each in newest))

    def _open(self, params: m.ChatOpenParams) -> m.ChatOpenResponse:
        chat = self._chats.get(params.chat_id)
        if chat is None:
            return m.ChatOpenResponse(found=False)
        self._notify("chat/cleared", m.ChatClearedParams(chat_id=chat.id))
        self._notify("chat/opened", m.ChatOpenedParams(chat_id=chat.id, title=chat.title))
        contents, meta = chat.page(params.limit, params.before, params.after)
        for content in contents:
            self._notify("chat/contentReceived", content)
        has_window = any(each is not None for each in (params.limit, params.before, params.after))
        model, agent = self.selection.selected(chat.id)
        selection = m.ChatSelection(
            model=model, agent=self.selection.shown_agent(agent), trust=chat.trust
        )
        return m.ChatOpenResponse(
            found=True,
            chat_id=chat.id,
            title=chat.title,
            selection=selection,
            meta=meta if has_window else None,
        )

    def _page(self, params: m.ChatHistoryParams) -> m.ChatHistoryResponse:
        chat = self._chat(params.chat_id)
        contents, meta = chat.page(params.limit, params.before, params.after)
        return m.ChatHistoryResponse(contents=tuple(contents), meta=meta)

    async def _roll_back(self, params: m.ChatRollbackParams) -> m.ChatRollbackResponse:
        chat = self._chat(params.chat_id)
        self._place(chat, params.content_id)

        async def truncate() -> None:
            if (place := chat.before(params.content_id)) is not None:
                del chat.contents[place:]
                self._notify("chat/cleared", m.ChatClearedParams(chat_id=chat.id))
                chat.replay()

        chat.stop()
        await chat.mailbox.do(truncate).wait()
        return m.ChatRollbackResponse()

    def _fork(self, params: m.ChatForkParams) -> m.ChatForkResponse:
        source = self._chat(params.chat_id)
        place = self._place(source, params.content_id)
        fork = self._new_chat(str(uuid.uuid4()))
        fork.contents = source.contents[:place]
        fork.title = source.title
        self._notify("chat/opened", m.ChatOpenedParams(chat_id=fork.id, title=fork.title))
        fork.replay()
        return m.ChatForkResponse(chat_id=fork.id)

    def _place(self, chat: Conversation, content_id: str) -> int:
        """Return the number of contents before a message."""
        place = chat.before(content_id)
        if place is None:
            raise RPCError(INVALID_PARAMS, f"contentId: there is no message {content_id!r}")
        return place


def _text(text: str) -> m.ChatTextContent:
    return m.ChatTextContent(text=text)
