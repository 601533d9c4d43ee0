"""`/rules`: lists the rules; `/sync-system-prompt`: applies changed ones to this chat."""

from __future__ import annotations

from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext, command, fenced
from eca_server.agent.context.block import Section
from eca_server.agent.context.instructions_files import read_instruction_files
from eca_server.agent.tools.files import printable


@command("rules", steering="between requests")
async def list_rules(turn: Turn, context: CommandContext) -> None:
    """List the rules and AGENTS.md files that apply to this chat."""
    config = context.loaded.config
    instructions = await read_instruction_files(
        context.workspace,
        user_directory=context.skill_files.user_directory,
        rules=[rule.path for rule in config.rules if rule.path is not None],
        parents=config.include_parent_agents_files,
        behavior=context.behavior,
        model=context.model,
        trusted_roots=context.loaded.trusted_roots,
    )
    text = "\n".join(map(_line, instructions.sections))
    agent = turn.session.profile.agent_name(context.behavior)
    heading = f"Rules and instructions for `{agent}`"
    listed = f"{heading}:\n\n{fenced(text)}" if text else "There are no rules."
    turn.say("\n\n".join([listed, *instructions.notes]), role="system")


def _line(section: Section) -> str:
    (_, path), *conditions = section.attributes.items()
    limits = "; ".join(f"{name}: {value}" for name, value in conditions)
    return printable(f"{path} ({limits})" if limits else path)


@command("sync-system-prompt", steering="between requests")
async def sync_system_prompt(turn: Turn, context: CommandContext) -> None:
    """Reload changed instructions, rules and skills for this chat."""
    context.chat.systems.clear()
    message = "Instructions, rules and skills are reloaded for the next prompt of this chat."
    turn.say(message, role="system")
