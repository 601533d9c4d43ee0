"""Ollama's own API: models on one's own machine, which are loaded when they are asked."""

from __future__ import annotations

from eca_server.llm.ollama.address import address_of
from eca_server.llm.ollama.backend import Ollama

__all__ = ["Ollama", "address_of"]
