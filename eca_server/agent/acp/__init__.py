"""ACP agents that answer the prompts of a chat, as the models `acp/NAME`.

An agent runs its own model and tools. Its process is started at its first prompt and shared by all
chats; each chat has a session of its own.
"""
