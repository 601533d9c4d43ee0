"""`/resume`: the stored chats of this workspace, and one of them brought into this chat."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from eca_protocol.messages import CommandArgument
from eca_server.chat import Turn
from eca_server.chat.memory import line_of
from eca_server.chat.store import ChatSummary
from eca_server.commands.command import Command, Situation

__all__ = ["RESUME"]

LISTED = 20


async def _run(turn: Turn, situation: Situation) -> None:
    memory = situation.memory
    if memory is None:
        turn.fail("Chats are not stored here.")
        return
    others = [each for each in await memory.latest(LISTED + 1) if each.id != turn.chat.id]
    wanted = turn.prompt.text.split()[1:]
    if not others:
        turn.say("There is no other chat of this workspace.", role="system")
    elif not wanted:
        lines = [f"{number}. {line_of(each)}" for number, each in enumerate(others, 1)]
        lines.append("\n`/resume N` goes on with one of them here.")
        turn.say("\n".join(lines), role="system")
    elif (chosen := _chosen(wanted[0], others)) is not None:
        stored = await memory.load(chosen.id)
        kept = () if stored is None else stored.messages
        messages = [attrs.evolve(each.message, content_id=None) for each in kept]
        turn.messages.extend(messages)
        count = len(messages)
        turn.say(f"This chat now knows the {count} messages of that one. Go on.", role="system")
    else:
        turn.fail(f"Expected a number from 1 to {len(others)} or a chat's id, got {wanted[0]!r}.")


def _chosen(wanted: str, others: Sequence[ChatSummary]) -> ChatSummary | None:
    numbered = {f"{number}": each for number, each in enumerate(others, 1)}
    return numbered.get(wanted) or next((each for each in others if each.id == wanted), None)


RESUME = Command(
    name="resume",
    description="List the stored chats of this workspace; with a number, go on with one here.",
    run=_run,
    arguments=(CommandArgument(name="number", description="Of the chat in that list, or its id."),),
)
