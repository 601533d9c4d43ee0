"""Slash commands, and what the command line shows with the same words."""
