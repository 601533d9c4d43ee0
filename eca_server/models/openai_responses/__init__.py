"""Responses: OpenAI's API for reasoning models, and that of compatible servers."""
