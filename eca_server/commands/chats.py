"""`/chats`: the stored chats of all workspaces."""

from __future__ import annotations

from typing import Final

from eca_protocol.messages import CommandArgument
from eca_server.chat import Turn
from eca_server.chat.memory import line_of
from eca_server.commands.command import Command, Situation, arguments_of
from eca_server.tools.files import printable

__all__ = ["CHATS"]

MOST_LISTED: Final = 50
_MOST_SEARCHED: Final = 5_000


async def _run(turn: Turn, situation: Situation) -> None:
    memory, wanted = situation.memory, arguments_of(situation.text)
    if memory is None:
        turn.fail("Chats are not stored here.")
        return
    stored = await memory.latest(_MOST_SEARCHED if wanted else MOST_LISTED + 1, everywhere=True)
    if memory.is_late:
        turn.fail("The stored chats cannot be read now. Try again once their disk answers.")
        return
    found = [each for each in stored if wanted.lower() in (each.title or each.beginning).lower()]
    if not found:
        turn.say(
            f"No stored chat has {wanted[:100]!r} in its title."
            if wanted
            else "No chat is stored.",
            role="system",
        )
        return
    lines = [f"- {printable(line_of(each))} `{printable(each.id)}`" for each in found[:MOST_LISTED]]
    if len(found) > MOST_LISTED:
        lines.append("- and older ones; `/chats TITLE` finds them")
    listed = "\n".join(lines)
    turn.say(
        f"Chats of all workspaces:\n\n{listed}\n\n`/resume ID` goes on with one of them here.",
        role="system",
    )


CHATS = Command(
    name="chats",
    description="List the stored chats of all workspaces; with a title, those that have it.",
    run=_run,
    steering="between requests",
    arguments=(CommandArgument(name="title", description="Or a part of it."),),
)
