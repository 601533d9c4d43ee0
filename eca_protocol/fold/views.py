"""The state of a chat in a user interface: its items in order, updated by each content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from eca_protocol import messages as m

CallState: TypeAlias = Literal["preparing", "waiting", "ready", "running", "called", "rejected"]
"""`waiting`: for the user's approval; `ready`: a complete call that needs no approval."""


@attrs.define
class Pieces:
    """A growing text; the time of adding does not depend on its length."""

    _pieces: list[str] = attrs.field(factory=list, eq="".join, repr="".join)

    def add(self, piece: str) -> None:
        """Append a piece."""
        self._pieces.append(piece)

    def __str__(self) -> str:
        self._pieces[:] = ["".join(self._pieces)]
        return self._pieces[0]


@attrs.define(kw_only=True)
class TextView:
    """A text of one role.

    Attributes:
        content_id: the message's id for later requests, if the server sent one.
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
    """A reasoning; `total_time_ms` is None until it is finished."""

    id: str
    pieces: Pieces = attrs.field(factory=Pieces)
    total_time_ms: float | None = None

    @property
    def text(self) -> str:
        """The pieces, joined."""
        return str(self.pieces)


@attrs.define(kw_only=True)
class CallView:
    """A tool call, from the model's first piece of it to its outcome.

    Attributes:
        arguments_pieces: the text of the arguments, as the model writes it.
        arguments: the parsed arguments; None until the call is complete.
        outputs, error, total_time_ms: the result of a call that has run.
        reason: the reason of a rejected call.
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
        """The text of the arguments so far."""
        return str(self.arguments_pieces)

    @property
    def is_open(self) -> bool:
        """True if the call has no outcome yet."""
        return self.state not in {"called", "rejected"}


@attrs.define(kw_only=True)
class HookView:
    """A hook of the user; `end` is None while it runs."""

    id: str
    name: str
    end: m.ChatHookActionFinishedContent | None = None


Item: TypeAlias = TextView | LinkView | ThoughtView | CallView | HookView | m.ChatContent
"""An item of a chat; contents without a view are items themselves."""


@attrs.define(kw_only=True)
class ChatView:
    """One chat.

    Attributes:
        items: the items in the order of their start.
        activity: the text of the running turn's progress; empty while the chat is idle.
        status: the latest `chat/statusChanged`.
        usage: the latest usage.
        selection: the selections for this chat only.
        parent_id: the chat whose subagent uses this chat.
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
        """True if a turn is running."""
        return bool(self.activity)

    @property
    def waiting(self) -> list[CallView]:
        """The calls that wait for the user's approval."""
        return [call for call in self.calls() if call.state == "waiting"]

    def calls(self) -> Iterator[CallView]:
        """Return an iterator over the tool calls, in order."""
        return (item for item in self.items if isinstance(item, CallView))

    def text(self, role: m.ChatRole = "assistant") -> str:
        """Return the joined texts of a role."""
        texts = (item for item in self.items if isinstance(item, TextView) and item.role == role)
        return "".join(item.text for item in texts)
