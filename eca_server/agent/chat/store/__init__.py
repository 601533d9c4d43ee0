"""Chats stored in SQLite in the user's data directory (design decision 18)."""

from __future__ import annotations

from eca_server.agent.chat.store.place import store_path, workspace_key
from eca_server.agent.chat.store.rows import (
    BeforeImage,
    BeforeImageBatch,
    Change,
    ChatSettings,
    ChatSummary,
    Rollback,
    StoredChat,
    StoredContent,
    StoredMessage,
    TurnUsage,
    UndoStep,
)
from eca_server.agent.chat.store.store import Store
from eca_server.agent.chat.store.worker import Limits

__all__ = [
    "BeforeImage",
    "BeforeImageBatch",
    "Change",
    "ChatSettings",
    "ChatSummary",
    "Limits",
    "Rollback",
    "Store",
    "StoredChat",
    "StoredContent",
    "StoredMessage",
    "TurnUsage",
    "UndoStep",
    "store_path",
    "workspace_key",
]
