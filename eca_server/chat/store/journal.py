"""The journal of rollbacks in the file of chats, written before a file is changed.

Rules: a rollback is recorded completely before its first step; each step is deleted when it is
done; the messages are removed in the transaction that ends the rollback. If a server is killed, the
journal therefore has exactly the remaining steps. Messages that another server added to the chat
since then remain. The bytes to restore are in the before-images, not in the journal.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from eca_protocol import json
from eca_server.chat.store.database import Database, Statement
from eca_server.chat.store.rows import Change, Rollback, StoredContent, UndoStep
from eca_server.workspace import Fingerprint

__all__ = ["changes_since", "content", "do_step", "finish", "note", "unfinished"]

_CUT: Final = (
    "DELETE FROM message WHERE chat = ?1 AND sequence >="
    " (SELECT sequence FROM message WHERE chat = ?1 AND id = ?2) - ?3"
    " AND sequence <= ifnull(?4, sequence)"
)
_CUT_RUNNING: Final = tuple(
    f"DELETE FROM {table} WHERE chat = ?1 AND NOT EXISTS"  # noqa: S608
    " (SELECT 1 FROM message WHERE chat = ?1 AND id = turn)"
    for table in ("running_turn", "running_piece")
)
_FORGET: Final = (
    "DELETE FROM before_image WHERE chat = ?1 AND number >= ?2 AND number <= ifnull(?4, number)"
    " AND (?3 OR EXISTS (SELECT 1 FROM rollback WHERE chat = ?1))"  # or another server has ended it
)


def changes_since(database: Database, chat: str, content_ids: Sequence[str]) -> tuple[Change, ...]:
    """Return all changes in a chat since the first one of these messages, in order."""
    rows = database.read(
        "SELECT number, path, moved_from, existed, data, after FROM before_image"
        " WHERE chat = ?1 AND number >= (SELECT min(number) FROM before_image WHERE chat = ?1"
        "  AND content_id IN (SELECT value FROM json_each(?2))) ORDER BY number",
        (chat, json.dumps(list(content_ids)).decode()),
    )
    return tuple(
        Change(
            number=number,
            path=os.fsdecode(path),
            moved_from=None if moved_from is None else os.fsdecode(moved_from),
            existed=bool(existed),
            before=None if data is None else Fingerprint.of(data).digest,
            after=after,
        )
        for number, path, moved_from, existed, data, after in rows
    )


def content(database: Database, number: int) -> StoredContent | None:
    """Return a file's content before a change; None if it is not stored."""
    for mode, data in database.read(
        "SELECT mode, data FROM before_image WHERE number = ? AND data IS NOT NULL", (number,)
    ):
        return StoredContent(mode=mode, data=data)
    return None


def note(database: Database, rollback: Rollback) -> None:
    """Record a rollback; it replaces an unfinished one of the same chat."""
    chat = rollback.chat
    with database.writing() as execute:
        execute("DELETE FROM undo_step WHERE chat = ?", (chat,))
        execute(
            "INSERT OR REPLACE INTO rollback VALUES (?1, ?2, ?3, ?4, ?5, ?6,"
            " (SELECT max(sequence) FROM message WHERE chat = ?1),"
            " (SELECT max(number) FROM before_image WHERE chat = ?1))",
            (
                chat,
                rollback.cut,
                rollback.earlier,
                rollback.last_remaining,
                rollback.first_change,
                rollback.undoes,
            ),
        )
        for position, step in enumerate(rollback.steps):
            moved_to = None if step.moved_to is None else os.fsencode(step.moved_to)
            execute(
                "INSERT INTO undo_step VALUES (?, ?, ?, ?, ?, ?)",
                (chat, position, os.fsencode(step.path), moved_to, step.present, step.change),
            )


def do_step(database: Database, chat: str, path: str) -> None:
    """Delete the first step with this path, and any steps before it."""
    with database.writing() as execute:
        execute(
            "DELETE FROM undo_step WHERE chat = ?1 AND position <="
            " (SELECT min(position) FROM undo_step WHERE chat = ?1 AND path = ?2)",
            (chat, os.fsencode(path)),
        )


def unfinished(database: Database, workspace: str, chat: str) -> tuple[Rollback, ...]:
    """Return the unfinished rollbacks of a workspace's chats, and of one chat."""
    rows = database.read(
        "SELECT rollback.* FROM rollback JOIN chat ON chat.id = rollback.chat"
        " WHERE chat.workspace = ? OR chat.id = ?",
        (workspace, chat),
    )
    return tuple(
        Rollback(
            chat=name,
            cut=cut,
            earlier=earlier,
            last_remaining=last_remaining,
            first_change=first,
            undoes=bool(undoes),
            last_message=last_message,
            last_change=last_change,
            steps=_steps(database, name),
        )
        for name, cut, earlier, last_remaining, first, undoes, last_message, last_change in rows
    )


def _steps(database: Database, chat: str) -> tuple[UndoStep, ...]:
    rows = database.read(
        "SELECT path, moved_to, present, change FROM undo_step WHERE chat = ? ORDER BY position",
        (chat,),
    )
    return tuple(
        UndoStep(
            path=os.fsdecode(path),
            moved_to=None if moved_to is None else os.fsdecode(moved_to),
            present=present,
            change=change,
        )
        for path, moved_to, present, change in rows
    )


def finish(
    database: Database, rollback: Rollback, *, title: str | None, settings: bytes | None
) -> None:
    """Delete a rollback, its messages, and the before-images that are no longer needed.

    If the files are not restored, their changes are assigned to the last remaining message, so that
    a rollback to before that message undoes them, too.

    Args:
        database: the file.
        rollback: the rollback.
        title: the chat's new title, if `settings` are given.
        settings: the chat's new settings; None: keep them.
    """
    chat, first = rollback.chat, rollback.first_change
    erased: list[Statement] = [
        ("DELETE FROM rollback WHERE chat = ?", (chat,)),
        ("DELETE FROM undo_step WHERE chat = ?", (chat,)),
    ]
    if rollback.cut is not None:
        erased.append((_CUT, (chat, rollback.cut, rollback.earlier, rollback.last_message)))
        erased += [(statement, (chat,)) for statement in _CUT_RUNNING]
    changed: list[Statement] = []
    if first is not None and (rollback.undoes or rollback.last_remaining is None):
        erased.insert(0, (_FORGET, (chat, first, not rollback.steps, rollback.last_change)))
    elif first is not None:
        changed.append(
            (
                "UPDATE before_image SET content_id = ? WHERE chat = ? AND number >= ?",
                (rollback.last_remaining, chat, first),
            )
        )
    if settings is not None:
        changed += [
            ("UPDATE chat SET title = ? WHERE id = ?", (title, chat)),
            (
                "INSERT OR REPLACE INTO settings SELECT id, ? FROM chat WHERE id = ?",
                (settings, chat),
            ),
        ]
    database.erase(erased, changed)
