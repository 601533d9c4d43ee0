"""`/hooks`: lists the configured hooks by event."""

from __future__ import annotations

from eca_protocol import json
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext, command, fenced
from eca_server.agent.commands.trust import report_withheld
from eca_server.config.hook_settings import Hook


@command("hooks", steering="between requests")
async def list_hooks(turn: Turn, context: CommandContext) -> None:
    """List the configured hooks."""
    hooks = context.loaded.config.hooks
    lines = sorted(f"{hook.type or 'never'}: {_line(name, hook)}" for name, hook in hooks.items())
    listed = "Hooks:\n\n" + fenced("\n".join(lines)) if lines else "There are no hooks."
    withheld = [each for each in context.loaded.withheld if each.path[0] == "hooks"]
    if withheld:
        lines = list(report_withheld(context.loaded, withheld))
        opening = "Hooks of the opened folder do not run. Send `/trust` to review and accept them:"
        listed = "" if not hooks else f"{listed}\n\n"
        listed += f"{opening}\n\n" + fenced("\n".join(lines))
    turn.say(listed, role="system")


def _line(name: str, hook: Hook) -> str:
    """Return a hook's name, matcher and description in one line."""
    parts = [name]
    if isinstance(hook.matcher, str):
        parts.append(json.dumps(hook.matcher).decode())
    elif hook.matcher is not None:
        parts.append(", ".join(hook.matcher))
    parts.append(hook.description or f"actions: {len(hook.actions)}")
    return " - ".join(parts)
