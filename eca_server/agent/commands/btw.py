"""`/btw`: asks a side question in a fork of this chat."""

from __future__ import annotations

from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext, command


@command(
    "btw",
    CommandArgument(name="question", description="Question to ask.", required=True),
    steering="at once",
)
async def ask_aside(turn: Turn, context: CommandContext) -> None:
    """Ask a side question in a fork of this chat, without interrupting the task."""
    question = arguments_of(context.text)
    if context.chats.ask_aside is None:
        turn.say(
            "This client cannot show chats that the server starts. Send the question as a prompt.",
            role="system",
        )
    elif not question:
        turn.say("The question is missing. Send `/btw QUESTION`.", role="system")
    else:
        aside = await context.chats.ask_aside(context.chat, question)
        turn.say(f"Your question is answered in the chat {aside.title}.", role="system")
