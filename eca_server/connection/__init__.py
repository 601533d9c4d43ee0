"""One connection: the server, its features, and a client in the same process."""
