"""The user's project: its roots, its files, and checked reads and writes of them."""
