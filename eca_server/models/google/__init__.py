"""Gemini's own API: Google's and Vertex AI's."""

from __future__ import annotations

from eca_server.models.google.backend import Google

__all__ = ["Google"]
