"""A stream cut into messages and what is none, so that the pieces joined are the stream.

Unlike the decoders of `framing` it judges nothing and drops nothing: a message is a block of header
lines with one length, and that many bytes which are a JSON object.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_protocol.framing import MAX_BODY, MAX_HEADER

__all__ = ["Piece", "Splitter", "header_of", "message_in"]

Piece: TypeAlias = tuple[bytes, bytes | None]
"""Some bytes of the stream, and the body if they are a message."""

_LENGTH = re.compile(rb"(?im)^[ \t]*content-length[ \t]*:[ \t]*([0-9]{1,18})[ \t]*\r?$")
_PLAIN = re.compile(rb"Content-Length: ([0-9]{1,9})\r\n\r\n")


def message_in(body: bytes) -> dict[str, Any] | None:
    """The JSON object that a body is, if it is one."""
    try:
        message = json.loads(body)
    except InvalidJSON:
        return None
    return message if isinstance(message, dict) else None


def header_of(data: bytes | bytearray, start: int = 0) -> tuple[int, int | None] | None:
    """Where the header that begins there ends, and the length it tells; None: it is not whole."""
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
    """Cuts what one side writes; it is fed as the bytes come."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._needed_size = 1  # bytes in the buffer that are worth a look
        self._skipping = 0  # bytes to come of a body that is too long to be kept

    def feed(self, data: bytes) -> list[Piece]:
        """Take the next bytes; the pieces that they complete."""
        self._buffer += data
        if len(self._buffer) < self._needed_size:
            return []
        pieces: list[Piece] = []
        position = 0
        while (end := self._next(position, pieces)) is not None:
            position = end
        del self._buffer[:position]
        self._needed_size -= position
        return pieces

    def feed_eof(self) -> list[Piece]:
        """Take the end of the stream; what it cuts short is a piece."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return [(rest, None)] if rest else []

    def _next(self, start: int, pieces: list[Piece]) -> int | None:
        """Take the piece that begins there, if it is whole; where it ends."""
        self._needed_size = start + 1
        if start == len(self._buffer):
            return None
        end, body = self._piece_end(start)
        if end > len(self._buffer):
            self._needed_size = end
            return None
        content = None if body is None else bytes(self._buffer[body:end])
        is_message = content is not None and message_in(content) is not None
        pieces.append((bytes(self._buffer[start:end]), content if is_message else None))
        return end

    def _piece_end(self, start: int) -> tuple[int, int | None]:
        """Where a piece ends, as far as is known, and where in it a body begins."""
        there = len(self._buffer)
        if self._skipping:
            end = min(start + self._skipping, there)
            self._skipping -= end - start
            return end, None
        header = header_of(self._buffer, start)
        if header is None:
            return (there + 1 if there - start <= MAX_HEADER else there), None
        body, length = header
        if length is None:
            return body, None
        if length > MAX_BODY:
            self._skipping = length
            return body, None
        return body + length, body
