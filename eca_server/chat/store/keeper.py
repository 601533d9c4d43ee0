"""Storage of chats that survives disk errors: failed writes stay queued and are retried.

Rules: writes take effect in the order of the calls, so that a chat has no gap; deleted data is
removed completely, also from the queue; an error is reported once and never raised.

Everything here waits for the disk: a thread of its own calls it (see `store`).
"""

from __future__ import annotations

import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from operator import attrgetter
from pathlib import Path
from typing import Literal, TypeVar

import attrs

from eca_server.chat.store import journal, running
from eca_server.chat.store.checks import is_damage
from eca_server.chat.store.database import Database, ListedRow, set_damaged_aside
from eca_server.chat.store.place import StoreFault
from eca_server.chat.store.rows import (
    BeforeImage,
    BeforeImageBatch,
    Change,
    ChatRow,
    ChatSettings,
    ChatSummary,
    LoadResult,
    Rollback,
    StoredChat,
    StoredContent,
    StoredMessage,
    TurnUsage,
    UnreadableRow,
    decode_message,
    decode_settings,
    encode_message,
    encode_settings,
    read_text,
    read_usage,
    repair_row,
)
from eca_server.chat.store.running import Owner, Piece, Running
from eca_server.chat.store.salvage import salvage_all
from eca_server.chat.store.wal import repair_log
from eca_server.llm.history import TextPart

__all__ = ["Keeper"]

_log = logging.getLogger("eca_server.chat.store")

_BEGINNING = 100  # characters

Result = TypeVar("Result")


@attrs.frozen
class _Write:
    """A queued write of a chat."""

    chat: str
    run: Callable[[Database], None]


class Keeper:
    """The chats of one user, on disk or queued for it."""

    def __init__(self, path: Path, on_problem: Callable[[str], None]) -> None:
        """Open nothing yet; `on_problem` is called with a sentence for the user."""
        self._path = path
        self._on_problem = on_problem
        self._reported: set[str] = set()
        self._reported_error = False
        self._database: Database | None = None
        self._unwritten: deque[_Write] = deque()
        self._last: dict[str, int] = {}
        self._may_salvage = True
        self._owner: Owner | None = None

    @property
    def rewrite_is_due(self) -> bool:
        """True if something was deleted since the open file was last rewritten."""
        return self._database is not None and self._database.rewrite_is_due

    @property
    def log_is_due(self) -> bool:
        """True if data may be only in the log, where a damaged byte loses all that follows it."""
        return self._database is not None and self._database.log_is_due

    def append(
        self,
        chat: ChatRow,
        messages: Sequence[StoredMessage],
        *,
        turn: str,
        usage: TurnUsage | None,
        settings: ChatSettings | None = None,
        running: Running | None = None,
    ) -> bool:
        """Add a turn to a chat; return whether everything is on disk."""

        def run(database: Database) -> None:
            rows = [(each.id, encode_message(each.message)) for each in messages]
            usage_row = None if usage is None else (usage.tokens, _text(usage.cost))
            settings_body = None if settings is None else encode_settings(settings)
            before, after = database.append(
                chat,
                rows,
                turn=turn,
                usage=usage_row,
                settings=settings_body,
                also=self._record_running(chat, running),
            )
            self._compare(chat, before)
            self._last[chat.id] = after

        return self._write(_Write(chat.id, run))

    def load(self, chat_id: str) -> LoadResult | None:
        """Load a chat; return None if the store cannot be read.

        Unreadable messages are left out and reported.
        """
        self._flush()
        self._settle()
        rows = self._read(lambda database: database.load(chat_id))
        if rows is None:
            return None
        self._last[chat_id] = rows.last
        if rows.chat is None:
            return LoadResult(None)
        row = self._readable_row(rows.chat)
        messages: list[StoredMessage] = []
        for message_id, body in rows.messages:
            try:
                message = decode_message(body)
                messages.append(StoredMessage(id=read_text(message_id), message=message))
            except UnreadableRow as fault:
                self._report_once(f"A message of chat {chat_id} cannot be read: {fault}.")
        return LoadResult(
            StoredChat(
                id=row.id,
                title=row.title,
                messages=tuple(messages),
                usages=tuple(self._readable_usages(chat_id, rows.usages)),
                created=row.created,
                updated=row.updated,
                settings=decode_settings(rows.settings),
            )
        )

    def latest(
        self, workspace: str | None, limit: int, *, by: Literal["updated", "created"] = "updated"
    ) -> tuple[ChatSummary, ...]:
        """Return the chats of a workspace (None: of all), the latest first."""
        self._flush()
        self._settle()
        summaries = self._read(
            lambda database: [*self._summaries(database.latest(workspace, limit, by=by))]
        )
        return tuple(sorted(summaries or (), key=attrgetter(by), reverse=True))

    def _summaries(self, rows: Iterable[ListedRow]) -> Iterator[ChatSummary]:
        """Read listed rows one by one; leave out and name a row whose id cannot be read."""
        for row in rows:
            try:
                yield _summary(attrs.evolve(row, chat=self._readable_row(row.chat)))
            except UnreadableRow as fault:
                self._report_once(f"A chat of {self._path} cannot be listed: {fault}.")

    def _readable_row(self, row: ChatRow) -> ChatRow:
        """Return a chat's row with its damaged columns replaced, and name them.

        Raises:
            UnreadableRow: the id is no text.
        """
        row_id = read_text(row.id)
        readable, damaged = repair_row(row)
        for column in damaged:
            self._report_once(f"The column {column} of chat {row_id} is damaged and was left out.")
        return readable

    def _readable_usages(
        self, chat_id: str, rows: Iterable[tuple[object, object]]
    ) -> Iterator[TurnUsage]:
        """Read the usage of each turn; report damaged rows."""
        for tokens, cost in rows:
            try:
                yield read_usage(tokens, cost)
            except UnreadableRow as fault:
                self._report_once(f"The usage of a turn of chat {chat_id} cannot be read: {fault}.")
                if isinstance(tokens, int):
                    yield TurnUsage(tokens=tokens)

    def add_pieces(self, chat_id: str, turn: str, pieces: Sequence[Piece]) -> bool:
        """Add pieces of a running turn; do not retry later."""
        return self._write_now(lambda file: running.add_pieces(file, chat_id, turn, pieces))

    def has_message(self, chat_id: str, message_id: str) -> bool | None:
        """Return whether a chat has a message; None if the store cannot be read."""
        if not self._flush():
            return None
        query = "SELECT 1 FROM message WHERE chat = ? AND id = ?"
        return self._read(lambda file: any(file.read(query, (chat_id, message_id))))

    def _settle(self) -> None:
        """Make messages of the pieces of killed servers, if the disk allows."""
        owner = None if self._owner is None else self._owner.token
        self._read(lambda file: running.settle(file, self._path, owner))

    def _record_running(
        self, chat: ChatRow, turn: Running | None
    ) -> Callable[[Callable[..., sqlite3.Cursor]], None]:
        """Return a function that notes the state of a turn in a transaction."""

        def note(execute: Callable[..., sqlite3.Cursor]) -> None:
            if turn is None:
                return
            if self._owner is None and not turn.is_over:
                with suppress(OSError):  # without a name a killed turn has no mark
                    self._owner = Owner(self._path)
            owner = None if self._owner is None else self._owner.token
            running.update(execute, chat.id, turn, owner)

        return note

    def clear(self, chat_id: str, *, title: str | None, settings: ChatSettings | None) -> bool:
        """Delete the messages of a chat, including queued ones."""

        def run(database: Database) -> None:
            settings_body = None if settings is None else encode_settings(settings)
            database.clear(chat_id, title=title, settings=settings_body)
            self._last.pop(chat_id, None)

        self._unwritten = deque(write for write in self._unwritten if write.chat != chat_id)
        return self._write(_Write(chat_id, run))

    def delete(self, chat_id: str) -> bool:
        """Delete everything of a chat, including queued writes."""

        def run(database: Database) -> None:
            database.delete(chat_id)
            self._last.pop(chat_id, None)

        self._unwritten = deque(write for write in self._unwritten if write.chat != chat_id)
        return self._write(_Write(chat_id, run))

    def add_before_images(
        self, chat_id: str, images: Sequence[BeforeImage]
    ) -> tuple[int, ...] | None:
        """Store before-images; return their numbers, or None if they cannot be stored.

        The write is not retried later, since it may be large.
        """
        if not self._flush():
            return None
        return self._read(lambda database: database.add_before_images(chat_id, images))

    def remove_before_images(self, batch: BeforeImageBatch) -> bool:
        """Delete the before-images of changes that were not made."""
        return self._write(_Write(batch.chat, lambda file: file.remove_before_images(batch)))

    def before_images(self, chat_id: str) -> tuple[BeforeImage, ...]:
        """Return the before-images of a chat, in the order of the changes."""
        return tuple(self._read(lambda database: database.before_images(chat_id)) or ())

    def changes_since(self, chat_id: str, content_ids: Sequence[str]) -> Sequence[Change] | None:
        """Return all changes in a chat since one of these messages; None: unreadable."""
        if not self._flush():
            return None
        return self._read(lambda database: journal.changes_since(database, chat_id, content_ids))

    def content(self, number: int) -> StoredContent | None:
        """Return a file's content before a change; None: unreadable."""
        return self._read(lambda database: journal.content(database, number))

    def note_rollback(self, rollback: Rollback) -> bool:
        """Record a rollback; do not retry later."""
        return self._write_now(lambda database: journal.note(database, rollback))

    def note_step(self, chat_id: str, path: str) -> bool:
        """Record that a step is done; do not retry later."""
        return self._write_now(lambda database: journal.do_step(database, chat_id, path))

    def unfinished_rollbacks(self, workspace: str, chat_id: str) -> Sequence[Rollback]:
        """Return the unfinished rollbacks; none while writes are queued."""
        if not self._flush():
            return ()
        return self._read(lambda file: journal.unfinished(file, workspace, chat_id)) or ()

    def finish_rollback(
        self, rollback: Rollback, *, title: str | None, settings: ChatSettings | None
    ) -> bool:
        """End a rollback and remove its messages; return whether everything is on disk."""

        def run(database: Database) -> None:
            settings_body = None if settings is None else encode_settings(settings)
            journal.finish(database, rollback, title=title, settings=settings_body)
            self._last.pop(rollback.chat, None)

        return self._write(_Write(rollback.chat, run))

    def tidy(self, should_end: Callable[[], bool]) -> None:
        """Rewrite the file if that is due; give up when `should_end` returns true."""
        if self.rewrite_is_due:
            self._maintain(lambda database: database.rewrite(should_end))

    def empty_log(self) -> None:
        """Write the log's contents to the file itself, unless another server prevents it."""
        if self.log_is_due:
            self._maintain(lambda database: database.empty_log(waits=False))

    def _maintain(self, action: Callable[[Database], None]) -> None:
        if self._database is None:
            return
        try:
            action(self._database)
        except sqlite3.Error as fault:
            self._drop()
            _log.warning("%s cannot be maintained: %s", self._path, fault)

    def close(self, should_end: Callable[[], bool]) -> bool:
        """Finish writing, tidy, and close; return whether everything is on disk."""
        self._flush()
        self.tidy(should_end)
        self._drop()
        if self._owner is not None:
            self._owner.leave()
            self._owner = None
        return not self._unwritten

    def _write_now(self, action: Callable[[Database], None]) -> bool:
        """Write without queueing; return whether the data is on disk."""

        def run(database: Database) -> bool:
            action(database)
            return True

        return self._flush() and self._read(run) is True

    def _write(self, write: _Write) -> bool:
        self._unwritten.append(write)
        return self._flush()

    def _flush(self) -> bool:
        while self._unwritten:
            try:
                self._attempt(self._unwritten[0].run)
            except Exception as fault:  # noqa: BLE001 - one bad write must not hold up the others
                if _is_of_the_disk(fault):
                    self._report(fault)
                    return False
                chat = self._unwritten.popleft().chat
                _log.error("chat %s cannot be stored", chat, exc_info=fault)
                self._report_once(
                    f"A part of chat {chat} could not be stored: {type(fault).__name__}."
                )
            else:
                self._unwritten.popleft()
        return True

    def _read(self, action: Callable[[Database], Result]) -> Result | None:
        try:
            return self._attempt(action)
        except (OSError, StoreFault, sqlite3.Error) as fault:
            self._report(fault)
            return None

    def _attempt(self, action: Callable[[Database], Result]) -> Result:
        """Run an action on the file; set a damaged file aside and salvage it into a new one."""
        try:
            return self._on_open_file(action)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as fault:
            if not is_damage(fault):
                raise
        if set_damaged_aside(self._path) is not None:
            self._last.clear()
            self._may_salvage = True
        return self._on_open_file(action)

    def _on_open_file(self, action: Callable[[Database], Result]) -> Result:
        try:
            if self._database is None:
                for sentence in repair_log(self._path):
                    self._report_once(sentence)
                self._database = Database(self._path)
                if self._database.repaired:
                    self._report_once(
                        f"{self._path} had {self._database.repaired} damaged values, which were "
                        "repaired or left out."
                    )
                if self._may_salvage:
                    self._may_salvage = False  # once: it may take long
                    for sentence in salvage_all(self._database, self._path):
                        self._report_once(sentence)
            return action(self._database)
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            with suppress(sqlite3.Error):
                database.close()

    def _compare(self, chat: ChatRow, before: int) -> None:
        """Report that another server has written to a chat since our last write."""
        expected = self._last.get(chat.id, before)
        name = chat.title or chat.id
        if before > expected:
            self._report_once(
                f"Another server also wrote to the chat {name}. The messages of both servers are "
                "stored, in the order of time."
            )
        elif before < expected:
            self._report_once(
                f"Another server deleted messages of the chat {name}. New messages are still "
                "stored."
            )

    def _report(self, fault: BaseException) -> None:
        words = (isinstance(fault, OSError) and fault.strerror) or str(fault)
        _log.warning("%s: %s", self._path, words)
        if not self._reported_error:
            self._reported_error = True
            self._on_problem(
                f"Chats are not stored, and stay only in memory: {self._path}: {words}."
            )

    def _report_once(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self._on_problem(text)


def _is_of_the_disk(fault: Exception) -> bool:
    """Return whether the same write may succeed later."""
    return (
        isinstance(fault, OSError | StoreFault | sqlite3.OperationalError)
        or type(fault) is sqlite3.DatabaseError
    )


def _text(cost: Decimal | None) -> str | None:
    return None if cost is None else str(cost)


def _summary(row: ListedRow) -> ChatSummary:
    settings = decode_settings(row.settings)
    return ChatSummary(
        id=row.chat.id,
        title=row.chat.title,
        beginning=_beginning(row.first),
        created=row.chat.created,
        updated=row.chat.updated,
        messages=row.messages,
        model=settings.model,
        kind=settings.kind,
    )


def _beginning(body: bytes | None) -> str:
    """Return the first characters of a user's message, without the contexts before it."""
    if body is None:
        return ""
    try:
        message = decode_message(body)
    except UnreadableRow:
        return ""
    texts = [part.text for part in message.parts if isinstance(part, TextPart)]
    texts = texts or [message.shown or ""]
    return " ".join(texts[-1][: 4 * _BEGINNING].split())[:_BEGINNING] if texts else ""
