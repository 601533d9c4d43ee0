"""The splitting of a stream into messages and other bytes, without loss.

Unlike the decoders of `framing` it reports no errors and drops no bytes: the joined pieces are the
stream. A message is a block of header lines with one length, and a JSON object of that length.
A length that is too large ends at the next header, whose bytes cannot be in JSON.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_protocol.framing import MAX_BODY, MAX_HEADER

Piece: TypeAlias = tuple[bytes, bytes | None]
"""Bytes of the stream, and the body if they are a message."""

_LENGTH = re.compile(rb"(?im)^[ \t]*content-length[ \t]*:[ \t]*([0-9]{1,18})[ \t]*\r?$")
_PLAIN = re.compile(rb"Content-Length: ([0-9]{1,9})\r\n\r\n")
_LONGEST_PLAIN = len(b"Content-Length: 999999999\r\n\r\n")


def message_in(body: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a body, or None."""
    try:
        message = json.loads(body)
    except InvalidJSON:
        return None
    return message if isinstance(message, dict) else None


def header_of(data: bytes | bytearray, start: int = 0) -> tuple[int, int | None] | None:
    """Return the end and the length of the header at `start`; None if it is incomplete."""
    plain = _PLAIN.match(data, start)
    if plain:
        return plain.end(), int(plain[1])
    position, has_line = start, False
    while (newline := data.find(b"\n", position)) >= 0:
        is_blank = bytes(data[position:newline]) in {b"", b"\r"}
        position = newline + 1
        if is_blank and has_line:
            lengths = set(map(int, _LENGTH.findall(bytes(data[start:position]))))
            return position, lengths.pop() if len(lengths) == 1 else None
        has_line = has_line or not is_blank
    return None


class Splitter:
    """A splitter of the stream of one side, fed in chunks of any size.

    Args:
        max_body: the longest body that is buffered, in bytes; the pieces of a longer one pass.
        max_header: the longest header that is buffered, in bytes.
    """

    def __init__(self, *, max_body: int = MAX_BODY, max_header: int = MAX_HEADER) -> None:
        self._max_body = max_body
        self._max_header = max_header
        self._buffer = bytearray()
        self._needed_size = 1  # bytes in the buffer that the next piece needs
        self._skipping = 0  # missing bytes of a body that is too long to be buffered

    def feed(self, data: bytes) -> list[Piece]:
        """Take the next bytes; return the pieces that they complete."""
        start = max(0, len(self._buffer) - _LONGEST_PLAIN)
        self._buffer += data
        if len(self._buffer) < self._needed_size and not _PLAIN.search(self._buffer, start):
            return []
        pieces: list[Piece] = []
        position = 0
        while (end := self._next(position, pieces)) is not None:
            position = end
        del self._buffer[:position]
        self._needed_size -= position
        return pieces

    def feed_eof(self) -> list[Piece]:
        """Take the end of the stream; return the rest as a piece, if any."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return [(rest, None)] if rest else []

    def _next(self, start: int, pieces: list[Piece]) -> int | None:
        """Append the piece at `start` to `pieces` and return its end; None if incomplete."""
        self._needed_size = start + 1
        if start == len(self._buffer):
            return None
        end, body = self._piece_end(start)
        is_whole = end <= len(self._buffer)
        content = bytes(self._buffer[body:end]) if is_whole and body is not None else None
        is_message = content is not None and message_in(content) is not None
        if body is not None and not is_message:
            following = _PLAIN.search(self._buffer, body, end - 1)
            if following is not None:
                is_whole, end = True, following.start()
        if not is_whole:
            self._needed_size = end
            return None
        pieces.append((bytes(self._buffer[start:end]), content if is_message else None))
        return end

    def _piece_end(self, start: int) -> tuple[int, int | None]:
        """Return the end of a piece, as far as it is known, and the start of its body."""
        size = len(self._buffer)
        if self._skipping:
            end = min(start + self._skipping, size)
            self._skipping -= end - start
            return end, None
        header = header_of(self._buffer, start)
        if header is None:
            return (size + 1 if size - start <= self._max_header else size), None
        body, length = header
        if length is None:
            return body, None
        if length > self._max_body:
            self._skipping = length
            return body, None
        return body + length, body
