"""`/btw`: a question beside the task, in a chat of its own that begins with this one."""

from __future__ import annotations

from eca_protocol.messages import CommandArgument
from eca_server.chat import Turn
from eca_server.commands.command import Command, Situation, arguments_of

__all__ = ["BTW", "ask_aside"]


async def ask_aside(turn: Turn, situation: Situation) -> None:
    """Ask the question in a copy of the turn's chat; the turn goes on."""
    question = arguments_of(situation.text)
    if situation.ask_aside is None:
        turn.say("This editor shows no chats but those it begins itself.", role="system")
    elif not question:
        turn.say("Expected a question: `/btw QUESTION`.", role="system")
    else:
        asked = await situation.ask_aside(turn.chat, question)
        turn.say(f"Asked in the chat {asked.title}.", role="system")


BTW = Command(
    name="btw",
    description="Ask a question beside the task: a new chat begins with this one and answers it.",
    run=ask_aside,
    steering="at once",
    arguments=(CommandArgument(name="question", description="The question.", required=True),),
)
