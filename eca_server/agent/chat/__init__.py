"""Chats: their turns one after the other, their history, usage and titles."""

from __future__ import annotations

from eca_server.agent.chat.chat import Chat
from eca_server.agent.chat.chats import Chats
from eca_server.agent.chat.turn import Body, Prompt, Turn

__all__ = ["Body", "Chat", "Chats", "Prompt", "Turn"]
