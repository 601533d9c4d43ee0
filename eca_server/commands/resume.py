"""`/resume`: the stored chats of this workspace, and one of them brought into this chat."""

from __future__ import annotations

import attrs

from eca_protocol.messages import CommandArgument
from eca_server.chat import Turn
from eca_server.chat.memory import Memory, line_of
from eca_server.chat.store import StoredChat
from eca_server.commands.command import Command, Situation

__all__ = ["RESUME"]

LISTED = 20


async def _run(turn: Turn, situation: Situation) -> None:
    memory = situation.memory
    if memory is None:
        turn.fail("Chats are not stored here.")
        return
    others = [each for each in await memory.latest(LISTED + 1) if each.id != turn.chat.id]
    wanted = situation.text.split()[1:]
    if wanted:
        numbered = {f"{number}": each.id for number, each in enumerate(others, 1)}
        stored = await _stored(numbered.get(wanted[0], wanted[0]), turn, memory)
        if stored is not None:
            messages = [attrs.evolve(each.message, content_id=None) for each in stored.messages]
            turn.messages.extend(messages)
            count = len(messages)
            told = f"This chat now knows the {count} messages of that one. Go on."
            turn.say(told, role="system")
            return
    if memory.is_late:
        turn.fail("The stored chats cannot be read now. Try again once their disk answers.")
    elif not others:
        turn.say("There is no other chat of this workspace.", role="system")
    elif wanted:
        turn.fail(f"Expected a number from 1 to {len(others)} or a chat's id, got {wanted[0]!r}.")
    else:
        lines = [f"{number}. {line_of(each)}" for number, each in enumerate(others, 1)]
        lines.append("\n`/resume N` goes on with one of them here.")
        turn.say("\n".join(lines), role="system")


async def _stored(chat_id: str, turn: Turn, memory: Memory) -> StoredChat | None:
    """Another chat in which something was said, however old."""
    stored = None if chat_id == turn.chat.id else await memory.load(chat_id)
    return stored if stored is not None and stored.messages else None


RESUME = Command(
    name="resume",
    description="List the stored chats of this workspace; with a number, go on with one here.",
    run=_run,
    arguments=(CommandArgument(name="number", description="Of the chat in that list, or its id."),),
)
