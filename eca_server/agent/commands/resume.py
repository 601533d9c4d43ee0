"""`/resume`: lists the stored chats of this workspace, or adds one's messages to this chat."""

import attrs

from eca_protocol.messages import CommandArgument
from eca_server.agent.chat import Turn
from eca_server.agent.chat.memory import Memory, line_of
from eca_server.agent.chat.store.rows import StoredChat
from eca_server.agent.commands.command import CommandContext, command

MAX_LISTED = 20


@command(
    "resume",
    CommandArgument(name="number", description="Number of the chat in the list, or its id."),
)
async def resume_chat(turn: Turn, context: CommandContext) -> None:
    """List the stored chats of this workspace, or continue one in this chat."""
    memory = context.memory
    if memory is None:
        turn.fail("This session does not store chats, so there is none to resume.")
        return
    others = [each for each in await memory.latest(MAX_LISTED + 1) if each.id != context.chat.id]
    arguments = context.text.split()[1:]
    if arguments:
        numbered = {f"{number}": each.id for number, each in enumerate(others, 1)}
        stored = await _stored(numbered.get(arguments[0], arguments[0]), context, memory)
        if stored is not None:
            messages = [attrs.evolve(each.message, content_id=None) for each in stored.messages]
            turn.messages.extend(messages)
            count = len(messages)
            message = f"Added {count} messages to this chat. Send a prompt to continue."
            turn.say(message, role="system")
            return
    if memory.store.is_late:
        turn.fail("The stored chats cannot be read: the disk does not respond. Try again later.")
    elif not others:
        turn.say("This workspace has no other stored chats.", role="system")
    elif arguments:
        turn.fail(
            f"Expected a number from 1 to {len(others)} or a chat's id, got {arguments[0]!r}."
        )
    else:
        lines = [f"{number}. {line_of(each)}" for number, each in enumerate(others, 1)]
        lines.append("\nSend `/resume N` to continue one of them in this chat.")
        turn.say("\n".join(lines), role="system")


async def _stored(chat_id: str, context: CommandContext, memory: Memory) -> StoredChat | None:
    """Return a stored chat other than the turn's, if it has messages."""
    stored = None if chat_id == context.chat.id else await memory.store.load(chat_id)
    return stored if stored is not None and stored.messages else None
