"""Hooks: the user's own commands, run at chat events, whose output can change what follows."""
