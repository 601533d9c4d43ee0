"""Typed methods for stored chats, named as in the method table.

All of them exist only in CURRENT: with an older server they raise LocalProtocolError.
"""

from __future__ import annotations

from collections.abc import Sequence

from eca_protocol import messages as m
from eca_protocol.client.caller import Caller

__all__ = ["HistoryCalls"]


class HistoryCalls(Caller):
    """A client's messages about stored chats; see `Caller` for their exceptions.

    A message of the user is identified by the `content_id` of its echo.
    """

    async def chat_list(
        self, *, limit: int | None = None, sort_by: m.ChatListSorting | None = None
    ) -> tuple[m.ChatSummary, ...]:
        """Return the chats of the workspace, the newest first."""
        params = m.ChatListParams(limit=limit, sort_by=sort_by)
        result: m.ChatListResponse = await self._request("chat/list", params)
        return result.chats

    async def chat_open(
        self,
        chat_id: str,
        *,
        limit: int | None = None,
        before: str | None = None,
        after: str | None = None,
    ) -> m.ChatOpenResponse:
        """Let the server replay a chat; its contents come as events before the answer."""
        params = m.ChatOpenParams(chat_id=chat_id, limit=limit, before=before, after=after)
        result: m.ChatOpenResponse = await self._request("chat/open", params)
        return result

    async def chat_history(
        self,
        chat_id: str,
        *,
        limit: int | None = None,
        before: str | None = None,
        after: str | None = None,
    ) -> m.ChatHistoryResponse:
        """Return a page of a chat's contents; `before` and `after` are cursors of an answer."""
        params = m.ChatHistoryParams(chat_id=chat_id, limit=limit, before=before, after=after)
        result: m.ChatHistoryResponse = await self._request("chat/history", params)
        return result

    async def chat_clear(self, chat_id: str) -> None:
        """Delete a chat's messages, but not the chat."""
        await self._request("chat/clear", m.ChatClearParams(chat_id=chat_id, messages=True))

    async def chat_update(
        self, chat_id: str, *, title: str | None = None, trust: bool | None = None
    ) -> None:
        """Set a chat's title or the trust in its tools; None changes nothing."""
        params = m.ChatUpdateParams(chat_id=chat_id, title=title, trust=trust)
        await self._request("chat/update", params)

    async def chat_rollback(
        self, chat_id: str, content_id: str, *, include: Sequence[m.ChatRollbackInclude] = ()
    ) -> None:
        """Go back to before a message.

        Args:
            chat_id: the chat.
            content_id: the message.
            include: undo the messages, the changes of tools, or (empty) both.
        """
        params = m.ChatRollbackParams(
            chat_id=chat_id, content_id=content_id, include=tuple(include)
        )
        await self._request("chat/rollback", params)

    async def chat_fork(self, chat_id: str, content_id: str) -> str | None:
        """Start a new chat with the messages up to `content_id`; return its id, if sent.

        The new chat comes as an event.
        """
        params = m.ChatForkParams(chat_id=chat_id, content_id=content_id)
        result: m.ChatForkResponse = await self._request("chat/fork", params)
        return result.chat_id

    async def chat_add_flag(self, chat_id: str, content_id: str, text: str) -> None:
        """Set a named flag at a message."""
        params = m.ChatAddFlagParams(chat_id=chat_id, content_id=content_id, text=text)
        await self._request("chat/addFlag", params)

    async def chat_remove_flag(self, chat_id: str, content_id: str) -> None:
        """Remove the flag at a message."""
        params = m.ChatRemoveFlagParams(chat_id=chat_id, content_id=content_id)
        await self._request("chat/removeFlag", params)
