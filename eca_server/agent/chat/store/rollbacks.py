"""The queries of before-images and rollbacks: each a function on the open file.

A rollback is recorded completely before its first step; each step is deleted when it is done, and
the messages with the record at the end. If a server is killed, exactly the remaining steps are
therefore left. Messages that another server added since then remain.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from eca_protocol import json
from eca_server.agent.chat.store.queries import last_message, set_title_and_settings
from eca_server.agent.chat.store.rows import (
    BeforeImage,
    BeforeImageBatch,
    Change,
    ChatRecord,
    Rollback,
    StoredContent,
    UndoStep,
)
from eca_server.workspace.reading import Fingerprint

if TYPE_CHECKING:
    from eca_server.agent.chat.store.file import ChatFile

BYTES_AT_ONCE = 16 * 2**20
"""The bytes of before-images after which a query for changes ends."""

_BITS: Final = 16  # of a mode

_CUT: Final = (
    "DELETE FROM message WHERE chat = ?1 AND sequence >="
    " (SELECT sequence FROM message WHERE chat = ?1 AND id = ?2) - ?3"
    " AND sequence <= ifnull(?4, sequence)"
)

_FORGET: Final = (
    "DELETE FROM before_image WHERE chat = ?1 AND number >= ?2 AND number <= ifnull(?4, number)"
    " AND (?3 OR EXISTS (SELECT 1 FROM rollback WHERE chat = ?1))"  # or another server has ended it
)

_UNFINISHED: Final = (
    "FROM rollback JOIN chat ON chat.id = rollback.chat WHERE chat.workspace = ? OR chat.id = ?"
)


def add_before_images(file: ChatFile, chat: str, images: Sequence[BeforeImage]) -> tuple[int, ...]:
    """Store before-images; return their numbers."""
    statement = (
        "INSERT INTO before_image (chat, content_id, path, moved_from, existed, mode, data, after)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    )
    numbers = []
    for each in images:
        paths = (os.fsencode(each.path), _encode_path(each.moved_from))
        mode = _encode_mode(each.mode, each.group)
        row = (chat, each.content_id, *paths, each.existed, mode, each.data, each.after)
        numbers.append(file.execute(statement, row).lastrowid or 0)
    return tuple(numbers)


def remove_before_images(file: ChatFile, batch: BeforeImageBatch) -> None:
    """Delete the before-images of changes that were not made."""
    for number, path in zip(batch.numbers or (), batch.paths, strict=False):
        file.execute(
            "DELETE FROM before_image WHERE number = ? AND chat = ? AND path = ?",
            (number, batch.chat, os.fsencode(path)),
        )


def first_change(file: ChatFile, chat: str, content_ids: Sequence[str]) -> int | None:
    """Return the number of the first change of these messages, or 0; None: writes wait."""
    [(number,)] = file.execute(
        "SELECT coalesce(min(number), 0) FROM before_image WHERE chat = ?1"
        " AND content_id IN (SELECT value FROM json_each(?2))",
        (chat, json.dumps(list(content_ids)).decode()),
    )
    return None if file.is_behind else int(number)


def changes_from(file: ChatFile, chat: str, first: int) -> list[Change] | None:
    """Return the next changes of a chat from a number on, if any; None: writes wait.

    All bytes of a chat's before-images may be more than can be read in the time of one call.
    """
    rows = file.execute(
        "SELECT number, path, moved_from, existed, data, after FROM before_image"
        " WHERE chat = ? AND number >= ? ORDER BY number",
        (chat, first),
    )
    changes: list[Change] = []
    size = 0
    for number, path, moved_from, existed, data, after in rows:
        before = None if data is None else Fingerprint.of(data).digest
        paths = (os.fsdecode(path), _decode_path(moved_from))
        changes.append(Change(number, *paths, bool(existed), before, after))
        size += len(data or b"")
        if size >= BYTES_AT_ONCE:
            break
    return None if file.is_behind else changes


def content(file: ChatFile, number: int) -> StoredContent | None:
    """Return a file's content before a change; None if it is not stored."""
    query = "SELECT mode, data FROM before_image WHERE number = ? AND data IS NOT NULL"
    for mode, data in file.execute(query, (number,)):
        bits, group = decode_mode(mode)
        return StoredContent(mode=bits, group=group, data=data)
    return None


def note_rollback(file: ChatFile, rollback: Rollback) -> None:
    """Record a rollback; it replaces an unfinished one of the same chat."""
    chat = rollback.chat
    file.execute("DELETE FROM undo_step WHERE chat = ?", (chat,))
    file.execute(
        "INSERT OR REPLACE INTO rollback VALUES (?1, ?2, ?3, ?4, ?5, ?6,"
        " (SELECT max(sequence) FROM message WHERE chat = ?1),"
        " (SELECT max(number) FROM before_image WHERE chat = ?1))",
        attrs.astuple(rollback, recurse=False)[:6],
    )
    for position, step in enumerate(rollback.steps):
        paths = (os.fsencode(step.path), _encode_path(step.moved_to))
        file.execute(
            "INSERT INTO undo_step VALUES (?, ?, ?, ?, ?, ?)",
            (chat, position, *paths, step.present, step.change),
        )


def note_step(file: ChatFile, chat: str, path: str) -> None:
    """Delete the first step with this path, and any steps before it."""
    file.execute(
        "DELETE FROM undo_step WHERE chat = ?1 AND position <="
        " (SELECT min(position) FROM undo_step WHERE chat = ?1 AND path = ?2)",
        (chat, os.fsencode(path)),
    )


def has_unfinished_rollbacks(file: ChatFile, workspace: str, chat: str) -> bool:
    """Return True if `unfinished_rollbacks` would return any, or fail at a damaged one."""
    rows = file.execute(f"SELECT 1 {_UNFINISHED} LIMIT 1", (workspace, chat))
    return rows.fetchone() is not None and not file.is_behind


def unfinished_rollbacks(file: ChatFile, workspace: str, chat: str) -> tuple[Rollback, ...]:
    """Return unfinished rollbacks of a workspace's chats, and of one; none while writes wait."""
    rows = file.execute(f"SELECT rollback.* {_UNFINISHED}", (workspace, chat))
    return tuple(
        attrs.evolve(Rollback(*row), steps=tuple(_steps(file, row[0])))
        for row in rows
        if not file.is_behind
    )


def finish_rollback(file: ChatFile, rollback: Rollback, record: ChatRecord) -> None:
    """Delete a rollback, its messages, and the before-images that are no longer needed.

    If the files are not restored, their changes are assigned to the last remaining message, so that
    a rollback to before that message undoes them, too. The title counts if there are settings.
    """
    chat, first = rollback.chat, rollback.first_change
    if first is not None and (rollback.undoes or rollback.last_remaining is None):
        file.erase(_FORGET, (chat, first, not rollback.steps, rollback.last_change))
    elif first is not None:
        file.execute(
            "UPDATE before_image SET content_id = ? WHERE chat = ? AND number >= ?",
            (rollback.last_remaining, chat, first),
        )
    file.erase("DELETE FROM rollback WHERE chat = ?", (chat,))
    file.erase("DELETE FROM undo_step WHERE chat = ?", (chat,))
    if rollback.cut is not None:
        file.erase(_CUT, (chat, rollback.cut, rollback.earlier, rollback.last_message))
        for table in ("running_turn", "running_piece"):
            file.erase(
                f"DELETE FROM {table} WHERE chat = ?1 AND NOT EXISTS"  # noqa: S608
                " (SELECT 1 FROM message WHERE chat = ?1 AND id = turn)",
                (chat,),
            )
    set_title_and_settings(file, chat, record)
    file.view.last[chat] = last_message(file, chat)


def _steps(file: ChatFile, chat: str) -> Iterator[UndoStep]:
    query = "SELECT path, moved_to, present, change FROM undo_step WHERE chat = ? ORDER BY position"
    for path, moved_to, *more in file.execute(query, (chat,)):
        yield UndoStep(os.fsdecode(path), _decode_path(moved_to), *more)


def _encode_mode(mode: int | None, group: int | None) -> int | None:
    """Return the column of permission bits, with the group above them; older files have none."""
    return mode if mode is None or group is None else mode | (group + 1) << _BITS


def decode_mode(column: int | None) -> tuple[int | None, int | None]:
    """Return the permission bits and the group of a column; None: they are not known."""
    if column is None:
        return None, None
    group = (column >> _BITS) - 1
    return column & ~(-1 << _BITS), group if group >= 0 else None


def _encode_path(path: str | None) -> bytes | None:
    return None if path is None else os.fsencode(path)


def _decode_path(column: bytes | None) -> str | None:
    return None if column is None else os.fsdecode(column)
