"""The backend for GitHub Copilot: Chat Completions, and the list of models with their APIs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from eca_server.models.backend import ModelInfo
from eca_server.models.github_copilot.models import read_models
from eca_server.models.openai_chat import OpenAIChat


class GitHubCopilot(OpenAIChat):
    """A model of Copilot that speaks Chat Completions; other models have backends of other APIs."""

    @override
    def read_models(self, listed: Any) -> Sequence[ModelInfo]:
        return read_models(listed)
