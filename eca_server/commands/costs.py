"""`/costs`: what the chat has taken so far."""

from __future__ import annotations

from eca_server.chat import Turn
from eca_server.chat.usage import money
from eca_server.commands.command import Command, Situation

__all__ = ["COSTS"]


async def _run(turn: Turn, _: Situation) -> None:
    usage = turn.chat.usage
    lines = [f"Tokens of this chat: {usage.tokens}"]
    last, session = money(usage.last_cost), money(usage.cost)
    lines.append(f"Last message: {f'${last}' if last else 'cost unknown'}")
    lines.append(f"This chat: {f'${session}' if session else 'cost unknown'}")
    turn.say("\n".join(lines), role="system")


COSTS = Command(name="costs", description="Tokens and costs of this chat so far.", run=_run)
