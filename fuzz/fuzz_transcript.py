"""The joined pieces of a session are its bytes for any size of chunks; transcripts round-trip."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime

from runner import bytewise, cut, instrumented, main

with instrumented():
    from eca_protocol.framing import encode_frame
    from eca_protocol.transcript import (
        DataEntry,
        Entry,
        encode_entry,
        encode_header,
    )
    from eca_protocol.transcript.reader import TranscriptReader
    from eca_protocol.transcript.splitter import Piece, Splitter

HEAD = encode_header(datetime(2025, 10, 1, tzinfo=UTC), ["eca", "server"])


def read(data: bytes) -> tuple[Entry, ...]:
    return tuple(TranscriptReader("transcript").feed(data))


def pieces_of(parts: Iterable[bytes]) -> list[Piece]:
    splitter = Splitter()
    return [piece for part in parts for piece in splitter.feed(part)] + splitter.feed_eof()


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Merge the pieces between messages; a too long body has one piece per chunk."""
    merged: list[Piece] = []
    for piece, body in pieces:
        if body is None and merged and merged[-1][1] is None:
            merged[-1] = merged[-1][0] + piece, None
        else:
            merged.append((piece, body))
    return merged


def check(data: bytes) -> None:
    """Check `data`: the stream of a side or, with a `{` in front, entries of a transcript."""
    if data.startswith(b"{"):
        check_lines(data)
        return
    whole = pieces_of([data])
    assert joined(pieces_of(bytewise(data))) == joined(whole)
    assert joined(pieces_of(cut(data))) == joined(whole)
    assert b"".join(piece for piece, _ in whole) == data
    entries = tuple(
        DataEntry(at=1.5, side="client", data=piece, body=body) for piece, body in whole
    )
    assert read(HEAD + b"".join(map(encode_entry, entries))) == entries
    for _, body in whole:
        if body is not None:
            assert pieces_of([encode_frame(body)]) == [(encode_frame(body), body)]


def check_lines(data: bytes) -> None:
    try:
        entries = read(HEAD + data + b"\n")
    except ValueError as fault:
        assert str(fault).startswith("transcript:")
        return
    assert len(entries) == data.count(b"\n") + 1
    if all(math.isfinite(entry.at) for entry in entries):
        lines = [encode_entry(entry) for entry in entries]
        again = read(HEAD + b"".join(lines))
        assert [encode_entry(entry) for entry in again] == lines


if __name__ == "__main__":
    main("transcript", check)
