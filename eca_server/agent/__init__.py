"""An agent: chats, and what their models use: tools, contexts, commands, MCP servers."""
