"""`/fork`: a second chat that begins with all that was said in this one."""

from __future__ import annotations

import attrs

from eca_server.chat import Turn
from eca_server.chat.title import title_of_fork
from eca_server.commands.command import Command, Situation

__all__ = ["FORK"]


async def _run(turn: Turn, situation: Situation) -> None:
    chat = turn.chat
    if situation.begin_chat is None:
        turn.fail("This editor shows no chats but those it begins itself.")
    elif not chat.history:
        turn.fail("There is nothing to fork: nothing was said in this chat.")
    else:
        title = title_of_fork(chat.title)
        settings = attrs.evolve(chat.settings, trust=False, is_named_by_user=True)
        await situation.begin_chat(tuple(chat.history), title, settings)
        turn.say(f"This chat goes on as another one, too: {title}.", role="system")


FORK = Command(
    name="fork",
    description="Begin another chat with all that was said in this one.",
    run=_run,
)
