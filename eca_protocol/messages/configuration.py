"""What the server is configured to offer (chapter "Config updated")."""

from __future__ import annotations

import attrs

from eca_protocol.messages.chat import ChatBehavior, ChatModel
from eca_protocol.messages.marks import legacy
from eca_protocol.revisions import Revision, mark

__all__ = ["ChatConfig", "ConfigUpdatedParams"]


@attrs.frozen(kw_only=True)
class ChatConfig:
    """What a chat can be set to; what is None has not changed.

    `select_model`, `select_behavior`, `select_agent` force the client's selection. `agents` and
    `select_agent` are what newer editions call behaviours; both spellings are written (W-11).
    """

    models: tuple[ChatModel, ...] | None = None
    behaviors: tuple[ChatBehavior, ...] | None = None
    agents: tuple[str, ...] | None = attrs.field(
        default=None, metadata=mark(since=Revision.CURRENT, ruling="W-11")
    )
    select_model: ChatModel | None = None
    select_behavior: ChatBehavior | None = None
    select_agent: str | None = attrs.field(
        default=None, metadata=mark(since=Revision.CURRENT, ruling="W-11")
    )
    welcome_message: str | None = None
    default_model: ChatModel | None = attrs.field(default=None, metadata=legacy("W-60"))
    default_behavior: ChatBehavior | None = attrs.field(default=None, metadata=legacy("W-60"))


@attrs.frozen(kw_only=True)
class ConfigUpdatedParams:
    """`config/updated`: what changed in the configuration the server goes by."""

    chat: ChatConfig | None = None
