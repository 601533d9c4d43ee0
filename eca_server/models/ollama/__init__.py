"""Ollama's own API: local models, which are loaded at their first request."""
