"""`/costs`: shows the tokens and the costs of the chat so far."""

from eca_server.agent.chat import Turn
from eca_server.agent.chat.usage import money
from eca_server.agent.commands.command import CommandContext, command

_WHY = (
    "Each request sends the whole chat again, so the sum grows faster than the chat. `/context` "
    "shows the size of the next request."
)


@command("costs", steering="between requests")
async def show_costs(turn: Turn, context: CommandContext) -> None:
    """Show the tokens and costs of this chat."""
    usage = context.chat.usage
    last, session = money(usage.last_cost), money(usage.cost)
    lines = [
        f"Tokens of all requests of this chat: {usage.tokens:,}",
        f"Last message: {f'${last}' if last else 'cost unknown'}",
        f"This chat: {f'${session}' if session else 'cost unknown'}",
        "",
        _WHY,
    ]
    turn.say("\n".join(lines), role="system")
