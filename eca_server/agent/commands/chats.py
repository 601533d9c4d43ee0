"""The commands for chats: `/chats`, `/resume`, `/fork`, `/delete-chat`, `/btw`."""

from __future__ import annotations

from typing import Final

from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.chat.history import appendable
from eca_server.agent.chat.memory import Memory, line_of
from eca_server.agent.chat.store.rows import StoredChat
from eca_server.agent.commands.command import CommandContext, command
from eca_server.agent.tools.files import printable
from eca_server.agent.tools.output import counted

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
        turn.report(
            f"No stored chat has {title_part[:100]!r} in its title. Send `/chats` to list all."
            if title_part
            else "There are no stored chats."
        )
        return
    shown = matches[:MAX_LISTED]
    lines = [f"- {printable(line_of(each))} `{printable(each.id)}`" for each in shown]
    if len(matches) > MAX_LISTED:
        lines.append("- and older ones: send `/chats TITLE` to find them")
    listed = "\n".join(lines)
    turn.report(
        f"Chats of all workspaces:\n\n{listed}\n\n"
        "Send `/resume ID` to continue one of them in this chat."
    )


MAX_RESUMABLE = 20


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
    others = [each for each in await memory.latest(MAX_RESUMABLE + 1) if each.id != context.chat.id]
    arguments = context.text.split()[1:]
    if arguments:
        numbered = {f"{number}": each.id for number, each in enumerate(others, 1)}
        stored = await _stored(numbered.get(arguments[0], arguments[0]), context, memory)
        if stored is not None:
            messages = appendable(stored.messages)
            chat = context.chat
            chat.set(context={} if chat.history else stored.settings.context)
            turn.messages.extend(messages)
            count, show = counted(len(messages), "message"), context.chats.show_after_turn
            added = f"Added {count} to this chat{'' if show else ' (not shown again)'}."
            turn.report(f"{added} Send a prompt to continue.")
            if show is not None:
                show(context.chat)
            titling = context.chat.titling
            if titling.title is None and stored.title is not None:
                titling.rename(stored.title)
                titling.announce()
            return
    if memory.store.is_late:
        turn.fail("The stored chats cannot be read: the disk does not respond. Try again later.")
    elif not others:
        turn.report("This workspace has no other stored chats.")
    elif arguments:
        turn.fail(
            f"Expected a number from 1 to {len(others)} or a chat's id, got {arguments[0]!r}."
        )
    else:
        lines = [f"{number}. {line_of(each)}" for number, each in enumerate(others, 1)]
        lines.append("\nSend `/resume N` to continue one of them in this chat.")
        turn.report("\n".join(lines))


async def _stored(chat_id: str, context: CommandContext, memory: Memory) -> StoredChat | None:
    """Return a stored chat other than the turn's, if it has messages."""
    stored = None if chat_id == context.chat.id else await memory.store.load(chat_id)
    return stored if stored is not None and stored.messages else None


@command("fork")
async def fork_chat(turn: Turn, context: CommandContext) -> None:
    """Create a new chat with the messages of this one."""
    chat = context.chat
    if context.chats.fork is None:
        turn.fail(
            "This client cannot show chats that the server starts. Send `/export` here, and "
            "`/import` in a new chat."
        )
    elif not chat.history:
        turn.fail("There is nothing to fork: this chat has no messages.")
    else:
        forked = await context.chats.fork(chat, tuple(chat.history))
        turn.report(f"This chat was forked to {forked.title}.")


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
    title_found = await context.chats.find_title(chat_id) if chat_name else context.chat.title or ""
    if title_found is None:
        shown = printable(chat_name[:100])
        turn.fail(f"There is no chat {shown!r}. Send `/chats` to list all chats with their ids.")
        return
    title = f"the chat {printable(title_found)}" if title_found else "this chat"
    if not is_confirmed and context.ask_user is not None:
        turn.progress("Waiting for your answer")
        question = f"Delete {title}? This cannot be undone."
        is_confirmed = await context.ask_user(context.chat, question, (_DELETE, _KEEP)) == _DELETE
        if not is_confirmed:
            turn.report("The chat was not deleted.")
            return
    if not is_confirmed:
        command = " ".join(filter(None, ["/delete-chat", printable(chat_name), YES]))
        turn.report(f"Send `{command}` to delete {title}.")
    elif chat_id == context.chat.id:
        turn.finish()
        context.chats.delete(chat_id)
    else:
        context.chats.delete(chat_id)
        turn.report(f"{title[0].upper()}{title[1:]} was deleted.")


@command(
    "btw",
    CommandArgument(name="question", description="Question to ask.", required=True),
    steering="at once",
)
async def ask_aside(turn: Turn, context: CommandContext) -> None:
    """Ask a side question in a fork of this chat, without interrupting the task."""
    question = arguments_of(context.text)
    if context.chats.ask_aside is None:
        turn.report(
            "This client cannot show chats that the server starts. Send the question as a prompt."
        )
    elif not question:
        turn.report("The question is missing. Send `/btw QUESTION`.")
    else:
        aside = await context.chats.ask_aside(context.chat, question)
        turn.report(f"Your question is answered in the chat {aside.title}.")
