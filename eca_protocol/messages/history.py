"""Stored chats: listing, opening, rollback, fork.

Chapters "Chat rollback" to "Chat history", of CURRENT.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from eca_protocol.messages.content import ChatContentReceivedParams
from eca_protocol.messages.lifecycle import ChatModel
from eca_protocol.messages.marks import UnknownValue, lenient, marked

ChatStatus: TypeAlias = Literal["idle", "running", "stopping", "login"] | UnknownValue
ChatKind: TypeAlias = Literal["inline"] | UnknownValue
ChatListSorting: TypeAlias = Literal["updatedAt", "createdAt"] | UnknownValue
ChatRollbackInclude: TypeAlias = Literal["messages", "tools"] | UnknownValue


@attrs.frozen(kw_only=True)
class ChatRollbackParams:
    """`chat/rollback`: go back to before a message of the user.

    `include`: undo the messages, the changes of files by tools, or (empty) both.
    """

    chat_id: str
    content_id: str
    include: tuple[ChatRollbackInclude, ...] = marked(lenient("W-3", alias="includes"), default=())


@attrs.frozen(kw_only=True)
class ChatRollbackResponse:
    """The answer to `chat/rollback`; the rest comes as `chat/cleared` and contents."""


@attrs.frozen(kw_only=True)
class ChatClearParams:
    """`chat/clear`: delete the messages, but not the chat."""

    chat_id: str
    messages: bool | None = None


@attrs.frozen(kw_only=True)
class ChatClearResponse:
    """The answer to `chat/clear`, without members."""


@attrs.frozen(kw_only=True)
class ChatAddFlagParams:
    """`chat/addFlag`: set a named flag at a message of the user."""

    chat_id: str
    content_id: str
    text: str = marked(lenient("W-3"), default="")


@attrs.frozen(kw_only=True)
class ChatAddFlagResponse:
    """The answer to `chat/addFlag`; the flag comes as a content."""


@attrs.frozen(kw_only=True)
class ChatRemoveFlagParams:
    """`chat/removeFlag`: remove a flag."""

    chat_id: str
    content_id: str


@attrs.frozen(kw_only=True)
class ChatRemoveFlagResponse:
    """The answer to `chat/removeFlag`, without members."""


@attrs.frozen(kw_only=True)
class ChatForkParams:
    """`chat/fork`: start a new chat with the messages up to `content_id`."""

    chat_id: str
    content_id: str


@attrs.frozen(kw_only=True)
class ChatForkResponse:
    """The answer to `chat/fork`; the new chat comes as `chat/opened` and contents."""

    chat_id: str | None = None


@attrs.frozen(kw_only=True)
class ChatClearedParams:
    """`chat/cleared`: the client removes the contents of the chat."""

    chat_id: str
    messages: bool = marked(lenient("W-60"), default=True)


@attrs.frozen(kw_only=True)
class ChatOpenedParams:
    """`chat/opened`: a chat exists; a client that knows it already ignores the message."""

    chat_id: str
    title: str | None = None


@attrs.frozen(kw_only=True)
class ChatStatusChangedParams:
    """`chat/statusChanged`: a chat runs, is stopping, or is idle."""

    chat_id: str
    status: ChatStatus


@attrs.frozen(kw_only=True)
class ChatDeletedParams:
    """`chat/deleted`: a chat was deleted."""

    chat_id: str


@attrs.frozen(kw_only=True)
class ChatUpdateParams:
    """`chat/update`: set the title, or the trust in the chat's tools; absent: unchanged."""

    chat_id: str
    title: str | None = None
    trust: bool | None = None


@attrs.frozen(kw_only=True)
class ChatUpdateResponse:
    """The answer to `chat/update`, without members."""


@attrs.frozen(kw_only=True)
class ChatListParams:
    """`chat/list`: the newest chats, by the time of their last change or of their creation."""

    limit: int | None = None
    sort_by: ChatListSorting | None = None


@attrs.frozen(kw_only=True)
class ChatSummary:
    """A chat in a list; times are milliseconds since 1970. `kind` is absent for most chats."""

    id: str
    title: str | None = None
    status: ChatStatus
    created_at: int | None = None
    updated_at: int | None = None
    model: ChatModel | None = None
    message_count: int = marked(lenient("W-60"), default=0)
    kind: ChatKind | None = None


@attrs.frozen(kw_only=True)
class ChatListResponse:
    """The answer to `chat/list`."""

    chats: tuple[ChatSummary, ...]


@attrs.frozen(kw_only=True)
class ChatOpenParams:
    """`chat/open`: show a stored chat, or a page of it (see `ChatHistoryParams`)."""

    chat_id: str
    limit: int | None = None
    before: str | None = None
    after: str | None = None


@attrs.frozen(kw_only=True)
class ChatSelection:
    """The selections of a chat."""

    model: ChatModel | None = marked(lenient("W-60", nullable=True))
    agent: str = marked(lenient("W-60"), default="")
    variant: str | None = marked(lenient("W-60", nullable=True))
    variants: tuple[str, ...] = marked(lenient("W-60"), default=())
    trust: bool = marked(lenient("W-60"), default=False)


@attrs.frozen(kw_only=True)
class ChatHistoryMeta:
    """The numbers of messages of a chat and of a page, and the cursors to the pages around it."""

    total: int
    returned: int
    before_cursor: str | None = marked(lenient("W-60", nullable=True))
    after_cursor: str | None = marked(lenient("W-60", nullable=True))
    compaction_cursor: str | None = marked(lenient("W-60", nullable=True))


@attrs.frozen(kw_only=True)
class ChatOpenResponse:
    """The answer to `chat/open`; the contents precede it as notifications."""

    found: bool
    chat_id: str | None = None
    title: str | None = None
    selection: ChatSelection | None = None
    meta: ChatHistoryMeta | None = None


@attrs.frozen(kw_only=True)
class ChatHistoryParams(ChatOpenParams):
    """`chat/history`: a page of a chat's contents.

    `before` and `after` are cursors of an earlier answer, or `lastCompaction`.
    """


@attrs.frozen(kw_only=True)
class ChatHistoryResponse:
    """The answer to `chat/history`."""

    contents: tuple[ChatContentReceivedParams, ...] | None = None
    meta: ChatHistoryMeta | None = None
