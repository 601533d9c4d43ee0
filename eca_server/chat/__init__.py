"""Chats: their turns one after the other, their history, usage and titles."""

from __future__ import annotations

from typing import Literal

from eca_server.chat.chat import Chat, Chats
from eca_server.chat.turn import Body, Prompt, Turn

__all__ = ["BEHAVIORS", "Body", "Chat", "Chats", "Prompt", "Turn"]

BEHAVIORS: tuple[Literal["agent", "plan"], ...] = ("agent", "plan")
"""The behaviours a chat can be given; the first is the default."""
