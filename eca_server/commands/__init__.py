"""Slash commands: other bodies of a turn. They pass the chat's queue like a prompt."""

from __future__ import annotations

from eca_server.commands.command import Command, MakeAgent, Situation, named_command
from eca_server.commands.costs import COSTS
from eca_server.commands.doctor import DOCTOR
from eca_server.commands.resume import RESUME

__all__ = [
    "COMMANDS",
    "Command",
    "MakeAgent",
    "Situation",
    "find_command",
    "named_command",
    "unknown_command",
]

COMMANDS: tuple[Command, ...] = (DOCTOR, COSTS, RESUME)


def find_command(name: str) -> Command | None:
    """The command of that name, without its slash."""
    return next((command for command in COMMANDS if command.name == name), None)


def unknown_command(name: str) -> str:
    """What the user is told about a command that does not exist."""
    known = ", ".join(f"`/{command.name}`" for command in COMMANDS)
    return f"There is no command `/{name}`. Commands: {known}."
