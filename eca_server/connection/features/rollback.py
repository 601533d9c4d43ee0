"""Rollbacks of chats to before a message (chapter "Chat rollback").

A running turn is stopped first. The remaining history is replayed before the answer. After a
refusal because some files cannot be restored, the same request again restores the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Final

import attrs
import trio

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, RPCError
from eca_protocol.peer import Handler
from eca_server.agent.chat import Chat
from eca_server.agent.chat.history import UnknownMessage
from eca_server.agent.chat.restoring import RollbackRefused
from eca_server.agent.chat.rollback import RollbackRequest, RollbackResult, roll_back
from eca_server.agent.chat.undo import SkippedFile
from eca_server.client.session import MessageKind
from eca_server.connection.features.chat_views import ChatViews
from eca_server.connection.features.composition import Composition, Feature

REST: Final = "rest"
"""A value of `include` that is an extension: restore the files that can be restored."""

ASKED_AGAIN: Final = (1.0, 120.0)
"""Seconds between a refusal and the confirming request; an earlier one is a double click."""

_FAILED: Final = "The rollback failed; see the server's log."


@attrs.frozen
class _Refusal:
    """A refused rollback: the request, the files and the time."""

    request: RollbackRequest
    skipped: tuple[SkippedFile, ...]
    refused_at: float


class Rollbacks(Feature):
    """The requests to roll chats back."""

    def __init__(self, parts: Composition, views: ChatViews) -> None:
        super().__init__(parts)
        self.views = views
        self._refusals: dict[str, _Refusal] = {}

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handler of rollbacks."""
        return methods.handlers(methods.CHAT_ROLLBACK.handled_by(self._rollback))

    def _rollback(self, params: m.ChatRollbackParams) -> Awaitable[m.ChatRollbackResponse]:
        if self.chats.subagent(params.chat_id) is not None:
            raise _unknown(params)
        chat = self.chats.open(params.chat_id)
        ids = (message.content_id for message in chat.all_messages)
        known = (*chat.history.unrecorded_prompts, *ids)
        if chat.is_busy and params.content_id not in known:
            raise _unknown(params)
        error: RPCError | None = RPCError(INTERNAL_ERROR, _FAILED)
        received_at = trio.current_time()  # before the wait for the disk

        async def run() -> None:
            nonlocal error
            error = await self._run(chat, params, received_at)

        chat.stop()
        done = chat.mailbox.do(run)

        async def answer() -> m.ChatRollbackResponse:
            await done.wait()
            self.chats.drop_blank(chat)
            if error is not None:
                raise error
            return m.ChatRollbackResponse()

        return answer()

    async def _run(
        self, chat: Chat, params: m.ChatRollbackParams, received_at: float
    ) -> RPCError | None:
        """Roll a chat back and show it; return the error that answers the request, or None."""
        request = _request_of(params)
        try:
            done = await self._roll_back(chat, request, received_at)
        except UnknownMessage:
            return _unknown(params)
        except RollbackRefused as error:
            self._show(chat, "warning", str(error))
            return RPCError(INVALID_PARAMS, str(error), {"code": "not_restorable"})
        if self.chats.get(chat.id) is not chat:  # deleted meanwhile
            return None
        if request.messages:
            await self.views.show_again(chat)
        if note := done.message():
            self._show(chat, "warning" if done.skipped else "info", note)
        return None

    def _show(self, chat: Chat, kind: MessageKind, message: str) -> None:
        is_there = self.chats.get(chat.id) is chat
        self.session.show(kind, message, chat_id=chat.id if is_there else None)

    async def _roll_back(
        self, chat: Chat, request: RollbackRequest, received_at: float
    ) -> RollbackResult:
        memory = self.chats.memory
        rollbacks = None if memory is None else memory.rollbacks
        before = self._refusals.pop(chat.id, None)
        try:
            return await roll_back(chat, rollbacks, request)
        except RollbackRefused as error:
            now = trio.current_time()
            if before is None or (before.request, before.skipped) != (request, error.skipped):
                self._refusals[chat.id] = _Refusal(request, error.skipped, now)
                raise
            if not ASKED_AGAIN[0] <= received_at - before.refused_at <= ASKED_AGAIN[1]:
                self._refusals[chat.id] = attrs.evolve(before, refused_at=now)
                raise
        return await roll_back(chat, rollbacks, attrs.evolve(request, allow_partial=True))


def _request_of(params: m.ChatRollbackParams) -> RollbackRequest:
    included = {str(each) for each in params.include}
    both = not included & {"messages", "tools"}
    return RollbackRequest(
        content_id=params.content_id,
        messages=both or "messages" in included,
        files=both or "tools" in included,
        allow_partial=REST in included,
    )


def _unknown(params: m.ChatRollbackParams) -> RPCError:
    return RPCError(
        INVALID_PARAMS,
        "params.contentId: expected the id of a message of the user's in the chat "
        f"{params.chat_id[:100]!r}, got {params.content_id[:100]!r}",
    )
