"""`acp`: an agent of the Agent Client Protocol (ACP) whose chats are those of an ECA server."""
