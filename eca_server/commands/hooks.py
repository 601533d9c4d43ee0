"""`/hooks`: the configured hooks, by the event each is for."""

from __future__ import annotations

from eca_protocol import json
from eca_server.chat import Turn
from eca_server.commands.command import Command, Situation, fenced
from eca_server.commands.trust import report_withheld
from eca_server.config.hook_settings import Hook

__all__ = ["HOOKS"]


async def _run(turn: Turn, situation: Situation) -> None:
    hooks = situation.loaded.config.hooks
    lines = sorted(f"{hook.type or 'never'}: {_told(name, hook)}" for name, hook in hooks.items())
    listed = "Hooks:\n\n" + fenced("\n".join(lines)) if lines else "There are no hooks."
    withheld = [each for each in situation.loaded.withheld if each.path[0] == "hooks"]
    if withheld:
        lines = list(report_withheld(situation.loaded, withheld))
        opening = "Hooks of the opened folder that do not run; `/trust` shows and accepts them:"
        listed = "" if not hooks else f"{listed}\n\n"
        listed += f"{opening}\n\n" + fenced("\n".join(lines))
    turn.say(listed, role="system")


def _told(name: str, hook: Hook) -> str:
    """A hook in one line: its name, what it matches, what it is for."""
    told = [name]
    if isinstance(hook.matcher, str):
        told.append(json.dumps(hook.matcher).decode())
    elif hook.matcher is not None:
        told.append(", ".join(hook.matcher))
    told.append(hook.description or f"actions: {len(hook.actions)}")
    return " - ".join(told)


HOOKS = Command(
    name="hooks", description="List the hooks there are.", run=_run, steering="between requests"
)
