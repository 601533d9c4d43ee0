"""`/import`: a chat from a file that `/export` wrote, here or in upstream's server.

The rules it keeps: an imported chat is a new one and replaces none; clients that know no chats but
those they open have what was said in it brought into theirs.
"""

from __future__ import annotations

from typing import Final

import attrs

from eca_protocol.messages import CommandArgument
from eca_server.chat import Turn
from eca_server.chat.exchange.reading import BadExport, ImportedChat, read_export
from eca_server.chat.store import ChatSettings
from eca_server.commands.command import Command, Situation, arguments_of
from eca_server.tools.files import checkpoint, in_thread
from eca_server.tools.tool import ToolError
from eca_server.workspace import Workspace, read_file

__all__ = ["IMPORT"]

LARGEST: Final = 32 * 1024 * 1024
"""Bytes of a file that is read."""


async def _run(turn: Turn, situation: Situation) -> None:
    path = arguments_of(situation.text).strip("\"'")
    if not path:
        turn.fail("Expected the path of a file: `/import PATH`.")
        return
    try:
        imported = await in_thread(lambda: _read(situation.workspace, path))
    except ToolError as fault:
        turn.fail(f"No chat is imported: {fault}")
        return
    count = len(imported.messages)
    told = f"Imported {count} messages."
    if situation.begin_chat is None:
        turn.messages += [attrs.evolve(each, content_id=None) for each in imported.messages]
        told = f"This chat now knows the {count} messages of that one. Go on."
    else:
        settings = ChatSettings(
            model=imported.model,
            variant=imported.variant,
            is_named_by_user=imported.is_named_by_user,
            flags=imported.flags,
        )
        await situation.begin_chat(imported.messages, imported.title, settings)
    turn.say(" ".join([told, *_notes(imported, situation)]), role="system")


def _read(workspace: Workspace, path: str) -> ImportedChat:
    """For a thread: the chat in a file.

    Raises:
        ToolError: there is none that can be read.
        FileError: the file cannot be used.
        OSError: it cannot be read.
    """
    data = read_file(workspace.locate(path), limit=LARGEST, checkpoint=checkpoint).data
    try:
        imported = read_export(data.decode(), checkpoint=checkpoint)
    except UnicodeDecodeError as fault:
        raise ToolError(
            f"expected text in UTF-8, got something else at byte {fault.start}."
        ) from None
    except BadExport as fault:
        raise ToolError(f"{fault}.") from None
    if not imported.messages:
        raise ToolError("there is no message in it.")
    return imported


def _notes(imported: ImportedChat, situation: Situation) -> list[str]:
    notes = []
    if imported.left_out:
        kinds = ", ".join(f"{count} {role}" for role, count in imported.left_out.items())
        notes.append(f"Left out, for only their own server reads them: {kinds}.")
    if imported.model is not None and imported.model not in situation.models.names:
        notes.append(f"Its model, {imported.model}, is not available here.")
    return notes


IMPORT = Command(
    name="import",
    description="Go on with a chat from a file that `/export` wrote, here or elsewhere.",
    run=_run,
    arguments=(CommandArgument(name="path", description="Of the file.", required=True),),
)
