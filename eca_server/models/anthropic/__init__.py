"""The Messages API: Anthropic's own, and that of compatible servers."""
