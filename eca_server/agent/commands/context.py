"""The size of a chat: `/context` and `/costs` show it, `/compact` reduces it."""

from __future__ import annotations

from eca_protocol.messages import CommandArgument, ContextBreakdown
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.chat.breakdown import breakdown
from eca_server.agent.chat.compaction import NO_PAST, has_past
from eca_server.agent.chat.reply import limit_of
from eca_server.agent.chat.usage import money
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
    turn.report("\n".join(lines))


def _summary(size: ContextBreakdown) -> str:
    used, limit = size.used_tokens, size.context_limit
    if not limit:
        return f"about {used:,} tokens used; the limit is unknown."
    return f"about {used:,} of {limit:,} tokens used ({100 * used / limit:.0f} %)."


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
    turn.report("\n".join(lines))


@command(
    "compact",
    CommandArgument(name="instructions", description="Instructions for the summary."),
    asks_model=True,
    steering="between requests",
)
async def compact_chat(turn: Turn, context: CommandContext) -> None:
    """Summarize this chat to free space in the model's context."""
    if not has_past(turn):
        turn.report(NO_PAST)
        return
    wish = arguments_of(context.text)
    agent = await context.make_agent(turn, wish)
    if agent is None:
        return
    turn.limit = limit_of(agent.model)
    agent.record_request(
        turn, Request(system=agent.system, messages=(), tools=agent.toolbox.offered)
    )
    summary = await agent.compactor(turn).summarize(None, wish)
    if summary is None:
        turn.failed = True
    else:
        turn.report(summary)
