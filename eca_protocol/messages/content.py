"""The contents that a chat streams to the client (chapter "Chat Content Received")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import attrs

from eca_protocol.messages.details import ToolCallDetails, ToolCallOutput
from eca_protocol.messages.marks import (
    Unknown,
    UnknownValue,
    ValueWindow,
    by_ruling,
    lenient,
    marked,
)
from eca_protocol.revisions import Revision, Window, mark

ChatRole: TypeAlias = Literal["user", "system", "assistant"] | UnknownValue
ProgressState: TypeAlias = Literal["running", "finished"] | UnknownValue
HookActionType: TypeAlias = Literal["shell"] | UnknownValue
ToolCallOrigin: TypeAlias = (
    Literal["mcp", "native"]
    | Annotated[
        Literal["server", "unknown"], ValueWindow(since=Revision.CURRENT, fallback="native")
    ]
    | UnknownValue
)
ToolCallRejectedReason: TypeAlias = (
    Literal["user-choice", "user-config"]
    | Annotated[
        Literal["userChoiceDeny", "userPromptStop", "userStop", "user"],
        ValueWindow(since=Revision.CURRENT, fallback="user-choice"),
    ]
    | Annotated[
        Literal["userConfigDeny", "hookRejected", "interrupted"],
        ValueWindow(since=Revision.CURRENT, fallback="user-config"),
    ]
    | UnknownValue
)

_SINCE_CURRENT = Window(since=Revision.CURRENT)
_NO_ORIGIN: Literal["unknown"] = "unknown"


@attrs.frozen(kw_only=True)
class ChatTextContent:
    """A text of a role; the client joins the pieces of the assistant's text.

    `content_id` is on the user's echo and identifies the message in later requests (W-20).
    """

    type: ClassVar[Literal["text"]] = "text"
    text: str
    content_id: str | None = marked(mark(since=Revision.CURRENT, ruling="W-20"))


@attrs.frozen(kw_only=True)
class ChatURLContent:
    """A link, for example to a result of a web search."""

    type: ClassVar[Literal["url"]] = "url"
    title: str
    url: str


@attrs.frozen(kw_only=True)
class ChatImageContent:
    """A picture, its bytes as base64."""

    type: ClassVar[Literal["image"]] = "image"
    window: ClassVar[Window] = _SINCE_CURRENT
    media_type: str = marked(lenient("W-60"), default="")
    base64: str


@attrs.frozen(kw_only=True)
class ChatProgressContent:
    """The activity of the chat; `finished` ends a turn and enables the user's input."""

    type: ClassVar[Literal["progress"]] = "progress"
    state: ProgressState
    text: str = marked(lenient("W-60", optional_since=Revision.CURRENT), default="")


@attrs.frozen(kw_only=True)
class UsageLimit:
    """The model's limits in tokens: of its whole context, and of its output."""

    context: int | None = marked(lenient("W-60"))
    output: int | None = marked(lenient("W-60", optional_since=Revision.CURRENT, omit_default=True))


@attrs.frozen(kw_only=True)
class ContextCategory:
    """The share of one kind of content in the model's context; `color` is `#` and hex digits."""

    name: str
    tokens: int
    color: str = marked(lenient("W-60"), default="")
    emoji: str = marked(lenient("W-60"), default="")


@attrs.frozen(kw_only=True)
class ContextBreakdown:
    """The usage of the model's context by kind of content, in tokens."""

    categories: tuple[ContextCategory, ...]
    used_tokens: int
    free_tokens: int | None = None
    context_limit: int | None = None
    free_color: str | None = None
    free_emoji: str | None = None


@attrs.frozen(kw_only=True)
class ChatUsageContent:
    """Tokens and costs so far; costs are decimal numbers as text, without currency (W-27).

    `session_tokens` is the sum of the chat's turns up to 2025-10; in CURRENT it is the size of the
    last request in the model's context. `auto_compact_percentage` is the usage of the context at
    which the chat is compacted.
    """

    type: ClassVar[Literal["usage"]] = "usage"
    sums: ClassVar[Window] = Window(until=Revision.R2025_10)
    """The editions in which `session_tokens` is the sum of the turns."""
    session_tokens: int
    tokens_used: int | None = marked(mark(since=Revision.DRAFT, until=Revision.DRAFT))
    last_message_cost: str | None = None
    message_cost: str | None = marked(mark(since=Revision.CURRENT, ruling="W-27"))
    session_cost: str | None = None
    limit: UsageLimit | None = None
    auto_compact_percentage: float | None = marked(mark(since=Revision.CURRENT))
    context_breakdown: ContextBreakdown | None = marked(mark(since=Revision.CURRENT))


@attrs.frozen(kw_only=True)
class ChatReasonStartedContent:
    """The start of a reasoning; its texts and its end have the same id."""

    type: ClassVar[Literal["reasonStarted"]] = "reasonStarted"
    id: str


@attrs.frozen(kw_only=True)
class ChatReasonTextContent:
    """A piece of the reasoning's text."""

    type: ClassVar[Literal["reasonText"]] = "reasonText"
    id: str
    text: str


@attrs.frozen(kw_only=True)
class ChatReasonFinishedContent:
    """The end of a reasoning of `total_time_ms` milliseconds."""

    type: ClassVar[Literal["reasonFinished"]] = "reasonFinished"
    id: str
    total_time_ms: float


@attrs.frozen(kw_only=True)
class ChatHookActionStartedContent:
    """The start of a user's hook; its end has the same id."""

    type: ClassVar[Literal["hookActionStarted"]] = "hookActionStarted"
    window: ClassVar[Window] = _SINCE_CURRENT
    id: str
    name: str = marked(lenient("W-60"), default="")
    action_type: HookActionType


@attrs.frozen(kw_only=True)
class ChatHookActionFinishedContent:
    """The end of a user's hook with the exit code `status`."""

    type: ClassVar[Literal["hookActionFinished"]] = "hookActionFinished"
    window: ClassVar[Window] = _SINCE_CURRENT
    id: str
    name: str = marked(lenient("W-60"), default="")
    action_type: HookActionType
    status: int
    output: str | None = None
    error: str | None = None
    tool_call_id: str | None = None


@attrs.frozen(kw_only=True)
class _ToolCall:
    """The common fields of the contents of a tool call."""

    origin: ToolCallOrigin = marked(lenient("W-60"), default=_NO_ORIGIN)
    id: str
    name: str = marked(lenient("W-60"), default="")
    server: str = marked(mark(since=Revision.R2025_10, ruling="W-30") | lenient("W-60"), default="")
    summary: str | None = None
    details: ToolCallDetails | None = None


@attrs.frozen(kw_only=True)
class _CompleteToolCall(_ToolCall):
    """The common fields after the call is complete."""

    arguments: Mapping[str, Any] = marked(lenient("W-32", list_as_empty=True), factory=dict)


@attrs.frozen(kw_only=True)
class ChatToolCallPrepareContent(_ToolCall):
    """A piece of a tool call while the model writes it; pieces with one id are joined."""

    type: ClassVar[Literal["toolCallPrepare"]] = "toolCallPrepare"
    arguments_text: str = marked(lenient("W-60"), default="")


@attrs.frozen(kw_only=True)
class ChatToolCallRunContent(_CompleteToolCall):
    """A complete tool call before it runs; with `manual_approval` it waits for the user."""

    type: ClassVar[Literal["toolCallRun"]] = "toolCallRun"
    manual_approval: bool = marked(lenient("W-60"), default=False)


@attrs.frozen(kw_only=True)
class ChatToolCallRunningContent(_CompleteToolCall):
    """The start of the tool."""

    type: ClassVar[Literal["toolCallRunning"]] = "toolCallRunning"


@attrs.frozen(kw_only=True)
class ChatToolCalledContent:
    """The end of the tool after `total_time_ms` milliseconds, or its failure (`error`)."""

    type: ClassVar[Literal["toolCalled"]] = "toolCalled"
    origin: ToolCallOrigin = marked(lenient("W-60"), default=_NO_ORIGIN)
    id: str = marked(lenient("W-60"), default="")
    name: str = marked(lenient("W-60"), default="")
    server: str = marked(mark(since=Revision.R2025_10, ruling="W-30") | lenient("W-60"), default="")
    arguments: Mapping[str, Any] = marked(lenient("W-32", list_as_empty=True), factory=dict)
    error: bool = marked(lenient("W-60"), default=False)
    outputs: tuple[ToolCallOutput, ...] = marked(lenient("W-60", null_items=True), default=())
    total_time_ms: float = marked(lenient("W-60"), default=0)
    summary: str | None = None
    details: ToolCallDetails | None = None


@attrs.frozen(kw_only=True)
class ChatToolCallRejectedContent(_CompleteToolCall):
    """The rejection of the call; every spelling of `reason` is read (W-32)."""

    type: ClassVar[Literal["toolCallRejected"]] = "toolCallRejected"
    reason: ToolCallRejectedReason = attrs.field(metadata=by_ruling("W-32"))


@attrs.frozen(kw_only=True)
class ChatMetadataContent:
    """The chat's title; it may come at any time."""

    type: ClassVar[Literal["metadata"]] = "metadata"
    window: ClassVar[Window] = Window(since=Revision.R2025_10)
    title: str


@attrs.frozen(kw_only=True)
class ChatFlagContent:
    """A user's named flag at the message `content_id`."""

    type: ClassVar[Literal["flag"]] = "flag"
    window: ClassVar[Window] = _SINCE_CURRENT
    text: str
    content_id: str


@attrs.frozen(kw_only=True)
class UnknownContent(Unknown):
    """A content of an unknown type; `raw` is written unchanged."""


ChatContent: TypeAlias = (
    ChatTextContent
    | ChatURLContent
    | ChatImageContent
    | ChatProgressContent
    | ChatUsageContent
    | ChatReasonStartedContent
    | ChatReasonTextContent
    | ChatReasonFinishedContent
    | ChatHookActionStartedContent
    | ChatHookActionFinishedContent
    | ChatToolCallPrepareContent
    | ChatToolCallRunContent
    | ChatToolCallRunningContent
    | ChatToolCalledContent
    | ChatToolCallRejectedContent
    | ChatMetadataContent
    | ChatFlagContent
    | UnknownContent
)


@attrs.frozen(kw_only=True)
class ChatContentReceivedParams:
    """`chat/contentReceived`: a new content of a chat, with its role.

    `chat_id` is empty in a content of an old server about its configuration (W-60).
    `parent_chat_id` is the chat whose subagent uses this chat.
    """

    chat_id: str = marked(lenient("W-60"), default="")
    parent_chat_id: str | None = marked(mark(since=Revision.CURRENT))
    role: ChatRole
    content: ChatContent
