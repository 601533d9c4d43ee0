"""Responses: OpenAI's API for reasoning models, and that of compatible servers."""

from __future__ import annotations

from eca_server.models.openai_responses.backend import OpenAIResponses
from eca_server.models.openai_responses.profiles import PROFILES, Profile

__all__ = ["PROFILES", "OpenAIResponses", "Profile"]
