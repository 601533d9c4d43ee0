"""Chats as files for other servers and for people: upstream's form, JSON, Markdown."""
