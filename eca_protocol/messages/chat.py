"""What a client asks of a chat (chapters "Chat Prompt" to "Chat selected behavior changed")."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import attrs

from eca_protocol.messages.contexts import ChatContext
from eca_protocol.messages.marks import Late, UnknownValue, allowed, forgiven
from eca_protocol.revisions import Revision, mark

__all__ = [
    "ChatBehavior",
    "ChatCommand",
    "ChatCommandType",
    "ChatDeleteParams",
    "ChatDeleteResponse",
    "ChatModel",
    "ChatPromptParams",
    "ChatPromptResponse",
    "ChatPromptStatus",
    "ChatPromptStopParams",
    "ChatQueryCommandsParams",
    "ChatQueryCommandsResponse",
    "ChatQueryContextParams",
    "ChatQueryContextResponse",
    "ChatSelectedAgentChanged",
    "ChatSelectedBehaviorChanged",
    "ChatToolCallApproveParams",
    "ChatToolCallRejectParams",
    "CommandArgument",
    "ToolCallApprovalSave",
]

ChatModel: TypeAlias = str
ChatBehavior: TypeAlias = Literal["agent", "plan"] | UnknownValue
ChatCommandType: TypeAlias = Literal["mcp-prompt", "native"] | UnknownValue
ToolCallApprovalSave: TypeAlias = Literal["session"] | UnknownValue
ChatPromptStatus: TypeAlias = (
    Literal["prompting", "login"]
    | Annotated[Literal["error"], Late(since=Revision.CURRENT, fallback="prompting")]
    | UnknownValue
)


@attrs.frozen(kw_only=True)
class ChatPromptParams:
    """`chat/prompt`: the user's message, for a chat that goes on or (no `chat_id`) begins.

    `agent` is what newer editions call `behavior`; it is read in every one (W-28).
    """

    chat_id: str | None = None
    message: str
    model: ChatModel | None = None
    behavior: ChatBehavior | None = None
    agent: str | None = attrs.field(
        default=None, metadata=mark(since=Revision.CURRENT) | allowed("W-28")
    )
    contexts: tuple[ChatContext, ...] = ()


@attrs.frozen(kw_only=True)
class ChatPromptResponse:
    """The answer to `chat/prompt`, which comes before the model's."""

    chat_id: str
    model: ChatModel = attrs.field(default="", metadata=forgiven("W-60"))
    status: ChatPromptStatus


@attrs.frozen(kw_only=True)
class ChatToolCallApproveParams:
    """`chat/toolCallApprove`: let a waiting tool call run; `save` asks no more for that tool."""

    chat_id: str
    save: ToolCallApprovalSave | None = attrs.field(
        default=None, metadata=mark(since=Revision.R2025_10)
    )
    tool_call_id: str


@attrs.frozen(kw_only=True)
class ChatToolCallRejectParams:
    """`chat/toolCallReject`: do not let a waiting tool call run."""

    chat_id: str
    tool_call_id: str


@attrs.frozen(kw_only=True)
class ChatQueryContextParams:
    """`chat/queryContext`: what could be added to a prompt; a blank query asks for all."""

    chat_id: str | None = None
    query: str = attrs.field(default="", metadata=forgiven("W-3"))
    contexts: tuple[ChatContext, ...] = attrs.field(default=(), metadata=forgiven("W-3"))


@attrs.frozen(kw_only=True)
class ChatQueryContextResponse:
    """The answer to `chat/queryContext`."""

    chat_id: str | None = None
    contexts: tuple[ChatContext, ...]


@attrs.frozen(kw_only=True)
class ChatQueryCommandsParams:
    """`chat/queryCommands`: the slash commands there are; a blank query asks for all."""

    chat_id: str | None = None
    query: str = attrs.field(default="", metadata=forgiven("W-3"))


@attrs.frozen(kw_only=True)
class CommandArgument:
    """An argument of a slash command."""

    name: str
    description: str | None = None
    required: bool = attrs.field(default=False, metadata=forgiven("W-60"))


@attrs.frozen(kw_only=True)
class ChatCommand:
    """A slash command."""

    name: str
    description: str = attrs.field(default="", metadata=forgiven("W-60"))
    type: ChatCommandType = attrs.field(metadata=allowed("W-60"))
    arguments: tuple[CommandArgument, ...] = attrs.field(default=(), metadata=forgiven("W-60"))


@attrs.frozen(kw_only=True)
class ChatQueryCommandsResponse:
    """The answer to `chat/queryCommands`."""

    chat_id: str | None = None
    commands: tuple[ChatCommand, ...]


@attrs.frozen(kw_only=True)
class ChatPromptStopParams:
    """`chat/promptStop`: end the running turn."""

    chat_id: str


@attrs.frozen(kw_only=True)
class ChatDeleteParams:
    """`chat/delete`: forget a chat with its messages, tokens and costs."""

    chat_id: str | None = None


@attrs.frozen(kw_only=True)
class ChatDeleteResponse:
    """The answer to `chat/delete`; it says nothing more."""


@attrs.frozen(kw_only=True)
class ChatSelectedBehaviorChanged:
    """`chat/selectedBehaviorChanged`: the user picked another behaviour."""

    behavior: ChatBehavior = attrs.field(default=UnknownValue(), metadata=forgiven("W-3"))


@attrs.frozen(kw_only=True)
class ChatSelectedAgentChanged:
    """`chat/selectedAgentChanged`: what newer editions call the same; read in each (W-28)."""

    agent: str = attrs.field(default="", metadata=forgiven("W-3"))
