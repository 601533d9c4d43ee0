"""Chat Completions: OpenAI's API, and that of most compatible servers."""
