"""Gemini's own API: Google's and Vertex AI's."""
