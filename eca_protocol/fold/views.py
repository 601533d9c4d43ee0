"""What a user interface shows of a chat: its items in order, each as new as the last content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from eca_protocol import messages as m

__all__ = [
    "CallState",
    "CallView",
    "ChatView",
    "HookView",
    "Item",
    "LinkView",
    "Pieces",
    "TextView",
    "ThoughtView",
]

CallState: TypeAlias = Literal["preparing", "waiting", "ready", "running", "called", "rejected"]
"""`waiting` is for the user's approval; `ready` is a whole call that needs none."""


@attrs.define
class Pieces:
    """A text that grows: adding costs the same however long it has become."""

    _pieces: list[str] = attrs.field(factory=list, eq="".join, repr="".join)

    def add(self, piece: str) -> None:
        """Append a piece."""
        self._pieces.append(piece)

    def __str__(self) -> str:
        self._pieces[:] = ["".join(self._pieces)]
        return self._pieces[0]


@attrs.define(kw_only=True)
class TextView:
    """What one role said in one go.

    Attributes:
        content_id: names the message in later requests, where the server gave it one.
    """

    role: m.ChatRole
    content_id: str | None = None
    pieces: Pieces = attrs.field(factory=Pieces)

    @property
    def text(self) -> str:
        """The pieces, joined."""
        return str(self.pieces)


@attrs.define(kw_only=True)
class LinkView:
    """A link."""

    title: str
    url: str


@attrs.define(kw_only=True)
class ThoughtView:
    """A reasoning; `total_time_ms` is None while the model is at it."""

    id: str
    pieces: Pieces = attrs.field(factory=Pieces)
    total_time_ms: float | None = None

    @property
    def text(self) -> str:
        """The pieces, joined."""
        return str(self.pieces)


@attrs.define(kw_only=True)
class CallView:
    """A tool call, from the first piece the model writes of it to its outcome.

    Attributes:
        arguments_pieces: what the model writes of the arguments.
        arguments: the arguments themselves; None until the call is whole.
        outputs, error, total_time_ms: of a call that has run.
        reason: of one that will not run.
    """

    id: str
    name: str
    server: str
    origin: m.ToolCallOrigin
    state: CallState = "preparing"
    arguments_pieces: Pieces = attrs.field(factory=Pieces)
    arguments: Mapping[str, Any] | None = None
    summary: str | None = None
    details: m.ToolCallDetails | None = None
    outputs: tuple[m.ToolCallOutput, ...] = ()
    error: bool = False
    total_time_ms: float | None = None
    reason: m.ToolCallRejectedReason | None = None

    @property
    def arguments_text(self) -> str:
        """What the model has written of the arguments."""
        return str(self.arguments_pieces)

    @property
    def is_open(self) -> bool:
        """Whether its outcome is still to come."""
        return self.state not in {"called", "rejected"}


@attrs.define(kw_only=True)
class HookView:
    """A hook of the user's; `end` is None while it runs."""

    id: str
    name: str
    end: m.ChatHookActionFinishedContent | None = None


Item: TypeAlias = TextView | LinkView | ThoughtView | CallView | HookView | m.ChatContent
"""One thing in a chat; a content that has no view of its own stands as it came."""


@attrs.define(kw_only=True)
class ChatView:
    """One chat.

    Attributes:
        items: what is in it, in the order in which it began.
        activity: what it is doing, empty while it is idle.
        status: what `chat/statusChanged` last said, which says it for chats not shown, too.
        usage: the newest that was told.
        selection: what was selected for this chat alone.
        parent_id: the chat whose agent works through this one.
    """

    id: str
    title: str | None = None
    activity: str = ""
    status: m.ChatStatus | None = None
    usage: m.ChatUsageContent | None = None
    selection: m.ChatConfig = attrs.field(factory=m.ChatConfig)
    parent_id: str | None = None
    items: list[Item] = attrs.field(factory=list)

    @property
    def running(self) -> bool:
        """Whether a turn is running."""
        return bool(self.activity)

    @property
    def waiting(self) -> list[CallView]:
        """The calls that wait for the user's approval."""
        return [call for call in self.calls() if call.state == "waiting"]

    def calls(self) -> Iterator[CallView]:
        """The tool calls, in order."""
        return (item for item in self.items if isinstance(item, CallView))

    def text(self, role: m.ChatRole = "assistant") -> str:
        """All that a role said, joined."""
        texts = (item for item in self.items if isinstance(item, TextView) and item.role == role)
        return "".join(item.text for item in texts)
