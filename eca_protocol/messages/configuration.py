"""The server's configuration for its clients (chapter "Config updated")."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import attrs

from eca_protocol.messages.lifecycle import ChatBehavior, ChatModel
from eca_protocol.messages.marks import UnknownValue, ValueWindow, legacy, marked, null_as_empty
from eca_protocol.revisions import Revision, mark

_ListedBehavior: TypeAlias = (
    Literal["agent", "plan"]
    | Annotated[Literal["code"], ValueWindow(since=Revision.CURRENT, fallback="agent")]
    | UnknownValue
)
"""A behaviour in the server's list; CURRENT's clients know `agent` as `code` (W-28)."""


@attrs.frozen(kw_only=True)
class ChatConfig:
    """The settings of chats; absent members are unchanged.

    The fields whose name begins with `select` force the client's selection. `agents` and
    `select_agent` are the newer names of behaviours; both are written (W-11). `variants` are those
    of the selected model; their presence identifies a server of CURRENT (W-16). An empty
    `select_variant`, null on the wire, clears the client's selection (W-11).
    """

    models: tuple[ChatModel, ...] | None = None
    behaviors: tuple[_ListedBehavior, ...] | None = marked(
        mark(until=Revision.R2025_10, ruling="W-11")
    )
    agents: tuple[str, ...] | None = marked(mark(since=Revision.CURRENT, ruling="W-11"))
    select_model: ChatModel | None = None
    select_behavior: _ListedBehavior | None = marked(mark(until=Revision.R2025_10, ruling="W-11"))
    select_agent: str | None = marked(mark(since=Revision.CURRENT, ruling="W-11"))
    variants: tuple[str, ...] | None = marked(mark(since=Revision.CURRENT))
    select_variant: str | None = marked(mark(since=Revision.CURRENT) | null_as_empty("W-11"))
    select_trust: bool | None = marked(mark(since=Revision.CURRENT))
    welcome_message: str | None = None
    default_model: ChatModel | None = marked(legacy("W-60"))
    default_behavior: ChatBehavior | None = marked(legacy("W-60"))
    default_agent: str | None = marked(legacy("W-60"))


@attrs.frozen(kw_only=True)
class ConfigUpdatedParams:
    """`config/updated`: changes of the server's configuration.

    With `chat_id` the selections are for that chat only.
    """

    chat_id: str | None = marked(mark(since=Revision.CURRENT))
    chat: ChatConfig | None = None
