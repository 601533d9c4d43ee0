"""`/fork`: a second chat that begins with all that was said in this one."""

from __future__ import annotations

from eca_server.chat import Turn
from eca_server.commands.command import Command, Situation

__all__ = ["FORK"]


async def _run(turn: Turn, situation: Situation) -> None:
    chat = turn.chat
    if situation.fork_chat is None:
        turn.fail("This editor shows no chats but those it begins itself.")
    elif not chat.history:
        turn.fail("There is nothing to fork: nothing was said in this chat.")
    else:
        forked = await situation.fork_chat(chat, tuple(chat.history))
        turn.say(f"This chat was forked to {forked.title}.", role="system")


FORK = Command(
    name="fork",
    description="Begin another chat with all that was said in this one.",
    run=_run,
)
