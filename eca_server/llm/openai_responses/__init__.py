"""Responses: OpenAI's API for models that think, and for the servers that imitate it."""

from __future__ import annotations

from eca_server.llm.openai_responses.backend import OpenAIResponses
from eca_server.llm.openai_responses.profiles import PROFILES, Profile

__all__ = ["PROFILES", "OpenAIResponses", "Profile"]
