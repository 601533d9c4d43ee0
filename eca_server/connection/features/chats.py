"""Chats: list, open, clear, rename, flag, fork, delete (rulings W-24, W-25).

Invariant: the notifications that follow from a request precede its answer.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Literal

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.errors import INVALID_PARAMS, RPCError
from eca_protocol.peer import Handler
from eca_server.agent.chat import Chat
from eca_server.agent.chat.flags import Flag, anchor_of, end_of
from eca_server.agent.chat.history import CursorExpired, Page, page_of
from eca_server.agent.chat.refreshing import refresh
from eca_server.agent.chat.store.rows import ChatSummary
from eca_server.agent.chat.subagents import SubagentChat
from eca_server.connection.features.chat_views import ChatViews
from eca_server.connection.features.composition import Composition, Feature

if TYPE_CHECKING:
    import anyio

MOST_LISTED = 1000
LONGEST_TITLE = 200


class ChatRequests(Feature):
    """The requests about chats."""

    def __init__(self, parts: Composition, views: ChatViews) -> None:
        super().__init__(parts)
        self.views = views

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers of chats."""

        def delete(params: m.ChatDeleteParams) -> m.ChatDeleteResponse:
            self.delete(params.chat_id or "")
            return m.ChatDeleteResponse()

        return methods.handlers(
            methods.CHAT_LIST.handled_by(self._list),
            methods.CHAT_OPEN.handled_by(self._open),
            methods.CHAT_HISTORY.handled_by(self._history),
            methods.CHAT_CLEAR.handled_by(self._clear),
            methods.CHAT_UPDATE.handled_by(self._update),
            methods.CHAT_ADD_FLAG.handled_by(self._add_flag),
            methods.CHAT_REMOVE_FLAG.handled_by(self._remove_flag),
            methods.CHAT_DELETE.handled_by(delete),
            methods.CHAT_FORK.handled_by(self._fork),
        )

    async def _open(self, params: m.ChatOpenParams) -> m.ChatOpenResponse:
        live = self.chats.get(params.chat_id)
        if live is not None:
            await refresh(live)
        chat = await self.chats.find(params.chat_id)
        if chat is None:
            return m.ChatOpenResponse(found=False)
        return await self._show(chat, params)

    async def _history(self, params: m.ChatHistoryParams) -> m.ChatHistoryResponse:
        chat = await self.views.find(params.chat_id)
        page = _page(chat, params)
        contents = tuple(
            m.ChatContentReceivedParams(
                chat_id=item.subagent_chat_id or chat.id,
                parent_chat_id=chat.id if item.subagent_chat_id else None,
                role=item.role,
                content=self.session.formatter.named(item.content),
            )
            for item in self.views.contents_of(chat, page)
        )
        return m.ChatHistoryResponse(contents=contents, meta=page.meta)

    def _clear(
        self, params: m.ChatClearParams
    ) -> m.ChatClearResponse | Awaitable[m.ChatClearResponse]:
        if params.messages is False or not params.chat_id:
            return m.ChatClearResponse()
        if self.chats.subagent(params.chat_id) is not None:
            raise RPCError(
                INVALID_PARAMS,
                "params.chatId: expected a chat of the user's, got the chat of a running subagent: "
                f"{params.chat_id[:100]!r}",
            )
        return _answered(self.chats.open(params.chat_id).clear())

    async def _update(self, params: m.ChatUpdateParams) -> m.ChatUpdateResponse:
        if not params.chat_id:
            raise RPCError(INVALID_PARAMS, "params.chatId: expected the id of a chat, got nothing")
        title = " ".join((params.title or "").split())[:LONGEST_TITLE]
        chat = self.chats.subagent(params.chat_id) or self.chats.open(params.chat_id)
        if params.trust is not None:
            chat.set(trust=params.trust)
        if isinstance(chat, SubagentChat):
            if title:
                chat.emit("system", m.ChatMetadataContent(title=title))
            return m.ChatUpdateResponse()
        if params.trust is not None:
            self.announcer.announce_trust(chat.id, trust=params.trust)
        await chat.restore()
        if title:
            chat.set(is_named_by_user=True)
            chat.titling.rename(title)
            chat.titling.announce()
        await chat.storage.store()
        return m.ChatUpdateResponse()

    async def _add_flag(self, params: m.ChatAddFlagParams) -> m.ChatAddFlagResponse:
        chat = await self.views.find(params.chat_id)
        anchor = anchor_of(chat.all_messages, params.content_id)
        if anchor is None and self.chats.call(chat.id, params.content_id) is not None:
            anchor = params.content_id  # of the running answer
        if anchor is None:
            raise RPCError(
                INVALID_PARAMS,
                "params.contentId: expected the id of a prompt, a tool call or a thought in this "
                f"chat, got {params.content_id[:100]!r}",
            )
        name = str(uuid.uuid4())
        flag = Flag(after=anchor, text=params.text)
        chat.set(flags={**chat.settings.flags, name: flag})
        if chat.is_busy:  # the flag moves to its place when the turn has ended
            chat.emit("system", m.ChatFlagContent(text=params.text, content_id=name))
        await self._flags_changed(chat)
        return m.ChatAddFlagResponse()

    async def _remove_flag(self, params: m.ChatRemoveFlagParams) -> m.ChatRemoveFlagResponse:
        chat = await self.views.find(params.chat_id)
        flags = dict(chat.settings.flags)
        if flags.pop(params.content_id, None) is not None:
            chat.set(flags=flags)
            await self._flags_changed(chat)
        return m.ChatRemoveFlagResponse()

    async def _fork(self, params: m.ChatForkParams) -> m.ChatForkResponse:
        chat = await self.views.find(params.chat_id)
        flag = chat.settings.flags.get(params.content_id)
        end = end_of(chat.history, params.content_id if flag is None else flag.after)
        if end is None:
            raise RPCError(
                INVALID_PARAMS,
                "params.contentId: expected the id of a flag, or of a user message that "
                f"was answered in this chat, got {params.content_id[:100]!r}",
            )
        forked = await self.views.fork_chat(chat, chat.history[:end])
        if self.chats.get(chat.id) is chat:  # not deleted meanwhile
            note = m.ChatTextContent(text=f"\n\nThis chat was forked to {forked.title}.\n\n")
            chat.emit("system", note)
        return m.ChatForkResponse(chat_id=forked.id)

    def delete(self, chat_id: str) -> None:
        """Delete a chat with its jobs, and notify the client (W-24)."""
        self.hooks.report_end(self.chats, chat_id)
        self.chats.delete(chat_id)
        if chat_id:
            self.jobs.forget_chat(chat_id)
            self.session.notify("chat/deleted", m.ChatDeletedParams(chat_id=chat_id))

    async def _list(self, params: m.ChatListParams) -> m.ChatListResponse:
        """Return the chats of this workspace, stored or not, the latest first."""
        limit = MOST_LISTED if params.limit is None else max(0, min(params.limit, MOST_LISTED))
        by_age = params.sort_by == "createdAt"
        memory = self.chats.memory
        key: Literal["created", "updated"] = "created" if by_age else "updated"
        stored = () if memory is None else await memory.latest(limit, by=key)
        live = {chat.id: chat for chat in self.chats}
        rows = [_listed(each, live.pop(each.id, None)) for each in stored]
        idle = [chat.id for chat in live.values() if chat.history and not chat.is_busy]
        for each in await memory.store.emptied(idle) if memory and idle else ():
            if not live[each].is_busy:  # a turn may have begun meanwhile
                del live[each]  # another server has deleted it
        rows += [_listed_alive(chat) for chat in live.values() if chat.history or chat.is_busy]
        rows.sort(key=lambda row: (row.created_at if by_age else row.updated_at) or 0, reverse=True)
        return m.ChatListResponse(chats=tuple(rows[:limit]))

    async def _show(self, chat: Chat, params: m.ChatOpenParams) -> m.ChatOpenResponse:
        """Replay a chat to the client, unless its turn runs and the client shows it already."""
        page = _page(chat, params)
        if not chat.is_busy:
            self.views.announce_cleared(chat)
        self.views.announce_opened(chat)
        if not chat.is_busy:
            await chat.replayer.run(self.views.contents_of(chat, page))
            if self.chats.get(chat.id) is not chat:  # deleted meanwhile
                return m.ChatOpenResponse(found=False)
            chat.show_usage()
            chat.titling.announce()
        self.views.announce_status(chat)
        return m.ChatOpenResponse(
            found=True,
            chat_id=chat.id,
            title=chat.title,
            selection=self._select_again(chat),
            meta=None if (params.limit, params.before, params.after) == (None,) * 3 else page.meta,
        )

    async def _flags_changed(self, chat: Chat) -> None:
        """Store the flags, and replay the chat with them, after a running turn has ended."""
        await chat.storage.store()
        is_busy = chat.is_busy
        shown = self.views.show_after_turn(chat)
        if not is_busy:
            await shown.wait()

    def _select_again(self, chat: Chat) -> m.ChatSelection:
        """Select the model, variant and agent of the chat's last prompt, and announce them."""
        stored, names = chat.settings, self.models.current.names
        requested = chat.selection.model or stored.model
        self.selection.restore(chat)
        chosen = self.selection.choose(chat)
        variants = self.models.current.variants(chosen.model)
        variant = chosen.variant if chosen.variant in variants else None
        agent = self.session.profile.agent_name(chosen.behavior)
        if self.session.has_selections_of_chats:
            selected = m.ChatConfig(
                variants=variants,
                select_model=chosen.model,
                select_variant=variant or "",
                select_agent=agent,
                select_trust=stored.trust,
            )
            self.announcer.announce_selection(selected, chat.id)
        return m.ChatSelection(
            model=chosen.model if requested in (None, *names) else None,
            agent=agent,
            variant=variant,
            variants=variants,
            trust=stored.trust,
        )


async def _answered(cleared: anyio.Event) -> m.ChatClearResponse:
    await cleared.wait()
    return m.ChatClearResponse()


def _listed(stored: ChatSummary, chat: Chat | None) -> m.ChatSummary:
    return m.ChatSummary(
        id=stored.id,
        title=(chat and chat.title) or stored.title or stored.beginning or None,
        status="idle" if chat is None else chat.status,
        created_at=_milliseconds(stored.created),
        updated_at=_milliseconds(stored.updated),
        model=(chat and chat.settings.model) or stored.model,
        message_count=stored.messages,
        kind=_kind((chat and chat.settings.kind) or stored.kind),
    )


def _listed_alive(chat: Chat) -> m.ChatSummary:
    return m.ChatSummary(
        id=chat.id,
        title=chat.title,
        status=chat.status,
        created_at=_milliseconds(chat.created),
        updated_at=_milliseconds(chat.updated),
        model=chat.settings.model,
        message_count=len(chat.history),
        kind=_kind(chat.settings.kind),
    )


def _kind(kind: str | None) -> m.ChatKind | None:
    return None if kind is None else m.UnknownValue(kind)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _page(chat: Chat, params: m.ChatOpenParams | m.ChatHistoryParams) -> Page:
    try:
        return page_of(chat.history, limit=params.limit, before=params.before, after=params.after)
    except CursorExpired as error:
        raise RPCError(INVALID_PARAMS, str(error), {"code": "cursor_expired"}) from error
