"""`/subagents`: lists the agents that other agents may call."""

from __future__ import annotations

from collections.abc import Iterator

from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import Command, CommandContext, fenced
from eca_server.config.tool_settings import Behavior


async def _run(turn: Turn, context: CommandContext) -> None:
    behaviors = context.loaded.config.behaviors
    lines = [
        " - ".join([name, *_details(each)])
        for name, each in sorted(behaviors.items())
        if name and "subagent" in each.mode
    ]
    listed = "Subagents:\n\n" + fenced("\n".join(lines)) if lines else "There are no subagents."
    turn.say(listed, role="system")


def _details(behavior: Behavior) -> Iterator[str]:
    if behavior.description:
        yield " ".join(behavior.description.split())
    if behavior.default_model:
        yield f"model: {behavior.default_model}"
    if behavior.max_steps is not None:
        yield f"steps: {behavior.max_steps}"
    if behavior.spawnable_by:
        yield f"called by: {', '.join(behavior.spawnable_by)}"


SUBAGENTS = Command(
    name="subagents",
    description="List the agents that other agents may call.",
    run=_run,
    steering="between requests",
)
