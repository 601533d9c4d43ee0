"""The queries of chats: each a function on the open file.

Rules: a row is added or deleted, never edited (except a chat's title, settings and time of the last
addition); each query that writes is one transaction, which the file begins and commits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from eca_protocol import json
from eca_server.agent.chat.store.coding import (
    decode_message,
    decode_settings,
    encode_message,
    encode_settings,
    read_text,
    read_usage,
    repair_row,
)
from eca_server.agent.chat.store.place import UNKNOWN_WORKSPACE, Damage
from eca_server.agent.chat.store.rows import (
    CHAT_COLUMNS,
    GENERATED,
    ChatRecord,
    ChatRow,
    ChatSummary,
    LoadResult,
    StoredChat,
    TurnUsage,
    UnreadableRow,
)
from eca_server.agent.chat.store.running import update as update_running
from eca_server.models.history import Message

if TYPE_CHECKING:
    from eca_server.agent.chat.store.file import ChatFile

_BEGINNING: Final = 100  # characters
_LARGEST: Final = 2**63 - 1
_LAST_SEQUENCE: Final = 2**53
"""A larger number of a message is damage; SQLite sorts texts and bytes above any number, too."""

_LAST_WORKSPACE: Final = "\U0010ffff"  # sorts behind every key
_CHAT: Final = ", ".join(f"chat.{name}" for name in CHAT_COLUMNS)
_ADD_CHAT: Final = (
    f"INSERT INTO chat ({', '.join(CHAT_COLUMNS)}) VALUES ({', '.join('?' for _ in CHAT_COLUMNS)})"  # noqa: S608
)
_NUMBER_AGAIN: Final = (  # one at a time: the first whose number is damaged, behind the others
    "UPDATE message SET sequence = (SELECT coalesce(max(sequence), 0) + 1 FROM message"
    " WHERE chat = ?1 AND sequence <= ?2)"
    " WHERE rowid = (SELECT rowid FROM message WHERE chat = ?1 AND sequence > ?2"
    " ORDER BY sequence LIMIT 1)"
)
_MESSAGE_TABLES: Final = (
    *("message", "before_image", "rollback", "undo_step"),
    *("running_turn", "running_piece"),
)


def append(
    file: ChatFile, chat: ChatRow, record: ChatRecord, *, ids: Sequence[str], turn: str
) -> None:
    """Add messages with these ids to a chat, which is made if there is none; see `Store.append`.

    Of an existing chat only `updated` and a title are changed. A message with an existing id is
    left out; the turn's id lets its usage count once. The rest of a turn whose prompt was deleted
    meanwhile, as by another server's rollback, is left out completely.
    """
    while file.execute(_NUMBER_AGAIN, (chat.id, _LAST_SEQUENCE)).rowcount:
        pass
    before, _ = last_message(file, chat.id)
    running, usage = record.running, record.usage
    if running is not None and _is_deleted(file, chat.id, running.turn, ids):
        file.view.report_once(
            f"The prompt of a turn of the chat {chat.title or chat.id} was deleted, probably by "
            "another server. The rest of this turn is not stored."
        )
        return
    updated = file.execute(
        "UPDATE chat SET updated = ?, title = coalesce(?, title) WHERE id = ?",
        (chat.updated, chat.title, chat.id),
    )
    if not updated.rowcount:
        file.execute(_ADD_CHAT, attrs.astuple(chat))
    for sequence, (name, each) in enumerate(zip(ids, record.messages, strict=True), before + 1):
        file.add_message(chat.id, sequence, name, encode_message(each))
    if usage is not None:
        cost = None if usage.cost is None else str(usage.cost)
        file.execute(
            "INSERT OR IGNORE INTO usage (chat, turn, tokens, cost) VALUES (?, ?, ?, ?)",
            (chat.id, turn, min(usage.tokens, _LARGEST), cost),
        )
    if record.settings is not None:
        row = (chat.id, encode_settings(record.settings))
        file.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", row)
    if running is not None:
        update_running(file, chat.id, running)
    _compare(file, chat, before)
    if ids and not _is_shortened(file, chat.id):
        file.view.last[chat.id] = last_message(file, chat.id)


def _is_deleted(file: ChatFile, chat: str, turn: str, added: Sequence[str]) -> bool:
    """Return whether the prompt of a turn was stored and is not there now."""
    query = "SELECT 1 FROM message WHERE chat = ? AND id = ?"
    return turn not in added and file.execute(query, (chat, turn)).fetchone() is None


def first_stored(file: ChatFile, chat: str, message_ids: Sequence[str]) -> str | None:
    """Return the id of the first of these messages in a chat, or ""; None while writes wait."""
    rows = file.execute(
        "SELECT id FROM message WHERE chat = ?1 AND id IN (SELECT value FROM json_each(?2))"
        " ORDER BY sequence LIMIT 1",
        (chat, json.dumps(list(message_ids)).decode()),
    )
    return None if file.is_behind else next((str(name) for (name,) in rows), "")


def load(file: ChatFile, chat_id: str) -> LoadResult:
    """Load a chat from one transaction; leave out and report unreadable messages.

    If the last message as this server knows it was deleted, it stays known until `note_last`.
    """
    file.execute("BEGIN")
    chat = file.execute(f"SELECT {_CHAT} FROM chat WHERE id = ?", (chat_id,)).fetchone()  # noqa: S608
    messages = file.execute(
        "SELECT id, body FROM message WHERE chat = ? ORDER BY sequence", (chat_id,)
    ).fetchall()
    usages = file.execute(
        "SELECT tokens, cost FROM usage WHERE chat = ? ORDER BY number", (chat_id,)
    ).fetchall()
    settings = file.execute("SELECT body FROM settings WHERE chat = ?", (chat_id,)).fetchone()
    last = last_message(file, chat_id)
    _compare_indexes(file, chat_id, len(messages))
    if not _is_shortened(file, chat_id):
        file.view.last[chat_id] = last
    file.execute("COMMIT")
    if chat is None:
        return LoadResult(None, last=last)
    row = _readable_row(file, ChatRow(*chat))
    return LoadResult(
        StoredChat(
            id=row.id,
            title=row.title,
            messages=tuple(_readable_messages(file, chat_id, messages)),
            usages=tuple(_readable_usages(file, chat_id, usages)),
            created=row.created,
            updated=row.updated,
            settings=decode_settings(settings and settings[0]),
        ),
        last=last,
    )


def load_longer(
    file: ChatFile, chat_id: str, message_ids: Collection[str], count: int
) -> LoadResult | None:
    """Load a chat that has these messages, and more than `count`.

    A chat that is not loaded is still known as it was, for the next comparison.
    """
    rows = file.execute("SELECT id FROM message WHERE chat = ?", (chat_id,)).fetchall()
    stored_ids = {name for (name,) in rows}
    has_more = len(rows) > count and stored_ids.issuperset(message_ids)
    return load(file, chat_id) if has_more else None


def load_shortened(file: ChatFile, chat_id: str) -> LoadResult | None:
    """Load a chat whose last message, as this server knows it, another server has deleted.

    A file that was replaced, or lacks a message that could not be written, is no such case.
    """
    return load(file, chat_id) if _is_shortened(file, chat_id) else None


def _is_shortened(file: ChatFile, chat_id: str) -> bool:
    number, name = file.view.last.get(chat_id, (0, ""))
    is_stored = file.execute("SELECT 1 FROM message WHERE chat = ? AND id = ?", (chat_id, name))
    return bool(number) and is_stored.fetchone() is None


def note_last(file: ChatFile, chat_id: str, last: tuple[int, str]) -> None:
    """Note the last message of a chat that has what was loaded, if messages were deleted."""
    if _is_shortened(file, chat_id):
        file.view.last[chat_id] = last


def emptied(file: ChatFile, chat_ids: Collection[str]) -> frozenset[str]:
    """Return the chats whose messages, as this server knows them, others have all deleted."""
    return frozenset(
        each
        for each in chat_ids
        if file.view.last.get(each, (0, ""))[0]
        and not last_message(file, each)[0]
        and not file.is_behind
    )


def latest(
    file: ChatFile, workspace: str | None, limit: int, *, by: Literal["updated", "created"]
) -> tuple[ChatSummary, ...]:
    """Return the latest chats of a workspace (None: of all) that have messages.

    Only the needed messages are read, since a message may have megabytes. A chat whose workspace
    was lost to damage is listed in every workspace; one whose id cannot be read is reported.
    """
    last = _LAST_WORKSPACE if workspace is None else workspace
    rows = file.execute(
        f"SELECT {_CHAT}, CASE WHEN chat.title IS NULL THEN message.body END, settings.body,"  # noqa: S608
        " (SELECT count(*) FROM message WHERE message.chat = chat.id)"
        " FROM (SELECT chat.* FROM chat"
        "  WHERE (workspace BETWEEN ? AND ? OR workspace = ?)"
        "  AND EXISTS (SELECT 1 FROM message WHERE message.chat = chat.id)"
        "  ORDER BY CASE ? WHEN 'created' THEN created ELSE updated END DESC LIMIT ?) AS chat"
        " JOIN message ON message.chat = chat.id AND message.sequence ="
        "  (SELECT min(sequence) FROM message WHERE message.chat = chat.id)"
        " LEFT JOIN settings ON settings.chat = chat.id",
        (workspace or "", last, UNKNOWN_WORKSPACE, by, limit),
    )
    summaries = []
    for *columns, first, settings_body, count in rows:
        try:
            row = _readable_row(file, ChatRow(*columns))
        except UnreadableRow as fault:
            file.view.report_once(f"A chat of {file.path} cannot be listed: {fault}.")
            continue
        settings = decode_settings(settings_body)
        summaries.append(
            ChatSummary(
                id=row.id,
                title=row.title,
                beginning=_beginning(first),
                created=row.created,
                updated=row.updated,
                messages=count,
                model=settings.model,
                kind=settings.kind,
            )
        )
    return tuple(sorted(summaries, key=attrgetter(by), reverse=True))


def clear(file: ChatFile, chat: str, record: ChatRecord) -> None:
    """Delete the messages of a chat; the record's title counts if it has settings."""
    for table in _MESSAGE_TABLES:
        file.erase(f"DELETE FROM {table} WHERE chat = ?", (chat,))  # noqa: S608
    set_title_and_settings(file, chat, record)
    file.view.last.pop(chat, None)


def delete(file: ChatFile, chat: str) -> None:
    """Delete everything of a chat."""
    for table in (*_MESSAGE_TABLES, "usage", "settings"):
        file.erase(f"DELETE FROM {table} WHERE chat = ?", (chat,))  # noqa: S608
    file.erase("DELETE FROM chat WHERE id = ?", (chat,))
    file.view.last.pop(chat, None)


def set_title_and_settings(file: ChatFile, chat: str, record: ChatRecord) -> None:
    """Set the title and the settings of a stored chat; keep both if the record has no settings."""
    if record.settings is not None:
        file.execute("UPDATE chat SET title = ? WHERE id = ?", (record.title, chat))
        file.execute(
            "INSERT OR REPLACE INTO settings SELECT id, ? FROM chat WHERE id = ?",
            (encode_settings(record.settings), chat),
        )


def last_message(file: ChatFile, chat: str) -> tuple[int, str]:
    """Return the number and the id of the last message of a chat, or 0 and an empty text."""
    query = (
        "SELECT sequence, id FROM message WHERE chat = ? AND sequence <= ?"
        " ORDER BY sequence DESC LIMIT 1"
    )
    number, name = file.execute(query, (chat, _LAST_SEQUENCE)).fetchone() or (0, "")
    return int(number), str(name)


def _compare(file: ChatFile, chat: ChatRow, before: int) -> None:
    """Report that another server has written to a chat since our last write."""
    expected, _ = file.view.last.get(chat.id, (before, ""))
    name = chat.title or chat.id
    if before > expected:
        file.view.report_once(
            f"Another server also wrote to the chat {name}. The messages of both servers are "
            "stored, in the order of time."
        )
    elif before < expected:
        file.view.report_once(
            f"Another server deleted messages of the chat {name}. New messages are still stored."
        )


def _compare_indexes(file: ChatFile, chat: str, count: int) -> None:
    """Compare the number of a chat's messages by one index with that by the other.

    Raises:
        Damage: they differ, which SQLite reads over.
    """
    query = "SELECT count(*) FROM message INDEXED BY sqlite_autoindex_message_2 WHERE chat = ?"
    by_id = file.execute(query, (chat,)).fetchone()[0]
    if by_id != count:
        raise Damage(f"one index has {count} messages of {chat}, the other {by_id}")


def _readable_row(file: ChatFile, row: ChatRow) -> ChatRow:
    """Return a chat's row with its damaged columns replaced, and report them.

    Raises:
        UnreadableRow: the id is no text.
    """
    row_id = read_text(row.id)
    readable, damaged = repair_row(row)
    for column in damaged:
        file.view.report_once(f"The column {column} of chat {row_id} is damaged and was left out.")
    return readable


def _readable_messages(
    file: ChatFile, chat: str, rows: Sequence[tuple[Any, Any]]
) -> Iterator[Message]:
    """Read messages; older servers stored a user's content id only in the row's id."""
    for message_id, body in rows:
        try:
            name, message = read_text(message_id), decode_message(body)
            is_named = bool(message.content_id) or name.startswith(GENERATED)
            yield (
                message
                if message.role != "user" or is_named
                else attrs.evolve(message, content_id=name)
            )
        except UnreadableRow as fault:
            file.view.report_once(f"A message of chat {chat} cannot be read: {fault}.")


def _readable_usages(
    file: ChatFile, chat: str, rows: Sequence[tuple[Any, Any]]
) -> Iterator[TurnUsage]:
    for tokens, cost in rows:
        try:
            yield read_usage(tokens, cost)
        except UnreadableRow as fault:
            file.view.report_once(f"The usage of a turn of chat {chat} cannot be read: {fault}.")
            if isinstance(tokens, int):
                yield TurnUsage(tokens=tokens)


def _beginning(body: bytes | None) -> str:
    """Return the first characters of a user's message as shown."""
    if body is None:
        return ""
    try:
        message = decode_message(body)
    except UnreadableRow:
        return ""
    return " ".join(message.shown_text[: 4 * _BEGINNING].split())[:_BEGINNING]
