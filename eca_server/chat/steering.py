"""Messages of the user to a running turn: texts for its next request, and commands.

Rules: commands run between two requests, in the order in which they came; a command that fails does
not end the turn.
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
    from eca_server.chat.compaction import Compactor

__all__ = ["messages_so_far", "take_steers"]

_log = logging.getLogger("eca_server.chat")


async def take_steers(turn: Turn, compactor: Compactor) -> bool:
    """Add the texts of steers to the messages, with their echo, and run the commands.

    Returns:
        True if there is a new text for the model.
    """
    has_new_text = False
    for _ in range(len(turn.steers)):
        if not turn.steers:
            break  # taken back while a command ran
        steer = turn.steers.pop(0)
        turn.emit("user", ChatTextContent(text=steer.text, content_id=steer.content_id))
        if steer.command is not None:
            chat, failed = turn.chat, turn.failed
            place = len(chat.history) + len(turn.messages)
            chat.history.unrecorded_prompts[steer.content_id] = place
            try:
                await steer.command(turn, compactor)
            except Exception:  # noqa: BLE001 - a command's error must not end the turn
                _log.exception("a command in chat %s failed", chat.id)
                turn.say("This command failed. See the server's log for details.", role="system")
            turn.failed = failed
            continue
        has_new_text = True
        text_part = TextPart(steer.text)
        parts = steer.parts or (text_part,)
        shown = None if parts[-1] == text_part else steer.text
        turn.messages.append(
            Message(role="user", parts=parts, content_id=steer.content_id, shown=shown)
        )
    return has_new_text


def messages_so_far(chat: Chat) -> Sequence[Message]:
    """Return a chat's messages with those of the turn that runs, up to a call without result."""
    turn = chat.running_turn
    running = [] if turn is None else turn.messages
    results = {
        part.call_id
        for message in running
        for part in message.parts
        if isinstance(part, ToolResultPart)
    }
    messages = list(chat.history)
    for message in running:
        calls = (part.id for part in message.parts if isinstance(part, ToolCallPart))
        if not results.issuperset(calls):
            break
        messages.append(message)
    return messages
