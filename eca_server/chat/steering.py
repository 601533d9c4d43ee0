"""What the user says to a turn that runs: texts for its next request, and commands.

The rules it keeps: commands run between two requests, in the order in which they came; one that
fails does not end the turn.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from eca_protocol.messages import ChatTextContent
from eca_server.chat.turn import Turn
from eca_server.llm.history import Message, TextPart, ToolCallPart, ToolResultPart

if TYPE_CHECKING:
    from eca_server.chat.chat import Chat
    from eca_server.chat.compaction import RoomKeeper

__all__ = ["said_so_far", "take_steers"]

_log = logging.getLogger("eca_server.chat")


async def take_steers(turn: Turn, room: RoomKeeper) -> bool:
    """Add what the user said meanwhile to the messages, with its echo, and run the commands.

    Returns:
        Whether the model is to be told anything.
    """
    is_told = False
    for _ in range(len(turn.steers)):
        if not turn.steers:
            break  # taken back while a command ran
        steer = turn.steers.pop(0)
        turn.emit("user", ChatTextContent(text=steer.text, content_id=steer.content_id))
        if steer.command is not None:
            chat, failed = turn.chat, turn.failed
            chat.unheard[steer.content_id] = len(chat.history) + len(turn.messages)
            try:
                await steer.command(turn, room)
            except Exception:  # noqa: BLE001 - a command's fault must not end the turn
                _log.exception("a command in chat %s failed", chat.id)
                turn.say("This command failed; the server's log says more.", role="system")
            turn.failed = failed
            continue
        is_told = True
        said = TextPart(steer.text)
        parts = steer.parts or (said,)
        shown = None if parts[-1] == said else steer.text
        turn.messages.append(
            Message(role="user", parts=parts, content_id=steer.content_id, shown=shown)
        )
    return is_told


def said_so_far(chat: Chat) -> Sequence[Message]:
    """Return a chat's messages with those of the turn that runs, up to a call without result."""
    turn = chat.running_turn
    running = [] if turn is None else turn.messages
    results = {
        part.call_id
        for message in running
        for part in message.parts
        if isinstance(part, ToolResultPart)
    }
    said = list(chat.history)
    for message in running:
        calls = (part.id for part in message.parts if isinstance(part, ToolCallPart))
        if not results.issuperset(calls):
            break
        said.append(message)
    return said
