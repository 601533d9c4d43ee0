"""`/delete-chat`: deletes this chat, or a stored one, after the user's confirmation."""

from typing import Final

from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext, command
from eca_server.agent.tools.files import printable

YES: Final = "yes"
_DELETE: Final = "Delete it"
_KEEP: Final = "Keep it"


@command(
    "delete-chat",
    CommandArgument(name="id", description="Id of another chat, as listed by `/chats`."),
    CommandArgument(name=YES, description=f"`{YES}` deletes without a confirmation."),
)
async def delete_stored_chat(turn: Turn, context: CommandContext) -> None:
    """Delete this chat or another one, after a confirmation."""
    words = arguments_of(context.text).split()
    is_confirmed = words[-1:] == [YES]
    chat_name = " ".join(words[:-1] if is_confirmed else words)
    chat_id = chat_name or context.chat.id
    title_found = (
        await context.chats.find_title(chat_id) if chat_name else context.chat.title or chat_id
    )
    if title_found is None:
        shown = printable(chat_name[:100])
        turn.fail(f"There is no chat {shown!r}. Send `/chats` to list all chats with their ids.")
        return
    title = printable(title_found)
    if not is_confirmed and context.ask_user is not None:
        turn.progress("Waiting for your answer")
        question = f"Delete the chat {title}? This cannot be undone."
        is_confirmed = await context.ask_user(context.chat, question, (_DELETE, _KEEP)) == _DELETE
        if not is_confirmed:
            turn.say("The chat was not deleted.", role="system")
            return
    if not is_confirmed:
        command = " ".join(filter(None, ["/delete-chat", printable(chat_name), YES]))
        turn.say(f"Send `{command}` to delete the chat {title}.", role="system")
    elif chat_id == context.chat.id:
        turn.finish()
        context.chats.delete(chat_id)
    else:
        context.chats.delete(chat_id)
        turn.say(f"The chat {title} was deleted.", role="system")
