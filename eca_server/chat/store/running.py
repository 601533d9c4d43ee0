"""Running turns in the file of chats: the messages of each turn so far, in pieces.

Rules: a piece is written once, so that a growing answer costs by what is new of it;
the transaction that stores the turn whole deletes the pieces. The next server that reads chats
makes messages of the pieces of a killed server, with a mark behind them. A lock on a file of its
own shows that a server lives; the turns of a living server are left alone.
"""

from __future__ import annotations

import os
import re
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from eca_server.chat.store.rows import UnreadableRow, decode_message, encode_message
from eca_server.llm.history import (
    Message,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)

if TYPE_CHECKING:
    import sqlite3

    from eca_server.chat.store.database import Database

__all__ = ["SCHEMA", "Owner", "Piece", "Running", "add_pieces", "joined", "settle", "update"]

SCHEMA: Final = (
    """CREATE TABLE running_turn (
        chat TEXT NOT NULL,
        turn TEXT NOT NULL,
        owner TEXT NOT NULL,
        PRIMARY KEY (chat, turn)
    )""",
    """CREATE TABLE running_piece (
        chat TEXT NOT NULL,
        turn TEXT NOT NULL,
        message INTEGER NOT NULL,
        piece INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (chat, turn, message, piece)
    )""",
)
"""The tables: which turns run, under the id of each one's prompt, and their pieces."""

CUT_OFF: Final = Message(
    role="user",
    parts=(
        TextPart(
            "[The server ended before the answer to the last message was complete. Treat that "
            "answer as incomplete. A call without a result may have run: check before repeating "
            "it.]"
        ),
    ),
    interrupted=True,
)
"""The mark after a turn that was cut off, with the text for the model; it is no prompt."""

UNKNOWN_RESULT: Final = (
    "The server ended before this call did: it may have run, completely or in part."
)

_LEFT_BEHIND_SECONDS: Final = 60.0
_TOKEN: Final = re.compile(r"[0-9a-f]{32}")


@attrs.frozen(kw_only=True)
class Running:
    """The state of a turn in the store.

    Attributes:
        turn: the content id of its prompt.
        stored: the number of its messages that are stored as such.
        is_over: the turn has ended, and all of its messages are stored.
    """

    turn: str
    stored: int = 0
    is_over: bool = False


@attrs.frozen(kw_only=True)
class Piece:
    """A piece of a message of a running turn.

    Attributes:
        message: the number of the message in its turn.
        number: of the piece in its message; the first one takes the place of all there are.
        body: the new part of the message.
    """

    message: int
    number: int
    body: Message


class Owner:
    """The name under which this server's turns run, valid while the process lives.

    Attributes:
        token: the name.
    """

    def __init__(self, path: Path) -> None:
        """Take a new name, and remove the files of servers that were killed.

        Args:
            path: the file of chats.

        Raises:
            OSError: the lock's file cannot be made.
        """
        _sweep(path)
        self.token = uuid.uuid4().hex
        self._file = _lock_file(path, self.token)
        self._descriptor = os.open(self._file, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        _lock(self._descriptor)

    def leave(self) -> None:
        """Give the name up."""
        os.close(self._descriptor)
        with suppress(OSError):
            self._file.unlink()


def update(
    execute: Callable[..., sqlite3.Cursor], chat: str, running: Running, owner: str | None
) -> None:
    """Note that a turn runs, or has ended; in the transaction that stores messages of it."""
    if running.is_over:
        _forget(execute, chat, running.turn)
    elif owner is not None:
        row = (chat, running.turn, owner)
        execute("INSERT OR IGNORE INTO running_turn VALUES (?, ?, ?)", row)
        execute(
            "DELETE FROM running_piece WHERE chat = ? AND turn = ? AND message < ?",
            (chat, running.turn, running.stored),
        )


def add_pieces(database: Database, chat: str, turn: str, pieces: Iterable[Piece]) -> None:
    """Add new pieces of a turn; do nothing if the turn does not run any more."""
    rows = [(each.message, each.number, encode_message(each.body)) for each in pieces]
    with database.writing() as execute:
        runs = execute("SELECT 1 FROM running_turn WHERE chat = ? AND turn = ?", (chat, turn))
        for message, number, body in rows if runs.fetchone() else ():
            if number == 0:
                execute(
                    "DELETE FROM running_piece WHERE chat = ? AND turn = ? AND message = ?",
                    (chat, turn, message),
                )
            row = (chat, turn, message, number, body)
            execute("INSERT OR REPLACE INTO running_piece VALUES (?, ?, ?, ?, ?)", row)


def settle(database: Database, path: Path, owner: str | None) -> None:
    """Make messages of the pieces of killed servers.

    Args:
        database: the file.
        path: its path.
        owner: this server's name; its own turns are left alone.
    """
    turns = [*database.read("SELECT chat, turn, owner FROM running_turn", ())]
    tokens = {f"{token}" for _, _, token in turns} - {owner}
    over = {token for token in tokens if _is_over(path, token)}
    for chat, turn, token in turns:
        if token in over:
            _settle(database, chat, turn)
    for token in over:
        _remove(path, token)


def joined(parts: Iterable[Part]) -> Iterator[Part]:
    """Join neighbouring parts of one kind, if they are text alone."""
    for kind, run in groupby(parts, type):
        if kind in _GROWING:
            yield _GROWING[kind]("".join(part.text for part in run if isinstance(part, _TEXTS)))
        else:
            yield from run


_TEXTS: Final = (TextPart, RefusalPart, ReasoningPart)
_GROWING: Final[Mapping[type[Part], Callable[[str], Part]]] = MappingProxyType(
    {
        TextPart: TextPart,
        RefusalPart: RefusalPart,
        ReasoningPart: lambda text: ReasoningPart(text=text),
    }
)


def _settle(database: Database, chat: str, turn: str) -> None:
    with database.writing() as execute:
        pieces = execute(
            "SELECT message, body FROM running_piece WHERE chat = ?1 AND turn = ?2"
            " AND EXISTS (SELECT 1 FROM running_turn WHERE chat = ?1 AND turn = ?2)"
            " ORDER BY message, piece",
            (chat, turn),
        ).fetchall()
        last_sequence = execute(
            "SELECT (SELECT max(sequence) FROM message WHERE chat = ?1) FROM message, running_turn"
            " WHERE message.chat = ?1 AND message.id = ?2"
            " AND running_turn.chat = ?1 AND running_turn.turn = ?2",
            (chat, turn),
        ).fetchone()
        if last_sequence is not None:  # else it was rolled back, or another server has settled it
            messages = [*_messages(pieces), CUT_OFF]
            for number, message in enumerate(messages, 1):
                name = message.content_id or f"-{turn}-{number}"
                row = (chat, last_sequence[0] + number, name, encode_message(message))
                execute("INSERT OR IGNORE INTO message VALUES (?, ?, ?, ?)", row)
        _forget(execute, chat, turn)


def _messages(pieces: Iterable[tuple[int, bytes]]) -> list[Message]:
    """Return the messages that pieces make; leave out a piece that cannot be read."""
    by_number: dict[int, list[Message]] = {}
    for number, body in pieces:
        with suppress(UnreadableRow):
            by_number.setdefault(number, []).append(decode_message(body))
    messages = []
    for pieces_of_message in by_number.values():
        parts = tuple(part for each in pieces_of_message for part in each.parts)
        if pieces_of_message[0].interrupted:
            parts = tuple(map(_trimmed, joined(parts)))
        messages.append(attrs.evolve(pieces_of_message[0], parts=parts))
    return _answered(messages)


def _trimmed(part: Part) -> Part:
    """Strip the blank lines that separate two thoughts from the ends of a thought."""
    return ReasoningPart(text=part.text.strip()) if isinstance(part, ReasoningPart) else part


def _answered(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with a result for each call of a whole answer."""
    results = {
        part.call_id
        for message in messages
        for part in message.parts
        if isinstance(part, ToolResultPart)
    }
    answered: list[Message] = []
    for message in messages:
        calls = [part.id for part in message.parts if isinstance(part, ToolCallPart)]
        unknown_results = tuple(
            ToolResultPart(call_id=each, parts=(TextPart(UNKNOWN_RESULT),), is_error=True)
            for each in calls
            if each not in results and not message.interrupted
        )
        answered.append(message)
        if unknown_results:
            answered.append(Message(role="tool", parts=unknown_results))
    return answered


def _forget(execute: Callable[..., sqlite3.Cursor], chat: str, turn: str) -> None:
    for table in ("running_turn", "running_piece"):
        execute(f"DELETE FROM {table} WHERE chat = ? AND turn = ?", (chat, turn))  # noqa: S608


_FLAGS: Final = os.O_RDWR | getattr(os, "O_CLOEXEC", 0)


def _lock_file(path: Path, token: str) -> Path:
    return path.with_name(f"{path.name}.turns-{token}")


def _lock(descriptor: int) -> bool:
    """Lock a file for as long as it is open; return whether that was possible."""
    if sys.platform == "win32":  # a file that is open cannot be removed there: that is the lock
        return True
    import fcntl  # noqa: PLC0415 - POSIX only

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_over(path: Path, token: str) -> bool:
    """Return whether the server of that name has ended."""
    if not _TOKEN.fullmatch(token):
        return True
    file = _lock_file(path, token)
    try:
        if sys.platform == "win32":
            file.unlink()
            return True
        descriptor = os.open(file, _FLAGS)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        return _lock(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path, token: str) -> None:
    if _TOKEN.fullmatch(token):
        with suppress(OSError):
            _lock_file(path, token).unlink()


def _sweep(path: Path) -> None:
    """Remove old files of killed servers; a young one may not be locked yet."""
    for file in path.parent.glob(f"{path.name}.turns-*"):
        token = file.name.rpartition("-")[2]
        with suppress(OSError):
            is_old = time.time() - file.stat().st_mtime > _LEFT_BEHIND_SECONDS
            if is_old and _is_over(path, token):
                _remove(path, token)
