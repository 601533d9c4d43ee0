"""Chats that survive: kept in SQLite in the user's data directory (design decision 18)."""

from __future__ import annotations

from eca_server.chat.store.place import store_path, workspace_key
from eca_server.chat.store.rows import (
    BeforeImage,
    ChatSettings,
    ChatSummary,
    StoredChat,
    StoredMessage,
    TurnUsage,
)
from eca_server.chat.store.store import Store

__all__ = [
    "BeforeImage",
    "ChatSettings",
    "ChatSummary",
    "Store",
    "StoredChat",
    "StoredMessage",
    "TurnUsage",
    "store_path",
    "workspace_key",
]
