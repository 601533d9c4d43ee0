"""The suite for agents of the Agent Client Protocol (ACP), as the suite for servers of ECA."""
