"""Chats stored in SQLite in the user's data directory."""
