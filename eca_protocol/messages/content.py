"""What a chat streams to the client (chapter "Chat Content Received", `ChatContent`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from eca_protocol.messages.marks import UnknownValue, allowed, forgiven
from eca_protocol.revisions import Revision, Window, mark

__all__ = [
    "ChatContent",
    "ChatContentReceivedParams",
    "ChatMetadataContent",
    "ChatProgressContent",
    "ChatReasonFinishedContent",
    "ChatReasonStartedContent",
    "ChatReasonTextContent",
    "ChatRole",
    "ChatTextContent",
    "ChatToolCallPrepareContent",
    "ChatToolCallRejectedContent",
    "ChatToolCallRunContent",
    "ChatToolCallRunningContent",
    "ChatToolCalledContent",
    "ChatURLContent",
    "ChatUsageContent",
    "FileChangeDetails",
    "ProgressState",
    "ToolCallDetails",
    "ToolCallOrigin",
    "ToolCallOutput",
    "ToolCallRejectedReason",
    "ToolCallTextOutput",
    "UnknownContent",
    "UnknownToolCallDetails",
    "UnknownToolCallOutput",
    "UsageLimit",
]

ChatRole: TypeAlias = Literal["user", "system", "assistant"] | UnknownValue
ProgressState: TypeAlias = Literal["running", "finished"] | UnknownValue
ToolCallOrigin: TypeAlias = Literal["mcp", "native"] | UnknownValue
ToolCallRejectedReason: TypeAlias = Literal["user-choice", "user-config"] | UnknownValue

_NO_ORIGIN = UnknownValue("unknown")


@attrs.frozen(kw_only=True)
class ChatTextContent:
    """Text of the role that sends it; an assistant's pieces are joined by the client.

    `content_id` stands on the user's echo and names the message for later requests (W-20).
    """

    type: ClassVar[Literal["text"]] = "text"
    text: str
    content_id: str | None = attrs.field(
        default=None, metadata=mark(since=Revision.CURRENT, ruling="W-20")
    )


@attrs.frozen(kw_only=True)
class ChatURLContent:
    """A link, for example to what a web search found."""

    type: ClassVar[Literal["url"]] = "url"
    title: str
    url: str


@attrs.frozen(kw_only=True)
class ChatProgressContent:
    """What the chat is doing; `finished` ends a turn and gives the input back to the user."""

    type: ClassVar[Literal["progress"]] = "progress"
    state: ProgressState
    text: str = attrs.field(default="", metadata=forgiven("W-60"))


@attrs.frozen(kw_only=True)
class UsageLimit:
    """How many tokens the model takes in all (`context`) and answers with (`output`)."""

    context: int | None = attrs.field(default=None, metadata=forgiven("W-60"))
    output: int | None = attrs.field(default=None, metadata=forgiven("W-60"))


@attrs.frozen(kw_only=True)
class ChatUsageContent:
    """Tokens and costs so far; costs are decimal numbers as text, without currency (W-27)."""

    type: ClassVar[Literal["usage"]] = "usage"
    session_tokens: int
    last_message_cost: str | None = None
    message_cost: str | None = attrs.field(
        default=None, metadata=mark(since=Revision.CURRENT, ruling="W-27")
    )
    session_cost: str | None = None
    limit: UsageLimit | None = None


@attrs.frozen(kw_only=True)
class ChatReasonStartedContent:
    """The model starts to think; texts and the end carry the same id."""

    type: ClassVar[Literal["reasonStarted"]] = "reasonStarted"
    id: str


@attrs.frozen(kw_only=True)
class ChatReasonTextContent:
    """A piece of what the model thinks."""

    type: ClassVar[Literal["reasonText"]] = "reasonText"
    id: str
    text: str


@attrs.frozen(kw_only=True)
class ChatReasonFinishedContent:
    """The model has thought for `total_time_ms` milliseconds."""

    type: ClassVar[Literal["reasonFinished"]] = "reasonFinished"
    id: str
    total_time_ms: float


@attrs.frozen(kw_only=True)
class FileChangeDetails:
    """What a tool changes in a file: unified hunks, and the lines they add and remove."""

    type: ClassVar[Literal["fileChange"]] = "fileChange"
    path: str
    diff: str
    lines_added: int
    lines_removed: int


@attrs.frozen(kw_only=True)
class UnknownToolCallDetails:
    """Details of a type this package does not know; `raw` is written as it came."""

    type: str | None
    raw: Mapping[str, Any]


ToolCallDetails: TypeAlias = FileChangeDetails | UnknownToolCallDetails


@attrs.frozen(kw_only=True)
class ToolCallTextOutput:
    """Text that a tool gave back."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


@attrs.frozen(kw_only=True)
class UnknownToolCallOutput:
    """An output of a type this package does not know; `raw` is written as it came."""

    type: str | None
    raw: Mapping[str, Any]


ToolCallOutput: TypeAlias = ToolCallTextOutput | UnknownToolCallOutput


@attrs.frozen(kw_only=True)
class ChatToolCallPrepareContent:
    """A piece of a tool call which the model is writing; pieces of one id are joined."""

    type: ClassVar[Literal["toolCallPrepare"]] = "toolCallPrepare"
    origin: ToolCallOrigin = attrs.field(default=_NO_ORIGIN, metadata=forgiven("W-60"))
    id: str
    name: str = attrs.field(default="", metadata=forgiven("W-60"))
    server: str = attrs.field(
        default="", metadata=mark(since=Revision.R2025_10, ruling="W-30") | forgiven("W-60")
    )
    arguments_text: str = attrs.field(default="", metadata=forgiven("W-60"))
    summary: str | None = None
    details: ToolCallDetails | None = None


@attrs.frozen(kw_only=True)
class ChatToolCallRunContent:
    """A whole tool call, before it runs; with `manual_approval` it waits for the user."""

    type: ClassVar[Literal["toolCallRun"]] = "toolCallRun"
    origin: ToolCallOrigin = attrs.field(default=_NO_ORIGIN, metadata=forgiven("W-60"))
    id: str
    name: str = attrs.field(default="", metadata=forgiven("W-60"))
    server: str = attrs.field(
        default="", metadata=mark(since=Revision.R2025_10, ruling="W-30") | forgiven("W-60")
    )
    arguments: Mapping[str, Any] = attrs.field(
        factory=dict, metadata=forgiven("W-32", list_as_empty=True)
    )
    manual_approval: bool = attrs.field(default=False, metadata=forgiven("W-60"))
    summary: str | None = None
    details: ToolCallDetails | None = None


@attrs.frozen(kw_only=True)
class ChatToolCallRunningContent:
    """The tool runs."""

    type: ClassVar[Literal["toolCallRunning"]] = "toolCallRunning"
    origin: ToolCallOrigin = attrs.field(default=_NO_ORIGIN, metadata=forgiven("W-60"))
    id: str
    name: str = attrs.field(default="", metadata=forgiven("W-60"))
    server: str = attrs.field(
        default="", metadata=mark(since=Revision.R2025_10, ruling="W-30") | forgiven("W-60")
    )
    arguments: Mapping[str, Any] = attrs.field(
        factory=dict, metadata=forgiven("W-32", list_as_empty=True)
    )
    summary: str | None = None
    details: ToolCallDetails | None = None


@attrs.frozen(kw_only=True)
class ChatToolCalledContent:
    """The tool has run for `total_time_ms` milliseconds, or could not run (`error`)."""

    type: ClassVar[Literal["toolCalled"]] = "toolCalled"
    origin: ToolCallOrigin = attrs.field(default=_NO_ORIGIN, metadata=forgiven("W-60"))
    id: str = attrs.field(default="", metadata=forgiven("W-60"))
    name: str = attrs.field(default="", metadata=forgiven("W-60"))
    server: str = attrs.field(
        default="", metadata=mark(since=Revision.R2025_10, ruling="W-30") | forgiven("W-60")
    )
    arguments: Mapping[str, Any] = attrs.field(
        factory=dict, metadata=forgiven("W-32", list_as_empty=True)
    )
    error: bool = attrs.field(default=False, metadata=forgiven("W-60"))
    outputs: tuple[ToolCallOutput, ...] = attrs.field(
        default=(), metadata=forgiven("W-60", null_items=True)
    )
    total_time_ms: float = attrs.field(default=0, metadata=forgiven("W-60"))
    summary: str | None = None
    details: ToolCallDetails | None = None


@attrs.frozen(kw_only=True)
class ChatToolCallRejectedContent:
    """The tool will not run; every spelling of `reason` is read (W-32)."""

    type: ClassVar[Literal["toolCallRejected"]] = "toolCallRejected"
    origin: ToolCallOrigin = attrs.field(default=_NO_ORIGIN, metadata=forgiven("W-60"))
    id: str
    name: str = attrs.field(default="", metadata=forgiven("W-60"))
    server: str = attrs.field(
        default="", metadata=mark(since=Revision.R2025_10, ruling="W-30") | forgiven("W-60")
    )
    arguments: Mapping[str, Any] = attrs.field(
        factory=dict, metadata=forgiven("W-32", list_as_empty=True)
    )
    reason: ToolCallRejectedReason = attrs.field(metadata=allowed("W-32"))
    summary: str | None = None
    details: ToolCallDetails | None = None


@attrs.frozen(kw_only=True)
class ChatMetadataContent:
    """The chat's title; it may come at any time."""

    type: ClassVar[Literal["metadata"]] = "metadata"
    window: ClassVar[Window] = Window(since=Revision.R2025_10)
    title: str


@attrs.frozen(kw_only=True)
class UnknownContent:
    """Content of a type this package does not know; `raw` is written as it came."""

    type: str | None
    raw: Mapping[str, Any]


ChatContent: TypeAlias = (
    ChatTextContent
    | ChatURLContent
    | ChatProgressContent
    | ChatUsageContent
    | ChatReasonStartedContent
    | ChatReasonTextContent
    | ChatReasonFinishedContent
    | ChatToolCallPrepareContent
    | ChatToolCallRunContent
    | ChatToolCallRunningContent
    | ChatToolCalledContent
    | ChatToolCallRejectedContent
    | ChatMetadataContent
    | UnknownContent
)


@attrs.frozen(kw_only=True)
class ChatContentReceivedParams:
    """`chat/contentReceived`: something new in a chat, and whose it is.

    `chat_id` is empty where an old server tells of its configuration in no chat (W-60).
    """

    chat_id: str = attrs.field(default="", metadata=forgiven("W-60"))
    role: ChatRole
    content: ChatContent
