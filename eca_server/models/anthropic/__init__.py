"""The Messages API: Anthropic's own, and that of compatible servers."""

from __future__ import annotations

from eca_server.models.anthropic.backend import Anthropic

__all__ = ["Anthropic"]
