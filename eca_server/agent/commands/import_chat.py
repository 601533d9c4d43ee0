"""`/import`: imports a chat from a file of `/export` of this or of the upstream server.

Rule: an imported chat is a new one and replaces none; if the client shows only chats that it opens,
the messages are appended to the current chat.
"""

from __future__ import annotations

from typing import Final

from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.chat.exchange.reading import BadExport, ImportedChat, read_export
from eca_server.agent.chat.history import appendable
from eca_server.agent.chat.store.rows import ChatSettings
from eca_server.agent.commands.command import CommandContext, command
from eca_server.agent.tools.files import checkpoint, in_thread
from eca_server.agent.tools.output import counted
from eca_server.agent.tools.tool import ToolError
from eca_server.workspace.boundary import Workspace
from eca_server.workspace.reading import read_file

MAX_BYTES: Final = 32 * 1024 * 1024
"""Maximum size of a file, in bytes."""


@command("import", CommandArgument(name="path", description="Path of the file.", required=True))
async def import_file(turn: Turn, context: CommandContext) -> None:
    """Import a chat from a file that `/export` wrote."""
    path = arguments_of(context.text).strip("\"'")
    if not path:
        turn.fail("The path is missing. Send `/import PATH`.")
        return
    try:
        imported = await in_thread(lambda: _read(context.workspace, path))
    except ToolError as error:
        turn.fail(f"The chat was not imported: {error}")
        return
    message = f"Imported {len(imported.messages)} messages."
    if context.chats.begin is None:
        added = appendable(imported.messages)
        turn.messages += added
        count = counted(len(added), "message")
        message = f"Added {count} to this chat. Send a prompt to continue."
    else:
        settings = ChatSettings(
            model=imported.model,
            variant=imported.variant,
            is_named_by_user=imported.is_named_by_user,
            flags=imported.flags,
        )
        await context.chats.begin(imported.messages, imported.title, settings)
    turn.report(" ".join([message, *_notes(imported, context)]))


def _read(workspace: Workspace, path: str) -> ImportedChat:
    """Read the chat in a file; runs in a worker thread.

    Raises:
        ToolError: the file has no valid chat.
        FileError: the file cannot be used.
        OSError: the file cannot be read.
    """
    data = read_file(workspace.locate(path), limit=MAX_BYTES, checkpoint=checkpoint).data
    try:
        imported = read_export(data.decode(), checkpoint=checkpoint)
    except UnicodeDecodeError as error:
        raise ToolError(
            f"expected UTF-8 text, got an invalid byte at position {error.start}."
        ) from None
    except BadExport as error:
        raise ToolError(f"{error}.") from None
    if not imported.messages:
        raise ToolError("the file has no messages.")
    return imported


def _notes(imported: ImportedChat, context: CommandContext) -> list[str]:
    notes = []
    if imported.skipped:
        kinds = ", ".join(f"{count} {role}" for role, count in imported.skipped.items())
        notes.append(f"Left out, since only the server that wrote them can read them: {kinds}.")
    if imported.model is not None and imported.model not in context.models.names:
        notes.append(f"Its model, {imported.model}, is not available here.")
    return notes
