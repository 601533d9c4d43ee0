"""`eca-server read-chat`: the stored chats as lines of JSON, with upstream's options and shapes.

The server need not run. Messages have no time of their own, so that a filter by time leaves them
out, with a warning, as upstream does for messages without one.
"""

from __future__ import annotations

import re
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from eca_protocol import json
from eca_server.agent.chat.exchange import edn
from eca_server.agent.chat.exchange.written import envelope
from eca_server.agent.chat.store import queries
from eca_server.agent.chat.store.file import ChatFile
from eca_server.agent.chat.store.inspection import newer_version_of
from eca_server.agent.chat.store.place import store_path, workspace_key
from eca_server.agent.chat.store.rows import StoredChat
from eca_server.agent.chat.store.schema import TABLES
from eca_server.agent.chat.store.view import ServerView
from eca_server.printable import printable_json, printable_line
from eca_server.system.command_line import fail
from eca_server.version import version

_PROGRAM = "eca-server read-chat"
_ALL = 2**31  # chats in a list
_SQLITE = b"SQLite format 3\0"
_MILLISECONDS: Mapping[str, int] = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Selection(NamedTuple):
    """The options that select chats or messages; times are milliseconds since 1970."""

    chat_id: str | None
    role: str | None
    since: int | None
    until: int | None

    def holds(self, when: int) -> bool:
        """Return whether a time is in the selected range."""
        return (self.since or 0) <= when and (self.until is None or when < self.until)


def read_chat(
    environ: Mapping[str, str], path: Path | None, workspace: Sequence[Path], selection: Selection
) -> int:
    """Print chats, or the messages of one, and return the exit code.

    Args:
        environ: the environment variables, which name the data directory.
        path: the file of chats, or its directory; None: the user's.
        workspace: the folders whose chats are listed; empty: all chats.
        selection: the other options.
    """
    file = store_path(environ) if path is None else path
    if file.is_dir():
        file /= store_path(environ).name
    if not file.is_file():
        return fail(_PROGRAM, f"there is no file of chats: {printable_line(str(file))}")
    if (why := _obstacle(file, is_named=path is not None)) is not None:
        return fail(_PROGRAM, f"{printable_line(str(file))} {why}")
    chats = ChatFile(file).serve(ServerView(_warn))
    try:
        if selection.chat_id is None:
            key = workspace_key(workspace) if workspace else None
            listed = chats.read(partial(queries.latest, workspace=key, limit=_ALL, by="updated"))
            if listed is None:  # the store has said why
                return 1
            ids = [each.id for each in listed]
            loaded = (chats.read(partial(queries.load, chat_id=each)) for each in ids)
            _print(_summaries((each.chat for each in loaded if each and each.chat), selection))
            return 0
        result = chats.read(partial(queries.load, chat_id=selection.chat_id))
        if result is None or result.chat is None:
            return fail(
                _PROGRAM, f"chat not found: {printable_line(selection.chat_id, longest=200)}"
            )
        _print(_messages(result.chat, selection))
        return 0
    finally:
        chats.close(lambda: True)


def parse_time(text: str) -> int:
    """Return a time in milliseconds since 1970: relative (`2h`), a date, or ISO 8601.

    Raises:
        ValueError: the text is none of these.
    """
    if match := re.fullmatch(r"(\d{1,9})([mhd])", text, re.ASCII):
        return round(time.time() * 1000) - int(match[1]) * _MILLISECONDS[match[2]]
    when = datetime.fromisoformat(text)
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


def _obstacle(file: Path, *, is_named: bool) -> str | None:
    """Return why a file cannot be read, or None.

    Raises:
        OSError: the file cannot be read at all.
    """
    if is_named and not _holds_chats(file):
        return "is no file of chats, or is damaged; it was not changed"
    newer = newer_version_of(file)
    return None if newer is None else f"cannot be read: {newer}. Upgrade this server"


def _holds_chats(file: Path) -> bool:
    """Return whether a file that the user named is one of chats; the store sets others aside.

    Raises:
        OSError: the file cannot be read.
    """
    with file.open("rb") as opened:
        if opened.read(len(_SQLITE)) != _SQLITE:
            return False
    mode = "mode=ro" if Path(f"{file}-wal").exists() else "immutable=1"  # which makes no log
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?{mode}", uri=True)) as database:
            names = {name for name, _ in database.execute(TABLES)}
    except sqlite3.OperationalError:  # such as a disk that cannot be written: the store explains it
        return True
    except sqlite3.DatabaseError:
        return False
    return {"chat", "message"} <= names


def _summaries(chats: Iterator[StoredChat], selection: Selection) -> Iterator[dict[str, Any]]:
    for chat in chats:
        if selection.holds(round(chat.updated * 1000)):
            prompts = [each for each in chat.messages if each.content_id is not None]
            values = {
                "title": chat.title,
                "status": "idle",
                "model": chat.settings.model,
                "created-at": round(chat.created * 1000),
                "updated-at": round(chat.updated * 1000),
                "user-prompt-count": len(prompts),
                "id": chat.id,
            }
            yield {name: value for name, value in values.items() if value is not None}


def _messages(chat: StoredChat, selection: Selection) -> Iterator[dict[str, Any]]:
    written = envelope(
        chat.messages, {}, version=version(), exported_at=0, flags=chat.settings.flags, hide=str
    )
    entries = edn.plain(written)["chat"]["messages"]
    if (selection.since, selection.until) != (None, None):
        _warn(f"{len(entries)} message(s) without created-at were excluded by the time filter")
        return
    for entry in entries:
        if selection.role in {None, entry["role"]}:
            yield entry


def _print(values: Iterator[dict[str, Any]]) -> None:
    for value in values:
        sys.stdout.write(f"{printable_json(json.dumps(value).decode())}\n")


def _warn(why: str) -> None:
    sys.stderr.write(f"Warning: {why}\n")
