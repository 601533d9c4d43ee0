"""Whole sessions, by strategies and against a live server."""
