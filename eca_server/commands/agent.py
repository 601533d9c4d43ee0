"""`/agent`: the agents there are, and another one for this chat."""

from __future__ import annotations

from eca_protocol.messages import CommandArgument
from eca_server.chat import Turn
from eca_server.commands.command import Command, Situation, arguments_of, fenced
from eca_server.config import AGENT_ALIASES

__all__ = ["AGENT"]


async def _run(turn: Turn, situation: Situation) -> None:
    wanted = arguments_of(situation.text).lower()
    names = situation.loaded.config.selectable_behaviors
    wanted = AGENT_ALIASES.get(wanted, wanted)
    found = next((name for name in names if name.lower() == wanted), None)
    if found is not None:
        situation.select_agent(turn.chat, found)
        turn.chat.set(behavior=found)
        await turn.chat.keep_settings()
        turn.say(f"The next prompt of this chat goes to the agent {found}.", role="system")
    elif wanted:
        turn.fail(f"There is no agent {wanted[:100]!r}; `/agent` lists them all.")
    else:
        lines = [f"{'*' if name == situation.behavior else ' '} {name}" for name in names]
        listed = fenced("\n".join(lines))
        turn.say(f"Agents:\n\n{listed}\n\n`/agent NAME` selects one here.", role="system")


AGENT = Command(
    name="agent",
    description="List the agents there are; with a name, select one for this chat.",
    run=_run,
    arguments=(CommandArgument(name="name", description="Of the agent."),),
)
