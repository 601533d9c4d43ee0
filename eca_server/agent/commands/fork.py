"""`/fork`: creates a new chat with the messages of this one."""

from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext, command


@command("fork")
async def fork_chat(turn: Turn, context: CommandContext) -> None:
    """Create a new chat with the messages of this one."""
    chat = context.chat
    if context.chats.fork is None:
        turn.fail("This editor cannot show chats that the server starts.")
    elif not chat.history:
        turn.fail("There is nothing to fork: this chat has no messages.")
    else:
        forked = await context.chats.fork(chat, tuple(chat.history))
        turn.say(f"This chat was forked to {forked.title}.", role="system")
