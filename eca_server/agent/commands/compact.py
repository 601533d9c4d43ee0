"""`/compact`: replaces the chat's messages in the model's context by a summary."""

from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.chat.compaction import NO_PAST, has_past
from eca_server.agent.chat.reply import limit_of
from eca_server.agent.commands.command import CommandContext, command
from eca_server.models.backend import Request


@command(
    "compact",
    CommandArgument(name="instructions", description="Instructions for the summary."),
    asks_model=True,
    steering="between requests",
)
async def compact_chat(turn: Turn, context: CommandContext) -> None:
    """Summarize this chat to free space in the model's context."""
    if not has_past(turn):
        turn.say(NO_PAST, role="system")
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
        turn.say(summary, role="system")
