"""Slash commands: other bodies of a turn. They pass the chat's queue like a prompt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import attrs

from eca_protocol.messages import ChatCommand, ChatCommandType
from eca_server.chat import Turn
from eca_server.commands.agent import AGENT
from eca_server.commands.btw import BTW
from eca_server.commands.chats import CHATS
from eca_server.commands.command import (
    Command,
    MakeAgent,
    Situation,
    Steering,
    arguments_of,
    let_answer,
    named_command,
)
from eca_server.commands.compact import COMPACT
from eca_server.commands.config import CONFIG
from eca_server.commands.context import CONTEXT
from eca_server.commands.costs import COSTS
from eca_server.commands.custom import (
    CommandFiles,
    CustomCommand,
    TooLong,
)
from eca_server.commands.delete_chat import DELETE_CHAT
from eca_server.commands.doctor import DOCTOR
from eca_server.commands.export import EXPORT
from eca_server.commands.fork import FORK
from eca_server.commands.hooks import HOOKS
from eca_server.commands.import_chat import IMPORT
from eca_server.commands.init import INIT
from eca_server.commands.left_out import LEFT_OUT
from eca_server.commands.login import LOGIN, LOGOUT, login_prompt, ways_to_log_in
from eca_server.commands.model import MODEL
from eca_server.commands.prompt_show import PROMPT_SHOW
from eca_server.commands.repo_map_show import REPO_MAP_SHOW
from eca_server.commands.resume import RESUME
from eca_server.commands.rules import RULES, SYNC_SYSTEM_PROMPT
from eca_server.commands.skills import SKILL_CREATE, SKILLS, SkillCommand
from eca_server.commands.subagents import SUBAGENTS
from eca_server.commands.trust import TRUST
from eca_server.context.limits import limit_notes
from eca_server.skills import Skill, SkillFiles
from eca_server.tools.files import printable

if TYPE_CHECKING:
    from eca_server.commands.server_prompts import ServerPrompt
    from eca_server.mcp.manager import Manager

    _AnyCommand: TypeAlias = Command | CustomCommand | SkillCommand | ServerPrompt

__all__ = [
    "COMMANDS",
    "Command",
    "CommandFiles",
    "MakeAgent",
    "Situation",
    "arguments_of",
    "is_answered_alone",
    "let_answer",
    "login_prompt",
    "matching_commands",
    "named_command",
    "run_command",
    "steering_of",
    "told_of_hidden",
    "ways_to_log_in",
]

COMMANDS: tuple[Command, ...] = (
    INIT,
    LOGIN,
    LOGOUT,
    MODEL,
    AGENT,
    COSTS,
    CONTEXT,
    COMPACT,
    BTW,
    CHATS,
    RESUME,
    FORK,
    DELETE_CHAT,
    EXPORT,
    IMPORT,
    CONFIG,
    DOCTOR,
    PROMPT_SHOW,
    REPO_MAP_SHOW,
    SKILLS,
    SKILL_CREATE,
    RULES,
    SYNC_SYSTEM_PROMPT,
    SUBAGENTS,
    HOOKS,
    TRUST,
)
_NAMES = frozenset(command.name for command in COMMANDS)
_MOST_NAMES = 100  # told to who named none


def is_answered_alone(name: str | None) -> bool:
    """Return whether a command of that name is the server's own and asks no model."""
    return any(each.name == name and not each.asks_model for each in COMMANDS)


def steering_of(name: str | None) -> Steering | None:
    """Return what becomes of a command in a turn that runs; None: it is none of the server's."""
    return next((each.steering for each in COMMANDS if each.name == name), None)


async def run_command(name: str, turn: Turn, situation: Situation) -> None:
    """The body of a turn whose prompt names a command, without its slash."""
    command = next((each for each in COMMANDS if each.name == name), None)
    if command is not None:
        await command.run(turn, situation)
        return
    found = await _read(situation.command_files, situation.skill_files, situation.mcp)
    written = next((each for each in found.commands if each.name == name), None)
    if written is not None:
        await _run_written(written, turn, situation)
    elif not await _run_server_prompt(name, turn, situation, found):
        names = [each.name for each in _all(found, situation.mcp)]
        known = ", ".join(f"`/{each}`" for each in names[:_MOST_NAMES])
        if len(names) > _MOST_NAMES:
            known += f" and {len(names) - _MOST_NAMES} more"
        why = f": {LEFT_OUT[name]}" if name in LEFT_OUT else ""
        told = f"There is no command `/{name}`{why}. Commands: {known}."
        turn.fail("\n\n".join([told, *found.notes]))


@attrs.frozen(kw_only=True)
class _Written:
    """The commands that files hold: custom ones and behind them skills, each name once."""

    commands: tuple[CustomCommand | SkillCommand, ...]
    notes: tuple[str, ...]


async def _read(files: CommandFiles, skill_files: SkillFiles, mcp: Manager | None) -> _Written:
    """Read the commands in files; none of a project has the name of one that is the user's.

    A project's command does not take the name of an MCP server's prompt either, whether that
    server runs or not.
    """
    custom, skills = await files.read(taken=_NAMES), await skill_files.read()
    taken = _NAMES | {each.name for each in custom.commands if not each.is_of_project}
    taken |= {each.command for each in skills.skills if not each.is_of_project}
    prefixes = _server_prefixes(mcp)

    def is_free(command: CustomCommand | SkillCommand) -> bool:
        is_anothers = command.name in taken or command.name.startswith(prefixes)
        return not command.is_of_project or not is_anothers

    commands = [each for each in custom.commands if is_free(each)]
    names = _NAMES | {each.name for each in commands}
    more = [
        each
        for each in map(SkillCommand, skills.skills)
        if each.name not in names and is_free(each)
    ]
    return _Written(commands=(*commands, *more), notes=limit_notes((*custom.notes, *skills.notes)))


def _server_prefixes(mcp: Manager | None) -> tuple[str, ...]:
    """Return what the names of MCP servers' prompts begin with."""
    if mcp is None:
        return ()
    from eca_server.commands.server_prompts import prefix_of  # noqa: PLC0415 - as below

    return tuple(prefix_of(server) for server in mcp)


def told_of_hidden(skills: Iterable[Skill]) -> tuple[str, ...]:
    """A sentence about each skill that cannot be called: a command of ours has its name."""
    return tuple(
        f"{printable(each.folder)}: the skill {each.name} is for the model alone: "
        f"`/{each.command}` is a command of the server."
        for each in skills
        if each.command in _NAMES
    )


async def _run_written(
    written: CustomCommand | SkillCommand, turn: Turn, situation: Situation
) -> None:
    try:
        text = written.expand(arguments_of(situation.text))
    except TooLong as fault:
        turn.fail(f"`/{written.name}`: {fault}.")
    else:
        await let_answer(turn, situation, written.framed(text))


async def _run_server_prompt(name: str, turn: Turn, situation: Situation, files: _Written) -> bool:
    """Run the MCP server's prompt of that name; whether the name means one."""
    if situation.mcp is None or ":" not in name:
        return False
    from eca_server.commands import server_prompts  # noqa: PLC0415 - only where one is configured

    found = await server_prompts.find_server_prompt(name, situation.mcp, _taken(files))
    if isinstance(found, str):
        turn.fail(f"There is no command `/{name}` now. {found}")
    elif found is not None:
        await server_prompts.run_server_prompt(found, turn, situation)
    return found is not None


async def matching_commands(
    query: str, files: CommandFiles, skill_files: SkillFiles, mcp: Manager | None
) -> tuple[ChatCommand, ...]:
    """The commands whose name or description holds `query`; a blank one finds all (W-40)."""
    wanted = query.strip().lower()
    found = await _read(files, skill_files, mcp)
    return tuple(
        ChatCommand(
            name=each.name,
            description=each.description,
            type=_type_of(each),
            arguments=each.arguments,
        )
        for each in _all(found, mcp)
        if wanted in each.name.lower() or wanted in each.description.lower()
    )


def _type_of(command: _AnyCommand) -> ChatCommandType:
    """What a client is told it is; older editions are told `native` of what is ours or a file."""
    if isinstance(command, Command):
        return "native"
    if isinstance(command, SkillCommand):
        return "skill"
    return "customPrompt" if isinstance(command, CustomCommand) else "mcpPrompt"


def _all(files: _Written, mcp: Manager | None) -> list[_AnyCommand]:
    """Every command there is now: ours, the user's, skills, those of MCP servers."""
    commands: list[_AnyCommand] = [*COMMANDS, *files.commands]
    if mcp is not None:
        from eca_server.commands.server_prompts import server_prompts  # noqa: PLC0415 - as above

        commands += server_prompts(mcp.running, _taken(files))
    return commands


def _taken(files: _Written) -> frozenset[str]:
    return _NAMES | {each.name for each in files.commands}
