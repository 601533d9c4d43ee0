"""`/rules` and `/hooks` list what is configured; `/sync-system-prompt` applies changed rules."""

from __future__ import annotations

from eca_protocol import json
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext, command, fenced
from eca_server.agent.commands.trust import report_withheld
from eca_server.agent.context.block import Section
from eca_server.agent.context.instructions_files import InstructionSearch
from eca_server.agent.tools.files import printable
from eca_server.config.hook_settings import Hook
from eca_server.config.tool_settings import paths_of
from eca_server.system.threads import THREAD_SECONDS, run_on_disk


@command("rules", steering="between requests")
async def list_rules(turn: Turn, context: CommandContext) -> None:
    """List the rules and AGENTS.md files that apply to this chat."""
    config = context.loaded.config
    search = InstructionSearch(
        workspace=context.workspace,
        user_directory=context.skill_files.user_directory,
        rules=paths_of(config.rules),
        parents=config.include_parent_agents_files,
        behavior=context.behavior,
        model=context.model,
        trusted_roots=context.loaded.trusted_roots,
    )
    instructions = await run_on_disk(search.run, seconds=THREAD_SECONDS)
    text = "\n".join(map(_line, instructions.sections))
    agent = turn.session.profile.agent_name(context.behavior)
    heading = f"Rules and instructions for `{agent}`"
    listed = f"{heading}:\n\n{fenced(text)}" if text else "There are no rules."
    turn.report("\n\n".join([listed, *instructions.notes]))


def _line(section: Section) -> str:
    (_, path), *conditions = section.attributes.items()
    limits = "; ".join(f"{name}: {value}" for name, value in conditions)
    return printable(f"{path} ({limits})" if limits else path)


@command("sync-system-prompt", steering="between requests")
async def sync_system_prompt(turn: Turn, context: CommandContext) -> None:
    """Reload changed instructions, rules and skills for this chat."""
    context.chat.systems.clear()
    turn.report("Instructions, rules and skills are reloaded for the next prompt of this chat.")


@command("hooks", steering="between requests")
async def list_hooks(turn: Turn, context: CommandContext) -> None:
    """List the configured hooks."""
    hooks = context.loaded.config.hooks
    lines = sorted(_hook_line(name, hook) for name, hook in hooks.items())
    listed = "Hooks:\n\n" + fenced("\n".join(lines)) if lines else "There are no hooks."
    withheld = [each for each in context.loaded.withheld if each.path[0] == "hooks"]
    if withheld:
        lines = list(report_withheld(withheld))
        opening = "These hooks do not run until you accept them. Send `/trust` to review them:"
        listed = "" if not hooks else f"{listed}\n\n"
        listed += f"{opening}\n\n" + fenced("\n".join(lines))
    turn.report(listed)


def _hook_line(name: str, hook: Hook) -> str:
    """Return a hook's event, name, matcher and description in one line."""
    parts = [f"{hook.type or 'never'}: {name}"]
    if isinstance(hook.matcher, str):
        parts.append(json.dumps(hook.matcher).decode())
    elif hook.matcher is not None:
        parts.append(", ".join(hook.matcher))
    parts.append(hook.description or f"actions: {len(hook.actions)}")
    return " - ".join(parts)
