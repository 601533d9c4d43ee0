"""The backend for GitHub Copilot: Chat Completions, and a list that says who speaks what else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eca_server.llm.backend import ModelInfo
from eca_server.llm.github_copilot.models import read_models
from eca_server.llm.openai_chat import OpenAIChat

__all__ = ["GitHubCopilot"]


class GitHubCopilot(OpenAIChat):
    """A model of Copilot by Chat Completions; one that has it not is asked by another API."""

    def read_models(self, listed: Any) -> Sequence[ModelInfo]:
        """As `HTTPBackend.read_models`."""
        return read_models(listed)
