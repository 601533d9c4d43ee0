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
from eca_protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, RPCError
from eca_protocol.peer import Handler
from eca_server.chat import Chat
from eca_server.chat.history import UnknownMessage
from eca_server.chat.restoring import RollbackRefused
from eca_server.chat.rollback import RollbackRequest, RollbackResult, roll_back
from eca_server.chat.undo import SkippedFile
from eca_server.features.chats import show_again
from eca_server.features.connection import Connection
from eca_server.session import MessageKind

__all__ = ["make_handlers"]

REST: Final = "rest"
"""A value of `include` that is an extension: restore the files that can be restored."""

ASKED_AGAIN: Final = (1.0, 120.0)
"""Seconds between a refusal and the confirming request; an earlier one is a double click."""

_FAILED: Final = "The rollback failed; see the server's log."


def make_handlers(connection: Connection) -> Mapping[str, Handler]:
    """Return the handler of rollbacks."""
    refusals: dict[str, _Refusal] = {}

    def rollback(params: m.ChatRollbackParams) -> Awaitable[m.ChatRollbackResponse]:
        if connection.chats.subagent(params.chat_id) is not None:
            raise _unknown(params)
        chat = connection.chats.open(params.chat_id)
        ids = (message.content_id for message in chat.all_messages)
        known = (*chat.history.unrecorded_prompts, *ids)
        if chat.is_busy and params.content_id not in known:
            raise _unknown(params)
        task = _Task(connection=connection, chat=chat, params=params, refusals=refusals)
        chat.stop()
        done = chat.mailbox.do(task.run)

        async def answer() -> m.ChatRollbackResponse:
            await done.wait()
            connection.chats.drop_blank(chat)
            if task.error is not None:
                raise task.error
            return m.ChatRollbackResponse()

        return answer()

    return {"chat/rollback": rollback}


@attrs.frozen
class _Refusal:
    """A refused rollback: the request, the files and the time."""

    request: RollbackRequest
    skipped: tuple[SkippedFile, ...]
    refused_at: float


@attrs.define(kw_only=True)
class _Task:
    """One rollback; `error` is its result until it succeeds."""

    connection: Connection
    chat: Chat
    params: m.ChatRollbackParams
    refusals: dict[str, _Refusal]
    error: RPCError | None = attrs.field(factory=lambda: RPCError(INTERNAL_ERROR, _FAILED))

    async def run(self) -> None:
        chat = self.chat
        request = _request_of(self.params)
        try:
            done = await self._roll_back(request)
        except UnknownMessage:
            self.error = _unknown(self.params)
            return
        except RollbackRefused as error:
            self._show("warning", str(error))
            self.error = RPCError(INVALID_PARAMS, str(error), {"code": "not_restorable"})
            return
        self.error = None
        if self.connection.chats.get(chat.id) is not chat:  # deleted meanwhile
            return
        if request.messages:
            await show_again(self.connection, chat)
        if note := done.message():
            self._show("warning" if done.skipped else "info", note)

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
        except RollbackRefused as error:
            now = trio.current_time()
            if before is None or (before.request, before.skipped) != (request, error.skipped):
                self.refusals[self.chat.id] = _Refusal(request, error.skipped, now)
                raise
            if not ASKED_AGAIN[0] <= now - before.refused_at <= ASKED_AGAIN[1]:
                self.refusals[self.chat.id] = attrs.evolve(before, refused_at=now)
                raise
        return await roll_back(self.chat, rollbacks, attrs.evolve(request, allow_partial=True))


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
