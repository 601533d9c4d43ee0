"""`/context`: what fills the model's context, and how much of it is left."""

from __future__ import annotations

from eca_protocol.messages import ContextBreakdown
from eca_server.chat import Turn
from eca_server.chat.breakdown import breakdown
from eca_server.commands.command import Command, Situation
from eca_server.llm.backend import Request

__all__ = ["CONTEXT"]


async def _run(turn: Turn, situation: Situation) -> None:
    agent = await situation.make_agent(turn, "")
    if agent is None:
        return
    chat, origin = turn.chat, agent.model.origin
    request = Request(system=agent.system, messages=chat.told, tools=agent.toolbox.offered)
    used = chat.window.tokens(request, len(chat.history))
    found = breakdown(request, used, agent.model.capabilities.context)
    lines = [f"The context of {origin.provider}/{origin.model}: {_in_all(found)}", ""]
    lines += [f"- {each.emoji} {each.name}: {each.tokens:,}" for each in found.categories]
    if found.free_tokens is not None:
        lines.append(f"- {found.free_emoji} Free: {found.free_tokens:,}")
        lines += [
            "",
            f"A summary replaces the chat from {agent.compact_at:g} % on, or by `/compact`.",
        ]
    lines += ["", "This is the size of the next request. `/costs` adds up all requests so far."]
    turn.say("\n".join(lines), role="system")


def _in_all(found: ContextBreakdown) -> str:
    used, limit = found.used_tokens, found.context_limit
    if not limit:
        return f"about {used:,} tokens; how many it takes is unknown."
    return f"about {used:,} of {limit:,} tokens ({100 * used / limit:.0f} %)."


CONTEXT = Command(
    name="context",
    description="What fills the model's context, and how much of it is left.",
    run=_run,
    steering="between requests",
)
