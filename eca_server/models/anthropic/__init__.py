"""The Messages API: Anthropic's own, and that of compatible servers."""

from eca_server.models.anthropic.backend import Anthropic

__all__ = ["Anthropic"]
