"""The material sent to a model with the user's prompt: contexts, mentions, AGENTS.md, rules."""
