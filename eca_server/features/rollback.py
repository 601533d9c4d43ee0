"""A chat that goes back to before a message (chapter "Chat rollback").

The rules it keeps: a turn that runs is stopped first; what is kept is shown before the answer. Who
is told that some files cannot be put back, and asks for the very same once more, wants the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Final

import attrs
import trio

from eca_protocol import messages as m
from eca_protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, RPCError
from eca_protocol.peer import Handler
from eca_server.chat import Chat
from eca_server.chat.rollback import (
    RollbackRefused,
    RollbackRequest,
    RollbackResult,
    UnknownMessage,
    roll_back,
)
from eca_server.chat.undo import SkippedFile
from eca_server.features.chats import show_again
from eca_server.features.connection import Connection
from eca_server.session import MessageKind

__all__ = ["handlers_of"]

REST: Final = "rest"
"""Our own word in `include`: put back what can be, though other files cannot."""

ASKED_AGAIN: Final = (1.0, 120.0)
"""Seconds between a refusal and the request that says it is meant; sooner is a double click."""

_FAILED: Final = "The rollback failed; the log says more."


def handlers_of(connection: Connection) -> Mapping[str, Handler]:
    """The handler."""
    refusals: dict[str, _Refusal] = {}

    def rollback(params: m.ChatRollbackParams) -> Awaitable[m.ChatRollbackResponse]:
        if connection.chats.subagent(params.chat_id) is not None:
            raise _unknown(params)
        chat = connection.chats.open(params.chat_id)
        known = (*chat.unrecorded_prompts, *(message.content_id for message in chat.all_messages))
        if chat.is_busy and params.content_id not in known:
            raise _unknown(params)
        task = _Task(connection=connection, chat=chat, params=params, refusals=refusals)
        done = chat.between_turns.do(task.run)

        async def answer() -> m.ChatRollbackResponse:
            await done.wait()
            connection.chats.drop_blank(chat)
            if task.fault is not None:
                raise task.fault
            return m.ChatRollbackResponse()

        return answer()

    return {"chat/rollback": rollback}


@attrs.frozen
class _Refusal:
    """What was refused, why, and when."""

    request: RollbackRequest
    skipped: tuple[SkippedFile, ...]
    refused_at: float


@attrs.define(kw_only=True)
class _Task:
    """One rollback; `fault`: what is wrong with it, as long as it is not done."""

    connection: Connection
    chat: Chat
    params: m.ChatRollbackParams
    refusals: dict[str, _Refusal]
    fault: RPCError | None = attrs.field(factory=lambda: RPCError(INTERNAL_ERROR, _FAILED))

    async def run(self) -> None:
        chat = self.chat
        request = _wanted(self.params)
        try:
            done = await self._roll_back(request)
        except UnknownMessage:
            self.fault = _unknown(self.params)
            return
        except RollbackRefused as fault:
            self._show("warning", str(fault))
            self.fault = RPCError(INVALID_PARAMS, str(fault), {"code": "not_restorable"})
            return
        self.fault = None
        if self.connection.chats.get(chat.id) is not chat:  # deleted meanwhile
            return
        if request.messages:
            await show_again(self.connection, chat)
        if message := done.message():
            self._show("warning" if done.skipped else "info", message)

    def _show(self, kind: MessageKind, message: str) -> None:
        is_there = self.connection.chats.get(self.chat.id) is self.chat
        chat_id = self.chat.id if is_there else None
        self.connection.session.show(kind, message, chat_id=chat_id)

    async def _roll_back(self, request: RollbackRequest) -> RollbackResult:
        memory = self.connection.chats.memory
        rollbacks = None if memory is None else memory.rollbacks
        before = self.refusals.pop(self.chat.id, None)
        try:
            return await roll_back(self.chat, rollbacks, request)
        except RollbackRefused as fault:
            now = trio.current_time()
            if before is None or (before.request, before.skipped) != (request, fault.skipped):
                self.refusals[self.chat.id] = _Refusal(request, fault.skipped, now)
                raise
            if not ASKED_AGAIN[0] <= now - before.refused_at <= ASKED_AGAIN[1]:
                self.refusals[self.chat.id] = attrs.evolve(before, refused_at=now)
                raise
        return await roll_back(self.chat, rollbacks, attrs.evolve(request, allow_partial=True))


def _wanted(params: m.ChatRollbackParams) -> RollbackRequest:
    asked = {str(each) for each in params.include}
    both = not asked & {"messages", "tools"}
    return RollbackRequest(
        content_id=params.content_id,
        messages=both or "messages" in asked,
        files=both or "tools" in asked,
        allow_partial=REST in asked,
    )


def _unknown(params: m.ChatRollbackParams) -> RPCError:
    return RPCError(
        INVALID_PARAMS,
        "params.contentId: expected the id of a message of the user's in the chat "
        f"{params.chat_id[:100]!r}, got {params.content_id[:100]!r}",
    )
