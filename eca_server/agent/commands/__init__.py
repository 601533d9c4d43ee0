"""Slash commands: prompts that run code instead of a model request, queued like any prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from eca_protocol.messages import ChatCommand, ChatCommandType
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.commands.chats import (
    ask_aside,
    delete_stored_chat,
    fork_chat,
    list_chats,
    resume_chat,
)
from eca_server.agent.commands.command import Command, CommandContext, Steering, ask_model
from eca_server.agent.commands.config import show_config
from eca_server.agent.commands.context import (
    compact_chat,
    show_context,
    show_costs,
    show_prompt,
    show_repo_map,
)
from eca_server.agent.commands.custom import CommandFiles, CustomCommand, TooLong
from eca_server.agent.commands.doctor import doctor_command
from eca_server.agent.commands.exchange import export_chat, import_file
from eca_server.agent.commands.help import help_command
from eca_server.agent.commands.login import LOGIN, log_out
from eca_server.agent.commands.rules import (
    list_hooks,
    list_rules,
    sync_system_prompt,
    write_instructions,
)
from eca_server.agent.commands.selection import list_subagents, select_agent, select_model
from eca_server.agent.commands.skills import SkillCommand, create_skill, skills_command
from eca_server.agent.commands.trust import review_trust
from eca_server.agent.context.definition_files import Definitions
from eca_server.agent.context.limits import limit_notes
from eca_server.agent.skills.skills import Skill, SkillFiles
from eca_server.agent.tools.files import printable
from eca_server.models.acp import ACP
from eca_server.printable import enumeration
from eca_server.system.command_line import nearest

if TYPE_CHECKING:
    from eca_server.agent.commands.server_prompts import ServerPrompt
    from eca_server.agent.mcp.manager import Manager

    _AnyCommand: TypeAlias = Command | CustomCommand | ServerPrompt


def hidden_skill_notes(skills: Iterable[Skill]) -> tuple[str, ...]:
    """Return a sentence for each skill whose name is that of a native command."""
    return tuple(
        f"{printable(each.folder)}: only the model can load the skill {each.name}, because "
        f"`/{each.command}` is a built-in command. Rename the skill to use it as a command."
        for each in skills
        if each.command in _NAMES
    )


async def _load_all(context: CommandContext) -> tuple[Sequence[_AnyCommand], Sequence[str]]:
    """Return every command, and the sentences about files that are none."""
    loaded = await _read(context.command_files, context.skill_files, context.mcp)
    return _all(loaded, context.mcp), loaded.notes


COMMANDS: tuple[Command, ...] = (
    help_command(_load_all),
    write_instructions,
    LOGIN,
    log_out,
    select_model,
    select_agent,
    show_costs,
    show_context,
    compact_chat,
    ask_aside,
    list_chats,
    resume_chat,
    fork_chat,
    delete_stored_chat,
    export_chat,
    import_file,
    show_config,
    doctor_command(_load_all),
    show_prompt,
    show_repo_map,
    skills_command(hidden_skill_notes),
    create_skill,
    list_rules,
    sync_system_prompt,
    list_subagents,
    list_hooks,
    review_trust,
)
_PLUGINS = (
    "plugins are not supported; configure skills, commands, agents, hooks and MCP servers in your "
    "own files"
)

UNSUPPORTED: Mapping[str, str] = {
    "debug-chat": "send `/export NAME.json` for the messages, `/prompt-show` for the next request",
    "eca-info": "send `/doctor` or `/config`",
    "memory-consolidate": "nothing is remembered across chats; write it into an AGENTS.md",
    "plugins": _PLUGINS,
    "plugin-install": _PLUGINS,
    "plugin-uninstall": _PLUGINS,
    "plugin-update": _PLUGINS,
    "remote": "the server does not listen on the network",
}
"""The error texts for commands of upstream that are left out; `migrating.md` lists them, too."""

_NAMES = frozenset(command.name for command in COMMANDS)
_MAX_NAMES = 100  # listed in the error for an unknown name


def runs_without_model(name: str | None) -> bool:
    """Return whether this name is a native command that asks no model."""
    return any(each.name == name and not each.asks_model for each in COMMANDS)


def steering_of(name: str | None) -> Steering | None:
    """Return when a native command runs if it is sent to a running turn; None: no such command."""
    return next((each.steering for each in COMMANDS if each.name == name), None)


async def run_command(name: str, turn: Turn, context: CommandContext) -> None:
    """Run a command in its turn, or fail the turn with the known names."""
    native = next((each for each in COMMANDS if each.name == name), None)
    if native is not None:
        await native.run(turn, context)
        return
    loaded = await _read(context.command_files, context.skill_files, context.mcp)
    command = next((each for each in loaded.items if each.name == name), None)
    if command is not None:
        for note in loaded.notes:
            if command.path is not None and note.startswith(f"{printable(command.path)}:"):
                turn.report(note)
        await _run_file_command(command, turn, context)
    elif await _run_server_prompt(name, turn, context, loaded):
        return
    elif context.model.startswith(f"{ACP}/"):
        await ask_model(turn, context, context.text)  # the agent has commands of its own
    else:
        names = [f"/{each.name}" for each in _all(loaded, context.mcp)]
        known = enumeration([f"`{each}`" for each in names], _MAX_NAMES)
        why = (
            f": {UNSUPPORTED[name]}." if name in UNSUPPORTED else nearest(f"/{name}", names) or "."
        )
        message = f"There is no command `/{name}`{why} Available commands: {known}."
        turn.fail("\n\n".join([message, *loaded.notes]))


async def _read(
    files: CommandFiles, skill_files: SkillFiles, mcp: Manager | None
) -> Definitions[CustomCommand]:
    """Read the commands from files: custom ones, then skills; each name once.

    A project's command is dropped if its name is that of a user's command, or could be that of an
    MCP server's prompt, even if that server does not run.
    """
    custom, skills = await files.read(native=_NAMES), await skill_files.read()
    taken = _NAMES | {each.name for each in custom.items if not each.is_of_project}
    taken |= {each.command for each in skills.items if not each.is_of_project}
    prefixes = _server_prefixes(mcp)

    def is_free(command: CustomCommand) -> bool:
        is_anothers = command.name in taken or command.name.startswith(prefixes)
        return not command.is_of_project or not is_anothers

    commands = [each for each in custom.items if is_free(each)]
    names = _NAMES | {each.name for each in commands}
    more = [
        each
        for each in map(SkillCommand.of, skills.items)
        if each.name not in names and is_free(each)
    ]
    notes = limit_notes((*custom.notes, *hidden_skill_notes(skills.items), *skills.notes))
    return Definitions(items=(*commands, *more), notes=notes)


def _server_prefixes(mcp: Manager | None) -> tuple[str, ...]:
    """Return the prefixes of the names of MCP servers' prompts."""
    if mcp is None:
        return ()
    from eca_server.agent.commands.server_prompts import prefix_of  # noqa: PLC0415 - as below

    return tuple(prefix_of(server) for server in mcp)


async def _run_file_command(command: CustomCommand, turn: Turn, context: CommandContext) -> None:
    try:
        text = command.expand(arguments_of(context.text))
    except TooLong as error:
        turn.fail(f"`/{command.name}`: {error}.")
    else:
        await ask_model(turn, context, command.for_model(text))


async def _run_server_prompt(
    name: str, turn: Turn, context: CommandContext, files: Definitions[CustomCommand]
) -> bool:
    """Run the MCP server's prompt of this name; return False if there is no such prompt."""
    if context.mcp is None or ":" not in name:
        return False
    from eca_server.agent.commands import server_prompts  # noqa: PLC0415 - only where one is configured

    loaded = await server_prompts.find_server_prompt(name, context.mcp, _used_names(files))
    if isinstance(loaded, str):
        turn.fail(f"The command `/{name}` is not available now. {loaded}")
    elif loaded is not None:
        await server_prompts.run_server_prompt(loaded, turn, context)
    return loaded is not None


async def matching_commands(
    query: str, files: CommandFiles, skill_files: SkillFiles, mcp: Manager | None
) -> tuple[ChatCommand, ...]:
    """Return the commands that match `query` by name or description; a blank one: all (W-40).

    Those whose name begins with `query` come first, and those that only describe it last: an editor
    runs the first one when the user presses Enter behind a typed name.
    """
    needle = query.strip().lower()
    loaded = await _read(files, skill_files, mcp)
    matches = [
        each for each in _all(loaded, mcp) if needle in f"{each.name}\n{each.description}".lower()
    ]
    matches.sort(key=lambda each: _rank(each.name.lower().find(needle)))
    return tuple(
        ChatCommand(
            name=each.name,
            description=each.description,
            type=_type_of(each),
            arguments=each.arguments,
        )
        for each in matches
    )


def _rank(position: int) -> int:
    """Return the rank of a command by the position of the query in its name, -1 for none."""
    return 2 if position < 0 else min(position, 1)


def _type_of(command: _AnyCommand) -> ChatCommandType:
    """Return the wire type of a command; older editions write `native` for all but MCP prompts."""
    if isinstance(command, Command):
        return "native"
    if isinstance(command, SkillCommand):
        return "skill"
    return "customPrompt" if isinstance(command, CustomCommand) else "mcpPrompt"


def _all(files: Definitions[CustomCommand], mcp: Manager | None) -> list[_AnyCommand]:
    """Return every command: native, custom, skills, prompts of MCP servers."""
    commands: list[_AnyCommand] = [*COMMANDS, *files.items]
    if mcp is not None:
        from eca_server.agent.commands.server_prompts import server_prompts  # noqa: PLC0415 - as above

        commands += server_prompts(mcp.running, _used_names(files))
    return commands


def _used_names(files: Definitions[CustomCommand]) -> frozenset[str]:
    return _NAMES | {each.name for each in files.items}
