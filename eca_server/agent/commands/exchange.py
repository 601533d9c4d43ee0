"""`/export` writes the chat to a file, `/import` reads one, of this or of the upstream server.

Rules: no file is ever replaced, only the user can read the new one, and it contains no key of the
server. An imported chat is a new one and replaces none; if the client shows only chats that it
opens, the messages are appended to the current chat.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from eca_protocol import json
from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.chat.exchange import edn
from eca_server.agent.chat.exchange.reading import BadExport, ImportedChat, read_export
from eca_server.agent.chat.exchange.written import Hide, envelope, markdown
from eca_server.agent.chat.flags import Flag
from eca_server.agent.chat.history import appendable
from eca_server.agent.chat.store.rows import ChatSettings
from eca_server.agent.commands.command import CommandContext, command, mask_keys
from eca_server.agent.tools.files import change_in_thread, checkpoint, in_thread, printable
from eca_server.agent.tools.output import counted
from eca_server.agent.tools.tool import ToolError
from eca_server.config.own_secrets import own_secrets, secrets_in_command
from eca_server.models.history import Message
from eca_server.secret import Secret
from eca_server.version import version
from eca_server.workspace.boundary import Place, Workspace
from eca_server.workspace.errors import AlreadyExists
from eca_server.workspace.reading import read_file
from eca_server.workspace.writing import replace_file

_MAX_NAMES: Final = 100
_MAX_NAME: Final = 50  # characters, of up to four bytes; a file name may have 255
_NOT_A_WORD = re.compile(r"[\W_]+")

MAX_BYTES: Final = 32 * 1024 * 1024
"""Maximum size of an imported file, in bytes."""


def _secrets(context: CommandContext) -> Iterator[Secret]:
    """Yield the secrets to mask in an export; a path that an MCP server needs is none."""
    yield from (*context.models.secrets, *context.loaded.secrets)
    config = context.loaded.config
    yield from own_secrets(config)
    for provider in config.providers.values():
        yield from secrets_in_command(provider.command)
    for server in context.mcp or ():
        for secret in server.secrets():
            if not os.path.isabs(secret.reveal()):  # noqa: PTH117 - it is only a text
                yield secret


@command(
    "export",
    CommandArgument(name="path", description="Path of a new file, or a folder for it."),
    steering="between requests",
)
async def export_chat(turn: Turn, context: CommandContext) -> None:
    """Export this chat to a file: .edn or .json for /import, .md for reading."""
    chat, messages = context.chat, tuple(context.chat.history)
    if not messages:
        turn.fail("There is nothing to export: this chat has no messages.")
        return
    secrets = tuple(_secrets(context))

    def hide(text: str) -> str:
        checkpoint()  # else the thread of a stopped export masks a large chat to its end
        return mask_keys(text, secrets)

    settings = chat.settings
    about = {
        "id": chat.id,
        "title": chat.title,
        "title-custom?": settings.is_named_by_user,
        "status": edn.Keyword("idle"),
        "created-at": round(chat.created * 1000),
        "updated-at": round(chat.updated * 1000),
        "model": settings.model,
        "variant": settings.variant,
        "login-provider": (settings.model or "").partition("/")[0] or None,
        "user-prompt-count": sum(each.content_id is not None for each in messages),
    }
    requested_path = arguments_of(context.text).strip("\"'")

    def write() -> Place:
        places = _places(context.workspace, requested_path, str(about["title"] or about["id"]))
        text = _text(places[0].path.suffix.lower(), messages, about, settings.flags, hide)
        for place in places[:-1]:
            with suppress(AlreadyExists):
                return _create(place, text)
        return _create(places[-1], text)

    try:
        place = await change_in_thread(write)
    except ToolError as error:
        turn.fail(f"The chat was not exported: {error}")
        return
    count = counted(len(messages), "message")
    message = f"Exported {count} to `{printable(place.path)}`. Keys are masked in it"
    readable = place.path.suffix in {".edn", ".json"}
    import_hint = f". Send `/import {printable(place.path)}` to import it." if readable else "."
    turn.report(message + import_hint)


def _create(place: Place, text: str) -> Place:
    data = text.encode("utf-8", "replace")
    replace_file(place, data, expected=None, mode=0o600, checkpoint=checkpoint)
    return place


def _places(workspace: Workspace, requested_path: str, title: str) -> Sequence[Place]:
    """Return the candidates for the file, best first: the requested path, or names in a folder."""
    if not requested_path and not workspace.roots:
        raise ToolError("no folder is open. Send `/export PATH`.")
    folder = workspace.locate(requested_path or ".")
    if requested_path and not folder.real_path.is_dir():
        return [folder]
    slug = _NOT_A_WORD.sub("-", title.lower())[:_MAX_NAME].strip("-") or "chat"
    names = [f"eca-chat-{slug}", *(f"eca-chat-{slug}-{n}" for n in range(2, _MAX_NAMES))]
    return [workspace.locate(str(folder.path / f"{name}.edn")) for name in names]


def _text(
    suffix: str,
    messages: Sequence[Message],
    about: Mapping[str, object],
    flags: Mapping[str, Flag],
    hide: Hide,
) -> str:
    """Return the text of a file with a chat: Markdown, JSON, or EDN for every other suffix."""
    if suffix == ".md":
        return markdown(messages, str(about["title"] or "Chat"), hide=hide)
    now = round(time.time() * 1000)
    whole = envelope(messages, about, version=version(), exported_at=now, flags=flags, hide=hide)
    return json.dumps(edn.plain(whole)).decode() if suffix == ".json" else edn.dumps(whole)


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
