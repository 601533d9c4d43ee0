"""Our own client of the Model Context Protocol; imported only when a server is configured."""
