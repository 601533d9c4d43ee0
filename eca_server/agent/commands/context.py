"""`/context`: shows the use of the model's context window."""

from eca_protocol.messages import ContextBreakdown
from eca_server.agent.chat import Turn
from eca_server.agent.chat.breakdown import breakdown
from eca_server.agent.commands.command import CommandContext, command
from eca_server.models.backend import Request


@command("context", steering="between requests")
async def show_context(turn: Turn, context: CommandContext) -> None:
    """Show the use of the model's context window."""
    agent = await context.make_agent(turn, "")
    if agent is None:
        return
    history, origin = context.chat.history, agent.model.origin
    request = Request(
        system=agent.system, messages=history.model_context, tools=agent.toolbox.offered
    )
    used = history.tokens(request)
    size = breakdown(request, used, agent.model.capabilities.context)
    lines = [f"Context window of {origin.provider}/{origin.model}: {_summary(size)}", ""]
    lines += [f"- {each.emoji} {each.name}: {each.tokens:,}" for each in size.categories]
    if size.free_tokens is not None:
        lines.append(f"- {size.free_emoji} Free: {size.free_tokens:,}")
        lines += [
            "",
            f"The chat is compacted at {agent.compact_at:g} %. Send `/compact` to do it now.",
        ]
    lines += ["", "This is the size of the next request. `/costs` shows the sum of all requests."]
    turn.say("\n".join(lines), role="system")


def _summary(size: ContextBreakdown) -> str:
    used, limit = size.used_tokens, size.context_limit
    if not limit:
        return f"about {used:,} tokens used; the limit is unknown."
    return f"about {used:,} of {limit:,} tokens used ({100 * used / limit:.0f} %)."
