"""GitHub Copilot: several APIs behind one login, whose tokens are valid for half an hour."""

from __future__ import annotations

from eca_server.models.github_copilot.access import CopilotAccess
from eca_server.models.github_copilot.backend import GitHubCopilot

__all__ = ["CopilotAccess", "GitHubCopilot"]
