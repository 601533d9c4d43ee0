"""A chat's turns and settings (chapters "Chat Prompt" to "Chat selected model changed")."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import attrs

from eca_protocol.messages.contexts import ChatContext
from eca_protocol.messages.lifecycle import ChatBehavior, ChatModel
from eca_protocol.messages.marks import (
    UnknownValue,
    ValueWindow,
    by_ruling,
    incomplete_items,
    lenient,
    marked,
)
from eca_protocol.revisions import Revision, mark

ToolCallApprovalSave: TypeAlias = Literal["session"] | UnknownValue
ChatPromptStatus: TypeAlias = (
    Literal["prompting", "login"]
    | Annotated[Literal["error"], ValueWindow(since=Revision.CURRENT, fallback="prompting")]
    | UnknownValue
)


@attrs.frozen(kw_only=True)
class ChatPromptParams:
    """`chat/prompt`: the user's message for a chat, or without `chat_id` for a new chat.

    `agent` is the newer name of `behavior`; both are read in every edition (W-28). `trust` lets the
    turn's tools run without approval. `variant` is a variant of the model.
    """

    chat_id: str | None = None
    message: str
    model: ChatModel | None = None
    behavior: ChatBehavior | None = marked(mark(until=Revision.R2025_10) | by_ruling("W-28"))
    agent: str | None = marked(mark(since=Revision.CURRENT) | by_ruling("W-28"))
    variant: str | None = marked(mark(since=Revision.CURRENT))
    trust: bool | None = marked(mark(since=Revision.CURRENT))
    contexts: tuple[ChatContext, ...] = marked(incomplete_items("W-3"), default=())


@attrs.frozen(kw_only=True)
class ChatInlinePromptParams:
    """`chat/inlinePrompt`: a prompt of a separate chat that is shown inline in a file.

    A new chat begins with the messages of `source_chat_id`. The other fields are those of
    `chat/prompt`; the answer is a `ChatPromptResponse`.
    """

    chat_id: str
    source_chat_id: str | None = None
    message: str
    model: ChatModel | None = None
    agent: str | None = None
    variant: str | None = None
    trust: bool | None = None
    contexts: tuple[ChatContext, ...] = marked(incomplete_items("W-3"), default=())


@attrs.frozen(kw_only=True)
class ChatPromptResponse:
    """The answer to `chat/prompt`, which precedes the model's answer."""

    chat_id: str
    model: ChatModel = marked(lenient("W-60"), default="")
    status: ChatPromptStatus


@attrs.frozen(kw_only=True)
class ChatToolCallApproveParams:
    """`chat/toolCallApprove`: approve a waiting tool call; `save` approves later calls, too."""

    chat_id: str
    save: ToolCallApprovalSave | None = marked(mark(since=Revision.R2025_10))
    tool_call_id: str


@attrs.frozen(kw_only=True)
class ChatToolCallRejectParams:
    """`chat/toolCallReject`: reject a waiting tool call."""

    chat_id: str
    tool_call_id: str


@attrs.frozen(kw_only=True)
class ChatPromptStopParams:
    """`chat/promptStop`: stop the running turn."""

    chat_id: str


@attrs.frozen(kw_only=True)
class ChatPromptSteerParams:
    """`chat/promptSteer`: a message to the running turn, for its next model request."""

    chat_id: str
    message: str


@attrs.frozen(kw_only=True)
class ChatPromptSteerRemoveParams:
    """`chat/promptSteerRemove`: withdraw the message, unless the model has received it."""

    chat_id: str


@attrs.frozen(kw_only=True)
class ChatDeleteParams:
    """`chat/delete`: delete a chat with its messages, tokens and costs."""

    chat_id: str | None = None


@attrs.frozen(kw_only=True)
class ChatDeleteResponse:
    """The answer to `chat/delete`, without members."""


@attrs.frozen(kw_only=True)
class ChatSelectedBehaviorChanged:
    """`chat/selectedBehaviorChanged`: the user has selected a behaviour."""

    behavior: ChatBehavior = marked(lenient("W-3"), default=UnknownValue())


@attrs.frozen(kw_only=True)
class ChatSelectedAgentChanged:
    """`chat/selectedAgentChanged`: the user has selected an agent; read in each edition (W-28).

    With `chat_id` the selection is for that chat only.
    """

    chat_id: str | None = None
    agent: str = marked(lenient("W-3"), default="")


@attrs.frozen(kw_only=True)
class ChatSelectedModelChanged:
    """`chat/selectedModelChanged`: the user has selected a model, or a variant of it.

    With `chat_id` the selection is for that chat only.
    """

    chat_id: str | None = None
    model: ChatModel = marked(lenient("W-3"), default="")
    variant: str | None = None
