"""The updates of a session: messages, tool calls, plans, settings and usage."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from eca_protocol.acp.messages.blocks import ContentBlock, Extensible
from eca_protocol.acp.messages.sessions import ConfigOption
from eca_protocol.messages.marks import Unknown, UnknownValue

ToolKind: TypeAlias = (
    Literal[
        "read",
        "edit",
        "delete",
        "move",
        "search",
        "execute",
        "think",
        "fetch",
        "switch_mode",
        "other",
    ]
    | UnknownValue
)
ToolCallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"] | UnknownValue


@attrs.frozen(kw_only=True)
class _Update(Extensible):
    """An update, whose kind has a key of its own."""

    tag_key: ClassVar[str] = "sessionUpdate"


@attrs.frozen(kw_only=True)
class _Chunk(_Update):
    """A part of a message; chunks with the same `message_id` are one message."""

    content: ContentBlock
    message_id: str | None = None


@attrs.frozen(kw_only=True)
class UserMessageChunk(_Chunk):
    """A part of the user's message."""

    type: ClassVar[Literal["user_message_chunk"]] = "user_message_chunk"


@attrs.frozen(kw_only=True)
class AgentMessageChunk(_Chunk):
    """A part of the agent's message."""

    type: ClassVar[Literal["agent_message_chunk"]] = "agent_message_chunk"


@attrs.frozen(kw_only=True)
class AgentThoughtChunk(_Chunk):
    """A part of the agent's reasoning."""

    type: ClassVar[Literal["agent_thought_chunk"]] = "agent_thought_chunk"


@attrs.frozen(kw_only=True)
class ContentOfCall(Extensible):
    """A block that a tool call shows."""

    type: ClassVar[Literal["content"]] = "content"
    content: ContentBlock


@attrs.frozen(kw_only=True)
class DiffOfCall(Extensible):
    """The change of a file; no old text means a new file."""

    type: ClassVar[Literal["diff"]] = "diff"
    path: str
    new_text: str
    old_text: str | None = None


@attrs.frozen(kw_only=True)
class TerminalOfCall(Extensible):
    """The output of a terminal of the client."""

    type: ClassVar[Literal["terminal"]] = "terminal"
    terminal_id: str


@attrs.frozen(kw_only=True)
class UnknownCallContent(Unknown):
    """A content of an unknown type; `raw` is written unchanged."""


ToolCallContent: TypeAlias = ContentOfCall | DiffOfCall | TerminalOfCall | UnknownCallContent


@attrs.frozen(kw_only=True)
class ToolCallLocation(Extensible):
    """A place on which a tool call works."""

    path: str
    line: int | None = None


@attrs.frozen(kw_only=True)
class ToolCall(_Update):
    """A new tool call."""

    type: ClassVar[Literal["tool_call"]] = "tool_call"
    tool_call_id: str
    title: str
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    content: tuple[ToolCallContent, ...] | None = None
    locations: tuple[ToolCallLocation, ...] | None = None
    raw_input: Any = None
    raw_output: Any = None


@attrs.frozen(kw_only=True)
class ToolCallChange(Extensible):
    """The changed members of a tool call, in a request for permission."""

    tool_call_id: str
    title: str | None = None
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    content: tuple[ToolCallContent, ...] | None = None
    locations: tuple[ToolCallLocation, ...] | None = None
    raw_input: Any = None
    raw_output: Any = None


@attrs.frozen(kw_only=True)
class ToolCallUpdate(_Update, ToolCallChange):
    """The changed members of a tool call."""

    type: ClassVar[Literal["tool_call_update"]] = "tool_call_update"


@attrs.frozen(kw_only=True)
class PlanEntry(Extensible):
    """A step of a plan."""

    content: str
    priority: Literal["high", "medium", "low"] | UnknownValue
    status: Literal["pending", "in_progress", "completed"] | UnknownValue


@attrs.frozen(kw_only=True)
class Plan(_Update):
    """The agent's whole plan."""

    type: ClassVar[Literal["plan"]] = "plan"
    entries: tuple[PlanEntry, ...]


@attrs.frozen(kw_only=True)
class AvailableCommandInput(Extensible):
    """The text after a command's name."""

    hint: str


@attrs.frozen(kw_only=True)
class AvailableCommand(Extensible):
    """A slash command."""

    name: str
    description: str
    input: AvailableCommandInput | None = None


@attrs.frozen(kw_only=True)
class AvailableCommandsUpdate(_Update):
    """All slash commands of the session."""

    type: ClassVar[Literal["available_commands_update"]] = "available_commands_update"
    available_commands: tuple[AvailableCommand, ...]


@attrs.frozen(kw_only=True)
class CurrentModeUpdate(_Update):
    """A changed mode."""

    type: ClassVar[Literal["current_mode_update"]] = "current_mode_update"
    current_mode_id: str


@attrs.frozen(kw_only=True)
class ConfigOptionUpdate(_Update):
    """All settings of the session after a change."""

    type: ClassVar[Literal["config_option_update"]] = "config_option_update"
    config_options: tuple[ConfigOption, ...]


@attrs.frozen(kw_only=True)
class SessionInfoUpdate(_Update):
    """A changed title."""

    type: ClassVar[Literal["session_info_update"]] = "session_info_update"
    title: str | None = None
    updated_at: str | None = None


@attrs.frozen(kw_only=True)
class Cost(Extensible):
    """An amount of money."""

    amount: float
    currency: str


@attrs.frozen(kw_only=True)
class UsageUpdate(_Update):
    """The tokens in the context, its size, and the cost of the session."""

    type: ClassVar[Literal["usage_update"]] = "usage_update"
    used: int
    size: int
    cost: Cost | None = None


@attrs.frozen(kw_only=True)
class UnknownUpdate(Unknown):
    """An update of an unknown kind; `raw` is written unchanged."""


SessionUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallUpdate
    | Plan
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | UnknownUpdate
)


@attrs.frozen(kw_only=True)
class SessionNotification(Extensible):
    """The params of `session/update`."""

    session_id: str
    update: SessionUpdate
