"""Chats: list, open, clear, rename, flag, delete (rulings W-24, W-25).

Invariant: the notifications that follow from a request precede its answer.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Generator, Mapping
from functools import partial
from typing import Literal

import trio

from eca_protocol import messages as m
from eca_protocol.errors import INVALID_PARAMS, RPCError
from eca_protocol.peer import Handler
from eca_server.chat import Chat
from eca_server.chat.flags import Flag, anchor_of
from eca_server.chat.pages import CursorExpired, Page, page_of
from eca_server.chat.replay import ReplayedContent, replayed
from eca_server.chat.store import ChatSummary
from eca_server.chat.subagents import SubagentChat
from eca_server.chat.tool_call import Naming
from eca_server.features.connection import Connection
from eca_server.features.hooks import tell_end
from eca_server.features.selection import choose
from eca_server.features.subagents import subagent_tools
from eca_server.llm.history import ToolCallPart
from eca_server.tools.approval import NATIVE, policy_of
from eca_server.tools.schema_check import check_arguments
from eca_server.tools.tasks import Tasks, lists_in, reserved_for
from eca_server.tools.tool import ToolError
from eca_server.tools.toolbox import ToolBox

__all__ = ["contents_of", "delete_chat", "find_chat", "make_handlers", "show_again"]

MOST_LISTED = 1000
LONGEST_TITLE = 200


def make_handlers(connection: Connection) -> Mapping[str, Handler]:
    """Return the handlers of chats."""

    def delete(params: m.ChatDeleteParams) -> m.ChatDeleteResponse:
        delete_chat(connection, params.chat_id or "")
        return m.ChatDeleteResponse()

    return {
        "chat/list": partial(_list, connection),
        "chat/open": partial(_open, connection),
        "chat/history": partial(_history, connection),
        "chat/clear": partial(_clear, connection),
        "chat/update": partial(_update, connection),
        "chat/addFlag": partial(_add_flag, connection),
        "chat/removeFlag": partial(_remove_flag, connection),
        "chat/delete": delete,
    }


async def _open(connection: Connection, params: m.ChatOpenParams) -> m.ChatOpenResponse:
    chat = await connection.chats.find(params.chat_id)
    if chat is None:
        return m.ChatOpenResponse(found=False)
    return await _show(connection, chat, params)


async def _history(connection: Connection, params: m.ChatHistoryParams) -> m.ChatHistoryResponse:
    chat = await find_chat(connection, params.chat_id)
    page = _page(chat, params)
    contents = tuple(
        m.ChatContentReceivedParams(
            chat_id=item.subagent_chat_id or chat.id,
            parent_chat_id=chat.id if item.subagent_chat_id else None,
            role=item.role,
            content=connection.session.formatter.named(item.content),
        )
        for item in contents_of(connection, chat, page)
    )
    return m.ChatHistoryResponse(contents=contents, meta=page.meta)


def _clear(
    connection: Connection, params: m.ChatClearParams
) -> m.ChatClearResponse | Awaitable[m.ChatClearResponse]:
    if params.messages is False or not params.chat_id:
        return m.ChatClearResponse()
    if connection.chats.subagent(params.chat_id) is not None:
        raise RPCError(
            INVALID_PARAMS,
            "params.chatId: expected a chat of the user's, got the chat of a running subagent: "
            f"{params.chat_id[:100]!r}",
        )
    return _answered(connection.chats.open(params.chat_id).clear())


async def _update(connection: Connection, params: m.ChatUpdateParams) -> m.ChatUpdateResponse:
    if not params.chat_id:
        raise RPCError(INVALID_PARAMS, "params.chatId: expected the id of a chat, got nothing")
    title = " ".join((params.title or "").split())[:LONGEST_TITLE]
    chat = connection.chats.subagent(params.chat_id) or connection.chats.open(params.chat_id)
    if params.trust is not None:
        chat.set(trust=params.trust)
    if isinstance(chat, SubagentChat):
        if title:
            chat.emit("system", m.ChatMetadataContent(title=title))
        return m.ChatUpdateResponse()
    await chat.restore()
    if title:
        chat.set(is_named_by_user=True)
        chat.titling.rename(title)
        chat.titling.announce()
    await chat.storage.store()
    return m.ChatUpdateResponse()


async def _add_flag(connection: Connection, params: m.ChatAddFlagParams) -> m.ChatAddFlagResponse:
    chat = await find_chat(connection, params.chat_id)
    anchor = anchor_of(chat.all_messages, params.content_id)
    if anchor is None and connection.chats.call(chat.id, params.content_id) is not None:
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
    await _flags_changed(connection, chat)
    return m.ChatAddFlagResponse()


async def _remove_flag(
    connection: Connection, params: m.ChatRemoveFlagParams
) -> m.ChatRemoveFlagResponse:
    chat = await find_chat(connection, params.chat_id)
    flags = dict(chat.settings.flags)
    if flags.pop(params.content_id, None) is not None:
        chat.set(flags=flags)
        await _flags_changed(connection, chat)
    return m.ChatRemoveFlagResponse()


def delete_chat(connection: Connection, chat_id: str) -> None:
    """Delete a chat with its jobs, and notify the client (W-24)."""
    tell_end(connection, chat_id)
    connection.chats.delete(chat_id)
    if chat_id:
        if connection.has_jobs:
            connection.jobs.forget_chat(chat_id)
        connection.session.notify("chat/deleted", m.ChatDeletedParams(chat_id=chat_id))


async def _list(connection: Connection, params: m.ChatListParams) -> m.ChatListResponse:
    """Return the chats of this workspace, stored or not, the latest first."""
    limit = MOST_LISTED if params.limit is None else max(0, min(params.limit, MOST_LISTED))
    by_age = params.sort_by == "createdAt"
    memory = connection.chats.memory
    stored = (
        () if memory is None else await memory.latest(limit, by="created" if by_age else "updated")
    )
    live = {chat.id: chat for chat in connection.chats}
    rows = [_listed(each, live.pop(each.id, None)) for each in stored]
    rows += [_listed_alive(chat) for chat in live.values() if chat.history or chat.is_busy]
    rows.sort(key=lambda row: (row.created_at if by_age else row.updated_at) or 0, reverse=True)
    return m.ChatListResponse(chats=tuple(rows[:limit]))


async def _answered(cleared: trio.Event) -> m.ChatClearResponse:
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


async def find_chat(connection: Connection, chat_id: str) -> Chat:
    """Return the chat with this id.

    Raises:
        RPCError: it does not exist.
    """
    chat = await connection.chats.find(chat_id)
    if chat is None:
        raise RPCError(
            INVALID_PARAMS,
            f"params.chatId: there is no chat {chat_id[:100]!r}",
            {"code": "chat_not_found"},
        )
    return chat


def _page(chat: Chat, params: m.ChatOpenParams | m.ChatHistoryParams) -> Page:
    try:
        return page_of(chat.history, limit=params.limit, before=params.before, after=params.after)
    except CursorExpired as error:
        raise RPCError(INVALID_PARAMS, str(error), {"code": "cursor_expired"}) from error


async def _show(connection: Connection, chat: Chat, params: m.ChatOpenParams) -> m.ChatOpenResponse:
    """Replay a chat to the client, unless its turn is running and the client shows it already."""
    page = _page(chat, params)
    session = connection.session
    if not chat.is_busy:
        cleared = m.ChatClearedParams(chat_id=chat.id, messages=True)
        session.notify("chat/cleared", cleared, newest=True)
    opened = m.ChatOpenedParams(chat_id=chat.id, title=chat.title)
    session.notify("chat/opened", opened, newest=True)
    if not chat.is_busy:
        await chat.replayer.run(contents_of(connection, chat, page))
        if connection.chats.get(chat.id) is not chat:  # deleted meanwhile
            return m.ChatOpenResponse(found=False)
        chat.titling.announce()
    return m.ChatOpenResponse(
        found=True,
        chat_id=chat.id,
        title=chat.title,
        selection=_select_again(connection, chat),
        meta=None if (params.limit, params.before, params.after) == (None,) * 3 else page.meta,
    )


async def show_again(connection: Connection, chat: Chat) -> None:
    """Clear the client's view of a chat and replay its history."""
    cleared = m.ChatClearedParams(chat_id=chat.id, messages=True)
    connection.session.notify("chat/cleared", cleared, newest=True)
    await chat.replayer.run(contents_of(connection, chat, page_of(chat.history)))
    chat.titling.announce()


async def _flags_changed(connection: Connection, chat: Chat) -> None:
    """Store the flags, and replay the chat with them, after a running turn has ended."""

    async def show() -> None:
        if connection.chats.get(chat.id) is chat:  # not deleted meanwhile
            await show_again(connection, chat)

    await chat.storage.store()
    is_busy = chat.is_busy
    shown = chat.mailbox.do(show)
    if not is_busy:
        await shown.wait()


def _select_again(connection: Connection, chat: Chat) -> m.ChatSelection:
    """Select the model, variant and agent of the chat's last prompt, as far as they still exist."""
    stored, selection, names = chat.settings, chat.selection, connection.models.names
    requested = selection.model or stored.model
    if selection.model is None:
        selection.model, selection.variant = stored.model, stored.variant
    if selection.model not in names:
        selection.model, selection.variant = None, None
    selection.behavior = selection.behavior or stored.behavior
    chosen = choose(connection, chat)
    variants = connection.models.variants(chosen.model)
    variant = chosen.variant if chosen.variant in variants else None
    agent = connection.session.profile.agent_name(chosen.behavior)
    if connection.session.writes(m.ConfigUpdatedParams, "chat_id"):
        connection.session.notify(
            "config/updated",
            m.ConfigUpdatedParams(
                chat_id=chat.id,
                chat=m.ChatConfig(
                    variants=variants,
                    select_model=chosen.model,
                    select_variant=variant or "",
                    select_agent=agent,
                    select_trust=stored.trust,
                ),
            ),
        )
    return m.ChatSelection(
        model=chosen.model if requested in (None, *names) else None,
        agent=agent,
        variant=variant,
        variants=variants,
        trust=stored.trust,
    )


def contents_of(connection: Connection, chat: Chat, page: Page) -> Generator[ReplayedContent]:
    """Yield the contents of a page of a chat, for a replay."""
    behavior = choose(connection, chat).behavior
    policy = policy_of(connection.config, behavior)
    native = connection.tools(behavior=behavior, more=subagent_tools(connection, behavior))
    lists = dict(lists_in(chat.history))
    described = partial(_described, native.toolbox(policy), lists)
    return replayed(
        page.messages,
        flags=chat.settings.flags,
        describe=described,
        shows_subagents=connection.session.profile.shows_subagents,
    )


def _described(
    toolbox: ToolBox, lists: Mapping[str, Tasks], part: ToolCallPart
) -> tuple[Naming, str | None]:
    """Return the names, the task list and the present summary of a past call."""
    server, name = (part.server, part.tool) if part.server else toolbox.resolve(part.name)
    tool = toolbox.find(server, name)
    summary = None
    if tool is not None:
        try:
            summary = tool.summary(check_arguments(part.arguments or {}, tool.parameters))
        except ToolError:
            summary = None
    origin: Literal["native", "mcp"] = "native" if server == NATIVE else "mcp"
    shows = lists[part.id].details if part.id in lists else reserved_for(server, name)
    return Naming(id=part.id, name=name, server=server, origin=origin, shows=shows), summary
