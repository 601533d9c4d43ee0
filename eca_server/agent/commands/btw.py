"""`/btw`: asks a side question in a fork of this chat."""

from __future__ import annotations

from eca_protocol.messages import CommandArgument
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import Command, CommandContext, arguments_of


async def ask_aside(turn: Turn, context: CommandContext) -> None:
    """Ask the question in a fork of the turn's chat; the turn continues."""
    question = arguments_of(context.text)
    if context.chats.ask_aside is None:
        turn.say("This editor cannot show chats that the server starts.", role="system")
    elif not question:
        turn.say("The question is missing. Send `/btw QUESTION`.", role="system")
    else:
        aside = await context.chats.ask_aside(context.chat, question)
        turn.say(f"Your question is answered in the chat {aside.title}.", role="system")


BTW = Command(
    name="btw",
    description="Ask a side question in a fork of this chat, without interrupting the task.",
    run=ask_aside,
    steering="at once",
    arguments=(CommandArgument(name="question", description="Question to ask.", required=True),),
)
