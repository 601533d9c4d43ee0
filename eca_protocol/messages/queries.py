"""Completions for prompts (chapters "Chat Query Context" to "Chat Query Commands")."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import attrs

from eca_protocol.messages.contexts import ChatContext
from eca_protocol.messages.marks import UnknownValue, ValueWindow, by_ruling, lenient, marked
from eca_protocol.revisions import Revision

ChatCommandType: TypeAlias = (
    Literal["native"]
    | Annotated[Literal["mcp-prompt"], ValueWindow(until=Revision.R2025_10, fallback="mcpPrompt")]
    | Annotated[Literal["mcpPrompt"], ValueWindow(since=Revision.CURRENT, fallback="mcp-prompt")]
    | Annotated[
        Literal["customPrompt", "skill"], ValueWindow(since=Revision.CURRENT, fallback="native")
    ]
    | UnknownValue
)


@attrs.frozen(kw_only=True)
class ChatQueryContextParams:
    """`chat/queryContext`: the contexts that match a query; a blank query matches all."""

    chat_id: str | None = None
    query: str = marked(lenient("W-3"), default="")
    contexts: tuple[ChatContext, ...] = marked(lenient("W-3", incomplete_items="W-3"), default=())


@attrs.frozen(kw_only=True)
class ChatQueryContextResponse:
    """The answer to `chat/queryContext`."""

    chat_id: str | None = None
    contexts: tuple[ChatContext, ...]


@attrs.frozen(kw_only=True)
class ChatQueryFilesParams:
    """`chat/queryFiles`: the files and directories whose path contains `query`."""

    chat_id: str | None = None
    query: str = marked(lenient("W-3"), default="")


@attrs.frozen(kw_only=True)
class ChatQueryFilesResponse:
    """The answer to `chat/queryFiles`: file and directory contexts."""

    chat_id: str | None = None
    files: tuple[ChatContext, ...]


@attrs.frozen(kw_only=True)
class ChatQueryCommandsParams(ChatQueryFilesParams):
    """`chat/queryCommands`: the slash commands that match a query; a blank query matches all."""


@attrs.frozen(kw_only=True)
class CommandArgument:
    """An argument of a slash command."""

    name: str
    description: str | None = None
    required: bool = marked(lenient("W-60", optional_since=Revision.CURRENT), default=False)


@attrs.frozen(kw_only=True)
class ChatCommand:
    """A slash command."""

    name: str
    description: str = marked(lenient("W-60"), default="")
    type: ChatCommandType = attrs.field(metadata=by_ruling("W-60"))
    arguments: tuple[CommandArgument, ...] = marked(lenient("W-60"), default=())


@attrs.frozen(kw_only=True)
class ChatQueryCommandsResponse:
    """The answer to `chat/queryCommands`."""

    chat_id: str | None = None
    commands: tuple[ChatCommand, ...]
