"""The journal of rollbacks in the file of chats, written before a file is changed.

Rules: a rollback is recorded completely before its first step; each step is deleted when it is
done; the messages are removed in the transaction that ends the rollback. If a server is killed, the
journal therefore has exactly the remaining steps. Messages that another server added to the chat
since then remain. The bytes to restore are in the before-images, not in the journal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from eca_server.chat.store.queries import set_title_and_settings
from eca_server.chat.store.rows import ChatSettings, Rollback, UndoStep, decode_path, encode_path

if TYPE_CHECKING:
    from eca_server.chat.store.file import ChatFile

__all__ = ["do_step", "finish", "note", "unfinished"]

_CUT: Final = (
    "DELETE FROM message WHERE chat = ?1 AND sequence >="
    " (SELECT sequence FROM message WHERE chat = ?1 AND id = ?2) - ?3"
    " AND sequence <= ifnull(?4, sequence)"
)
_FORGET: Final = (
    "DELETE FROM before_image WHERE chat = ?1 AND number >= ?2 AND number <= ifnull(?4, number)"
    " AND (?3 OR EXISTS (SELECT 1 FROM rollback WHERE chat = ?1))"  # or another server has ended it
)


def note(file: ChatFile, rollback: Rollback) -> None:
    """Record a rollback; it replaces an unfinished one of the same chat."""
    chat = rollback.chat
    file.execute("DELETE FROM undo_step WHERE chat = ?", (chat,))
    file.execute(
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
        paths = (os.fsencode(step.path), encode_path(step.moved_to))
        file.execute(
            "INSERT INTO undo_step VALUES (?, ?, ?, ?, ?, ?)",
            (chat, position, *paths, step.present, step.change),
        )


def do_step(file: ChatFile, chat: str, path: str) -> None:
    """Delete the first step with this path, and any steps before it."""
    file.execute(
        "DELETE FROM undo_step WHERE chat = ?1 AND position <="
        " (SELECT min(position) FROM undo_step WHERE chat = ?1 AND path = ?2)",
        (chat, os.fsencode(path)),
    )


def unfinished(file: ChatFile, workspace: str, chat: str) -> tuple[Rollback, ...]:
    """Return unfinished rollbacks of a workspace's chats, and of one; none while writes wait."""
    rows = file.execute(
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
            steps=tuple(_steps(file, name)),
        )
        for name, cut, earlier, last_remaining, first, undoes, last_message, last_change in rows
        if not file.is_behind
    )


def _steps(file: ChatFile, chat: str) -> Iterator[UndoStep]:
    for path, moved_to, present, change in file.execute(
        "SELECT path, moved_to, present, change FROM undo_step WHERE chat = ? ORDER BY position",
        (chat,),
    ):
        yield UndoStep(
            path=os.fsdecode(path), moved_to=decode_path(moved_to), present=present, change=change
        )


def finish(
    file: ChatFile, rollback: Rollback, *, title: str | None, settings: ChatSettings | None
) -> None:
    """Delete a rollback, its messages, and the before-images that are no longer needed.

    If the files are not restored, their changes are assigned to the last remaining message, so that
    a rollback to before that message undoes them, too. `title` counts if `settings` are given.
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
    set_title_and_settings(file, chat, title, settings)
    file.last.pop(chat, None)
