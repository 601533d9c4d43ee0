"""Chat Completions: OpenAI's API, and that of most compatible servers."""

from __future__ import annotations

from eca_server.models.openai_chat.backend import OpenAIChat
from eca_server.models.openai_chat.profiles import PROFILES, Profile

__all__ = ["PROFILES", "OpenAIChat", "Profile"]
