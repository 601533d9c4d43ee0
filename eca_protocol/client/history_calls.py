"""Chats as the server keeps them: one typed method for each message, named as in the table.

All of them are CURRENT's: to an older server they are a LocalProtocolError.
"""

from __future__ import annotations

from collections.abc import Sequence

from eca_protocol import messages as m
from eca_protocol.client.caller import Caller

__all__ = ["HistoryCalls"]


class HistoryCalls(Caller):
    """What a client does with kept chats; see `Caller` for what is raised.

    A message of the user's is named by the `content_id` of its echo.
    """

    async def chat_list(
        self, *, limit: int | None = None, sort_by: m.ChatListSorting | None = None
    ) -> tuple[m.ChatSummary, ...]:
        """The chats of the workspace, the newest first."""
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
        """Have the server show a chat again; its contents come as events before the answer."""
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
        """A page of a chat's contents; `before` and `after` are cursors of an earlier answer."""
        params = m.ChatHistoryParams(chat_id=chat_id, limit=limit, before=before, after=after)
        result: m.ChatHistoryResponse = await self._request("chat/history", params)
        return result

    async def chat_clear(self, chat_id: str) -> None:
        """Forget a chat's messages and keep the chat."""
        await self._request("chat/clear", m.ChatClearParams(chat_id=chat_id, messages=True))

    async def chat_update(
        self, chat_id: str, *, title: str | None = None, trust: bool | None = None
    ) -> None:
        """Give a chat a title of one's own, or trust in its tools; None leaves it as it is."""
        params = m.ChatUpdateParams(chat_id=chat_id, title=title, trust=trust)
        await self._request("chat/update", params)

    async def chat_rollback(
        self, chat_id: str, content_id: str, *, include: Sequence[m.ChatRollbackInclude] = ()
    ) -> None:
        """Go back to before a message: its words, what tools changed, or (nothing given) both."""
        params = m.ChatRollbackParams(
            chat_id=chat_id, content_id=content_id, include=tuple(include)
        )
        await self._request("chat/rollback", params)

    async def chat_fork(self, chat_id: str, content_id: str) -> str | None:
        """Begin another chat with the same messages up to that one; return its id, if it is said.

        The chat itself comes as an event.
        """
        params = m.ChatForkParams(chat_id=chat_id, content_id=content_id)
        result: m.ChatForkResponse = await self._request("chat/fork", params)
        return result.chat_id

    async def chat_add_flag(self, chat_id: str, content_id: str, text: str) -> None:
        """Put a named mark at a message."""
        params = m.ChatAddFlagParams(chat_id=chat_id, content_id=content_id, text=text)
        await self._request("chat/addFlag", params)

    async def chat_remove_flag(self, chat_id: str, content_id: str) -> None:
        """Take the mark at a message away."""
        params = m.ChatRemoveFlagParams(chat_id=chat_id, content_id=content_id)
        await self._request("chat/removeFlag", params)
