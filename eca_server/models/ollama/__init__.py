"""Ollama's own API: local models, which are loaded at their first request."""

from __future__ import annotations

from eca_server.models.ollama.address import address_of
from eca_server.models.ollama.backend import Ollama

__all__ = ["Ollama", "address_of"]
