"""Running turns in the file of chats: the messages of each turn so far, in pieces.

Rules: a piece is written once, so that a growing answer costs by what is new of it;
the transaction that stores the turn whole deletes the pieces. The next server that reads chats
makes messages of the pieces of a killed server, with a mark behind them. A lock on a file of its
own shows that a server lives; the turns of a living server are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from eca_server.agent.chat.store.coding import decode_message, encode_message
from eca_server.agent.chat.store.place import has_ended, remove_lock
from eca_server.agent.chat.store.rows import Piece, Running, UnreadableRow
from eca_server.models.history import (
    Message,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    parts_in,
)

if TYPE_CHECKING:
    from eca_server.agent.chat.store.file import ChatFile

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


def update(file: ChatFile, chat: str, running: Running) -> None:
    """Note that a turn runs, or has ended; in the transaction that stores messages of it."""
    if running.is_over:
        _forget(file, chat, running.turn)
    elif (owner := file.view.owner(file.path)) is not None:
        row = (chat, running.turn, owner)
        file.execute("INSERT OR IGNORE INTO running_turn VALUES (?, ?, ?)", row)
        file.execute(
            "DELETE FROM running_piece WHERE chat = ? AND turn = ? AND message < ?",
            (chat, running.turn, running.stored),
        )


def add_pieces(file: ChatFile, chat: str, turn: str, pieces: Iterable[Piece]) -> None:
    """Add new pieces of a turn; do nothing if the turn does not run any more."""
    runs = file.execute("SELECT 1 FROM running_turn WHERE chat = ? AND turn = ?", (chat, turn))
    for piece in pieces if runs.fetchone() else ():
        if piece.number == 0:
            file.execute(
                "DELETE FROM running_piece WHERE chat = ? AND turn = ? AND message = ?",
                (chat, turn, piece.message),
            )
        row = (chat, turn, piece.message, piece.number, encode_message(piece.body))
        file.execute("INSERT OR REPLACE INTO running_piece VALUES (?, ?, ?, ?, ?)", row)


def settle(file: ChatFile) -> None:
    """Make messages of the pieces of killed servers; this server's own turns are left alone."""
    turns = file.execute("SELECT chat, turn, owner FROM running_turn").fetchall()
    tokens = {f"{token}" for _, _, token in turns}
    over = {token for token in tokens if has_ended(file.path, token)}
    for chat, turn, token in turns:
        if token in over:
            file.transact(partial(_settle, chat=chat, turn=turn))
    for token in over:
        remove_lock(file.path, token)


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


def _settle(file: ChatFile, chat: str, turn: str) -> None:
    pieces = file.execute(
        "SELECT message, body FROM running_piece WHERE chat = ?1 AND turn = ?2"
        " AND EXISTS (SELECT 1 FROM running_turn WHERE chat = ?1 AND turn = ?2)"
        " ORDER BY message, piece",
        (chat, turn),
    ).fetchall()
    last_sequence = file.execute(
        "SELECT (SELECT max(sequence) FROM message WHERE chat = ?1) FROM message, running_turn"
        " WHERE message.chat = ?1 AND message.id = ?2"
        " AND running_turn.chat = ?1 AND running_turn.turn = ?2",
        (chat, turn),
    ).fetchone()
    if last_sequence is not None:  # else it was rolled back, or another server has settled it
        for number, message in enumerate([*_messages(pieces), CUT_OFF], 1):
            name = message.content_id or f"-{turn}-{number}"
            file.add_message(chat, last_sequence[0] + number, name, encode_message(message))
    _forget(file, chat, turn)


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
    results = {part.call_id for part in parts_in(messages, ToolResultPart)}
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


def _forget(file: ChatFile, chat: str, turn: str) -> None:
    for table in ("running_turn", "running_piece"):
        file.execute(f"DELETE FROM {table} WHERE chat = ? AND turn = ?", (chat, turn))  # noqa: S608
