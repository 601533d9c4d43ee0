"""Messages of the user to a running turn: texts for its next request, and commands.

Rules: commands run between two requests, in the order in which they came; a command that fails does
not end the turn.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from eca_protocol.messages import ChatTextContent
from eca_server.agent.chat.turn import Turn
from eca_server.models.history import Message, TextPart

_log = logging.getLogger("eca_server.agent.chat")


async def take_steers(turn: Turn, compact: Callable[[str], Awaitable[None]]) -> bool:
    """Add the texts of the present steers to the messages, with echo, and run the commands.

    `compact`: compacts the chat, with the user's wish for the summary.

    Returns:
        True if there is a new text for the model.
    """
    has_new_text = False
    for steer in tuple(turn.steers):  # hooks have not checked those that come meanwhile
        if steer not in turn.steers:
            continue  # taken back while a command ran
        turn.steers.remove(steer)
        turn.emit("user", ChatTextContent(text=steer.text, content_id=steer.content_id))
        if steer.command is not None:
            history, failed = turn.outlet.history, turn.failed
            history.unrecorded_prompts[steer.content_id] = len(history) + len(turn.messages)
            try:
                await steer.command(turn, compact)
            except Exception:  # noqa: BLE001 - a command's error must not end the turn
                _log.exception("a command in chat %s failed", turn.outlet.id)
                turn.report("This command failed. See the server's log for details.")
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
