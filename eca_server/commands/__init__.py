"""Slash commands: other bodies of a turn. They pass the chat's queue like a prompt."""

from __future__ import annotations

from eca_protocol.messages import ChatCommand
from eca_server.chat import Turn
from eca_server.commands.command import (
    Command,
    MakeAgent,
    Situation,
    arguments_of,
    let_answer,
    named_command,
)
from eca_server.commands.compact import COMPACT
from eca_server.commands.config import CONFIG
from eca_server.commands.costs import COSTS
from eca_server.commands.custom import CommandFiles, CustomCommand, TooLong
from eca_server.commands.doctor import DOCTOR
from eca_server.commands.init import INIT
from eca_server.commands.login import LOGIN, LOGOUT, login_prompt, ways_to_log_in
from eca_server.commands.prompt_show import PROMPT_SHOW
from eca_server.commands.repo_map_show import REPO_MAP_SHOW
from eca_server.commands.resume import RESUME

__all__ = [
    "COMMANDS",
    "Command",
    "CommandFiles",
    "MakeAgent",
    "Situation",
    "let_answer",
    "login_prompt",
    "matching_commands",
    "named_command",
    "run_command",
    "ways_to_log_in",
]

COMMANDS: tuple[Command, ...] = (
    INIT,
    LOGIN,
    LOGOUT,
    COSTS,
    COMPACT,
    RESUME,
    CONFIG,
    DOCTOR,
    PROMPT_SHOW,
    REPO_MAP_SHOW,
)
_NAMES = frozenset(command.name for command in COMMANDS)


async def run_command(name: str, turn: Turn, situation: Situation) -> None:
    """The body of a turn whose prompt names a command, without its slash."""
    command = next((each for each in COMMANDS if each.name == name), None)
    if command is not None:
        await command.run(turn, situation)
        return
    found = await situation.command_files.read(taken=_NAMES)
    custom = found.find(name)
    if custom is None:
        names = [each.name for each in COMMANDS] + [each.name for each in found.commands]
        known = ", ".join(f"`/{each}`" for each in names)
        turn.fail("\n\n".join([f"There is no command `/{name}`. Commands: {known}.", *found.notes]))
        return
    try:
        text = custom.expand(arguments_of(turn.prompt.text))
    except TooLong as fault:
        turn.fail(f"`/{name}`: {fault}.")
    else:
        await let_answer(turn, situation, text)


async def matching_commands(query: str, files: CommandFiles) -> tuple[ChatCommand, ...]:
    """The commands whose name or description holds `query`; a blank one finds all (W-40)."""
    wanted = query.strip().lower()
    found = await files.read(taken=_NAMES)
    commands: list[Command | CustomCommand] = [*COMMANDS, *found.commands]
    return tuple(
        ChatCommand(
            name=each.name,
            description=each.description,
            type="native",
            arguments=each.arguments,
        )
        for each in commands
        if wanted in each.name.lower() or wanted in each.description.lower()
    )
