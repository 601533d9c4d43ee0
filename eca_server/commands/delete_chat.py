"""`/delete-chat`: deletes this chat, or a stored one, once the user has confirmed it."""

from __future__ import annotations

from typing import Final

from eca_protocol.messages import CommandArgument
from eca_server.chat import Turn
from eca_server.commands.command import Command, Situation, arguments_of
from eca_server.tools.files import printable

__all__ = ["DELETE_CHAT"]

YES: Final = "yes"
_DELETE: Final = "Delete it"
_KEEP: Final = "Keep it"


async def _run(turn: Turn, situation: Situation) -> None:
    words = arguments_of(situation.text).split()
    is_confirmed = words[-1:] == [YES]
    named = " ".join(words[:-1] if is_confirmed else words)
    chat_id = named or turn.chat.id
    found = await situation.find_title(chat_id) if named else turn.chat.title or chat_id
    if found is None:
        turn.fail(f"There is no chat {printable(named[:100])!r}; `/chats` lists them with ids.")
        return
    title = printable(found)
    if not is_confirmed and situation.asks_user:
        turn.progress("Waiting for your answer")
        question = f"Delete the chat {title}? Its messages cannot be restored."
        is_confirmed = await situation.ask_user(turn.chat, question, (_DELETE, _KEEP)) == _DELETE
        if not is_confirmed:
            turn.say("Nothing was deleted.", role="system")
            return
    if not is_confirmed:
        command = " ".join(filter(None, ["/delete-chat", printable(named), YES]))
        turn.say(f"Send `{command}` to delete the chat {title}.", role="system")
    elif chat_id == turn.chat.id:
        turn.finish()
        situation.delete_chat(chat_id)
    else:
        situation.delete_chat(chat_id)
        turn.say(f"The chat {title} was deleted.", role="system")


DELETE_CHAT = Command(
    name="delete-chat",
    description="Delete this chat, or another one, after a question.",
    run=_run,
    arguments=(
        CommandArgument(name="id", description="Of another chat, as `/chats` lists it."),
        CommandArgument(name=YES, description=f"The word `{YES}`: there is no question."),
    ),
)
