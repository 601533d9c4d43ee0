"""Decompression of HTTP bodies, for servers that compress although they are asked not to.

A few bytes can decompress to gigabytes, so the content is returned in pieces. A server may compress
each event of a stream by itself: such a body is a sequence of gzip members.
"""

from __future__ import annotations

import zlib

from eca_protocol.errors import HTTPError

__all__ = ["Decompressor", "decompressor_for"]

PIECE = 64 * 1024
"""The size of a piece, in bytes."""

_MEMBER = b"\x1f\x8b"


class Decompressor:
    """The decompressed content of one body.

    Attributes:
        has_more: the received bytes have more content: call `decompress` without new ones.
    """

    def __init__(self) -> None:
        self.has_more: bool = False
        self._has_begun = False
        self._rest = b""
        self._member = zlib.decompressobj(wbits=47)

    @property
    def is_cut(self) -> bool:
        """True if the received bytes end within the compressed data."""
        return self._has_begun and not self._member.eof

    def decompress(self, chunk: bytes = b"") -> bytes:
        """Return the next piece of the content; ignore bytes behind the last gzip member.

        Raises:
            HTTPError: the bytes are no compressed data.
        """
        data = self._rest + chunk
        self._has_begun = self._has_begun or bool(data)
        if self._member.eof:
            if not data or not _MEMBER.startswith(data[:2]):
                self._rest, self.has_more = b"", False
                return b""
            self._member = zlib.decompressobj(wbits=47)
        try:
            piece = self._member.decompress(data, PIECE)
        except zlib.error as error:
            raise HTTPError("protocol", f"the body cannot be decompressed: {error}") from None
        self._rest = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        self.has_more = bool(self._rest) or len(piece) == PIECE
        return piece


def decompressor_for(encoding: str) -> Decompressor | None:
    """Return the decompressor for a `Content-Encoding`, or None for an uncompressed body."""
    match encoding.strip().lower():
        case "identity" | "":
            return None
        case "gzip" | "x-gzip" | "deflate":
            return Decompressor()
    raise HTTPError("protocol", f"expected an uncompressed body or gzip, got {encoding!r}")
