"""`/chats`: lists the stored chats of all workspaces."""

from typing import Final

from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.chat.memory import line_of
from eca_server.agent.commands.command import CommandContext, command
from eca_server.agent.tools.files import printable

MAX_LISTED: Final = 50
_MAX_SEARCHED: Final = 5_000


@command(
    "chats",
    CommandArgument(name="title", description="Title to search for, or a part of it."),
    steering="between requests",
)
async def list_chats(turn: Turn, context: CommandContext) -> None:
    """List the stored chats of all workspaces, or those with a title."""
    memory, title_part = context.memory, arguments_of(context.text)
    if memory is None:
        turn.fail("This session does not store chats, so there are none to list.")
        return
    stored = await memory.latest(_MAX_SEARCHED if title_part else MAX_LISTED + 1, everywhere=True)
    if memory.store.is_late:
        turn.fail("The stored chats cannot be read: the disk does not respond. Try again later.")
        return
    matches = [
        each for each in stored if title_part.lower() in (each.title or each.beginning).lower()
    ]
    if not matches:
        turn.say(
            f"No stored chat has {title_part[:100]!r} in its title. Send `/chats` to list all."
            if title_part
            else "There are no stored chats.",
            role="system",
        )
        return
    shown = matches[:MAX_LISTED]
    lines = [f"- {printable(line_of(each))} `{printable(each.id)}`" for each in shown]
    if len(matches) > MAX_LISTED:
        lines.append("- and older ones: send `/chats TITLE` to find them")
    listed = "\n".join(lines)
    turn.say(
        f"Chats of all workspaces:\n\n{listed}\n\n"
        "Send `/resume ID` to continue one of them in this chat.",
        role="system",
    )
