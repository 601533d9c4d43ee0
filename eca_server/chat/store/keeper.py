"""Keeps chats, whatever the disk does: what could not be written stays here and is tried again.

The rules it keeps: writes take effect in the order they were asked for, so that a chat has no
gap; of what is deleted nothing stays, written or not; a fault is told once and never raised.

Everything here waits for the disk: one thread of its own calls it (see `store`).
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
from eca_server.chat.store.database import Database, ListedRow, is_damage, set_damaged_aside
from eca_server.chat.store.place import StoreFault
from eca_server.chat.store.rows import (
    BeforeImage,
    Change,
    ChatRow,
    ChatSettings,
    ChatSummary,
    Found,
    KeptContent,
    Noted,
    Rollback,
    StoredChat,
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
from eca_server.chat.store.wal import mend_log
from eca_server.llm.history import TextPart

__all__ = ["Keeper"]

_log = logging.getLogger("eca_server.chat.store")

_BEGINNING = 100  # characters

Result = TypeVar("Result")


@attrs.frozen
class _Write:
    """Something to be written of a chat."""

    chat: str
    run: Callable[[Database], None]


class Keeper:
    """The chats of one user, on disk as far as the disk allows."""

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        """Nothing is opened yet; `tell` is called with a sentence for the user."""
        self._path = path
        self._tell = tell
        self._told: set[str] = set()
        self._told_of_fault = False
        self._database: Database | None = None
        self._unwritten: deque[_Write] = deque()
        self._last: dict[str, int] = {}
        self._may_salvage = True
        self._owner: Owner | None = None

    @property
    def rewrite_is_due(self) -> bool:
        """Whether something was deleted since the open file was last rewritten."""
        return self._database is not None and self._database.rewrite_is_due

    @property
    def log_is_due(self) -> bool:
        """Whether something may be in the log alone, where one damaged byte loses all behind it."""
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
        """Add a turn to a chat; whether everything is on disk now."""

        def run(database: Database) -> None:
            rows = [(each.id, encode_message(each.message)) for each in messages]
            taken = None if usage is None else (usage.tokens, _text(usage.cost))
            kept = None if settings is None else encode_settings(settings)
            before, after = database.append(
                chat, rows, turn=turn, usage=taken, settings=kept, also=self._noting(chat, running)
            )
            self._compare(chat, before)
            self._last[chat.id] = after

        return self._write(_Write(chat.id, run))

    def load(self, chat_id: str) -> Found | None:
        """A chat, if there is one; None: that cannot be read.

        Messages that cannot be read are left out, and told.
        """
        self._flush()
        self._settle()
        found = self._read(lambda database: database.load(chat_id))
        if found is None:
            return None
        self._last[chat_id] = found.last
        if found.chat is None:
            return Found(None)
        row = self._readable_row(found.chat)
        messages: list[StoredMessage] = []
        for message_id, body in found.messages:
            try:
                message = decode_message(body)
                messages.append(StoredMessage(id=read_text(message_id), message=message))
            except UnreadableRow as fault:
                self._tell_once(f"A message of chat {chat_id} cannot be read: {fault}.")
        return Found(
            StoredChat(
                id=row.id,
                title=row.title,
                messages=tuple(messages),
                usages=tuple(self._readable_usages(chat_id, found.usages)),
                created=row.created,
                updated=row.updated,
                settings=decode_settings(found.settings),
            )
        )

    def latest(
        self, workspace: str | None, limit: int, *, by: Literal["updated", "created"] = "updated"
    ) -> tuple[ChatSummary, ...]:
        """The chats of a workspace (None: of all), the latest first."""
        self._flush()
        self._settle()
        found = self._read(
            lambda database: [*self._summaries(database.latest(workspace, limit, by=by))]
        )
        return tuple(sorted(found or (), key=attrgetter(by), reverse=True))

    def _summaries(self, rows: Iterable[ListedRow]) -> Iterator[ChatSummary]:
        """Read listed rows one by one; leave out and name a row whose id cannot be read."""
        for row in rows:
            try:
                yield _summary(attrs.evolve(row, chat=self._readable_row(row.chat)))
            except UnreadableRow as fault:
                self._tell_once(f"A chat of {self._path} cannot be listed: {fault}.")

    def _readable_row(self, row: ChatRow) -> ChatRow:
        """Return a chat's row with its damaged columns replaced, and name them.

        Raises:
            UnreadableRow: the id is no text.
        """
        row_id = read_text(row.id)
        readable, damaged = repair_row(row)
        for column in damaged:
            self._tell_once(f"The column {column} of chat {row_id} is damaged and was left out.")
        return readable

    def _readable_usages(
        self, chat_id: str, rows: Iterable[tuple[object, object]]
    ) -> Iterator[TurnUsage]:
        """Read what each turn took; name the rows that are damaged."""
        for tokens, cost in rows:
            try:
                yield read_usage(tokens, cost)
            except UnreadableRow as fault:
                self._tell_once(f"The usage of a turn of chat {chat_id} cannot be read: {fault}.")
                if isinstance(tokens, int):
                    yield TurnUsage(tokens=tokens)

    def add_pieces(self, chat_id: str, turn: str, pieces: Sequence[Piece]) -> bool:
        """Add what a running turn has brought since; it is not tried again later."""
        return self._note(lambda file: running.add_pieces(file, chat_id, turn, pieces))

    def has_message(self, chat_id: str, message_id: str) -> bool | None:
        """Return whether a chat has that message; None: that cannot be read."""
        if not self._flush():
            return None
        query = "SELECT 1 FROM message WHERE chat = ? AND id = ?"
        return self._read(lambda file: any(file.read(query, (chat_id, message_id))))

    def _settle(self) -> None:
        """Make messages of what killed servers have left, if the disk allows."""
        owner = None if self._owner is None else self._owner.token
        self._read(lambda file: running.settle(file, self._path, owner))

    def _noting(
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
        """Delete what was said in a chat, also what was not written yet."""

        def run(database: Database) -> None:
            kept = None if settings is None else encode_settings(settings)
            database.clear(chat_id, title=title, settings=kept)
            self._last.pop(chat_id, None)

        self._unwritten = deque(write for write in self._unwritten if write.chat != chat_id)
        return self._write(_Write(chat_id, run))

    def delete(self, chat_id: str) -> bool:
        """Delete everything of a chat, also what was not written yet."""

        def run(database: Database) -> None:
            database.delete(chat_id)
            self._last.pop(chat_id, None)

        self._unwritten = deque(write for write in self._unwritten if write.chat != chat_id)
        return self._write(_Write(chat_id, run))

    def add_before_images(
        self, chat_id: str, images: Sequence[BeforeImage]
    ) -> tuple[int, ...] | None:
        """Keep what files were; the numbers of these changes, None if they cannot be kept.

        It is not tried again later, for their bytes may be many.
        """
        if not self._flush():
            return None
        return self._read(lambda database: database.add_before_images(chat_id, images))

    def remove_before_images(self, noted: Noted) -> bool:
        """Forget what files were before changes that were not made."""
        return self._write(_Write(noted.chat, lambda file: file.remove_before_images(noted)))

    def before_images(self, chat_id: str) -> tuple[BeforeImage, ...]:
        """What the files were that a chat changed, in the order of the changes."""
        return tuple(self._read(lambda database: database.before_images(chat_id)) or ())

    def changes_since(self, chat_id: str, content_ids: Sequence[str]) -> Sequence[Change] | None:
        """All changes of a chat since one of these messages; None: they cannot be read."""
        if not self._flush():
            return None
        return self._read(lambda database: journal.changes_since(database, chat_id, content_ids))

    def content(self, number: int) -> KeptContent | None:
        """What a file was before a change; None: it cannot be read."""
        return self._read(lambda database: journal.content(database, number))

    def note_rollback(self, rollback: Rollback) -> bool:
        """Note what is to be undone; it is not tried again later."""
        return self._note(lambda database: journal.note(database, rollback))

    def note_step(self, chat_id: str, path: str) -> bool:
        """Note that a step is done; it is not tried again later."""
        return self._note(lambda database: journal.do_step(database, chat_id, path))

    def unfinished_rollbacks(self, workspace: str, chat_id: str) -> Sequence[Rollback]:
        """What was noted and not finished; nothing while an end of one waits to be written."""
        if not self._flush():
            return ()
        return self._read(lambda file: journal.unfinished(file, workspace, chat_id)) or ()

    def finish_rollback(
        self, rollback: Rollback, *, title: str | None, settings: ChatSettings | None
    ) -> bool:
        """End a rollback: its messages go; whether everything is on disk now."""

        def run(database: Database) -> None:
            kept = None if settings is None else encode_settings(settings)
            journal.finish(database, rollback, title=title, settings=kept)
            self._last.pop(rollback.chat, None)

        return self._write(_Write(rollback.chat, run))

    def tidy(self, should_end: Callable[[], bool]) -> None:
        """Rewrite the file if that is due; `should_end` is asked often whether to give up."""
        if self.rewrite_is_due:
            self._maintain(lambda database: database.rewrite(should_end))

    def empty_log(self) -> None:
        """Bring what is in the log into the file itself, unless another server is in the way."""
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
        """Write what is not written, tidy, and close; whether everything is on disk."""
        self._flush()
        self.tidy(should_end)
        self._drop()
        if self._owner is not None:
            self._owner.leave()
            self._owner = None
        return not self._unwritten

    def _note(self, action: Callable[[Database], None]) -> bool:
        """Write something that is not kept here if it fails; whether it is on disk."""

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
                _log.error("chat %s cannot be kept", chat, exc_info=fault)
                self._tell_once(f"Chat {chat} is not kept whole: {type(fault).__name__}.")
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
        """Do it on the open file; a damaged one is set aside and salvaged into a new one."""
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
                for sentence in mend_log(self._path):
                    self._tell_once(sentence)
                self._database = Database(self._path)
                if self._database.repaired:
                    self._tell_once(
                        f"{self._path} held {self._database.repaired} damaged values, which were "
                        "repaired or left out."
                    )
                if self._may_salvage:
                    self._may_salvage = False  # once: it may take long
                    for sentence in salvage_all(self._database, self._path):
                        self._tell_once(sentence)
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
        """Tell the user if somebody else wrote to a chat since we last did."""
        expected = self._last.get(chat.id, before)
        name = chat.title or chat.id
        if before > expected:
            self._tell_once(
                f"Another server added to the chat {name} meanwhile: both are kept, in the order "
                "of time."
            )
        elif before < expected:
            self._tell_once(
                f"Another server deleted the chat {name} meanwhile: what is said from now on is "
                "kept."
            )

    def _report(self, fault: BaseException) -> None:
        words = (isinstance(fault, OSError) and fault.strerror) or str(fault)
        _log.warning("%s: %s", self._path, words)
        if not self._told_of_fault:
            self._told_of_fault = True
            self._tell(f"Chats are not kept, they go on in memory: {self._path}: {words}.")

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(text)


def _is_of_the_disk(fault: Exception) -> bool:
    """Whether the same write may well succeed later, or elsewhere."""
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
    """The user's own words stand last in a message, after what was put before them."""
    if body is None:
        return ""
    try:
        message = decode_message(body)
    except UnreadableRow:
        return ""
    texts = [part.text for part in message.parts if isinstance(part, TextPart)]
    texts = texts or [message.shown or ""]
    return " ".join(texts[-1][: 4 * _BEGINNING].split())[:_BEGINNING] if texts else ""
