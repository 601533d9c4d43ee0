"""`/subagents`: lists the agents that other agents may call."""

from collections.abc import Iterator

from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext, command, fenced
from eca_server.config.tool_settings import Behavior


@command("subagents", steering="between requests")
async def list_subagents(turn: Turn, context: CommandContext) -> None:
    """List the agents that other agents may call."""
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
