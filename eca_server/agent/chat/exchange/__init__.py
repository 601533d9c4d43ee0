"""Chats as files, for other servers and for people: EDN, JSON, Markdown."""
