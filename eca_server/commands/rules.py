"""`/rules`, and `/sync-system-prompt`, which lets those that changed count in this chat."""

from __future__ import annotations

from eca_server.chat import Turn
from eca_server.commands.command import Command, Situation, fenced
from eca_server.context import read_instruction_files
from eca_server.context.block import Section
from eca_server.tools.files import printable

__all__ = ["RULES", "SYNC_SYSTEM_PROMPT"]


async def _list(turn: Turn, situation: Situation) -> None:
    config = situation.loaded.config
    found = await read_instruction_files(
        situation.workspace,
        user_directory=situation.skill_files.user_directory,
        rules=[rule.path for rule in config.rules if rule.path is not None],
        parents=config.include_parent_agents_files,
        behavior=situation.behavior,
        trusted_roots=situation.loaded.trusted_roots,
    )
    text = "\n".join(map(_told, found.sections))
    agent = turn.chat.session.profile.agent_name(situation.behavior)
    of = f"Rules and instructions for `{agent}`"
    listed = f"{of}:\n\n{fenced(text)}" if text else "There are no rules."
    turn.say("\n\n".join([listed, *found.notes]), role="system")


def _told(section: Section) -> str:
    (_, path), *conditions = section.attributes.items()
    limits = "; ".join(f"{name}: {value}" for name, value in conditions)
    return printable(f"{path} ({limits})" if limits else path)


async def _sync(turn: Turn, _: Situation) -> None:
    turn.chat.systems.clear()
    words = "Instructions, rules and skills are read anew for the next prompt of this chat."
    turn.say(words, role="system")


RULES = Command(
    name="rules",
    description="List the rules and AGENTS.md files that hold here.",
    run=_list,
    steering="between requests",
)
SYNC_SYSTEM_PROMPT = Command(
    name="sync-system-prompt",
    description="Let instructions, rules and skills that changed since count in this chat.",
    run=_sync,
    steering="between requests",
)
