"""The user's project: its files, and checked reads and writes of them.

Modules are imported at their first use.
"""
