"""The beginning of a text file of any size, or some of its lines.

The rules of this module: no more text is held than requested; the number of omitted bytes is
reported (ruling W-38); a file that is not text is refused.

Everything here accesses the disk: call it in a worker thread.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from typing import BinaryIO

import attrs

from eca_protocol.messages import LinesRange
from eca_server.agent.tools.output import cut_mark
from eca_server.workspace.boundary import Place
from eca_server.workspace.errors import FileError, NotText, TooLarge
from eca_server.workspace.reading import Checkpoint, decode, open_file

_LOOKED_AT = 1 << 16  # bytes read to detect the encoding
_PIECE = 1 << 18  # bytes read between two checkpoints
_FARTHEST = 1 << 28  # bytes read to reach a line
_UTF_16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_LAST_CHARACTER = re.compile(rb"[\xc0-\xff][\x80-\xbf]{0,3}\Z")


@attrs.frozen(kw_only=True)
class Excerpt:
    r"""A part of a file's text.

    Attributes:
        text: the part, with `\n` as line ends, without a mark.
        left_out: requested bytes that are not in it.
    """

    text: str
    left_out: int = 0

    @property
    def marked(self) -> str:
        """The text, with a mark at its end if it was cut."""
        if not self.left_out:
            return self.text
        gap = "" if self.text.endswith("\n") or not self.text else "\n"
        return f"{self.text}{gap}{cut_mark(self.left_out)}"


def read_excerpt(
    place: Place,
    *,
    size: int,
    lines: LinesRange | None = None,
    checkpoint: Checkpoint = lambda: None,
) -> Excerpt:
    """Read the text of a file, at most `size` bytes of UTF-8.

    Args:
        place: the file.
        size: the maximum size; the text is cut at a line end if one is near.
        lines: the only lines to read, from 1, inclusive; the end may be past the file's.
        checkpoint: called between pieces; an exception of it ends the call.

    Raises:
        NotText: it is binary, or its encoding is unknown.
        TooLarge: the lines are too far into the file.
        FileError: it is not a regular file, its path changed, or the lines are past its end.
        OSError: it cannot be read.
    """
    with open_file(place) as file:
        head = file.read(_LOOKED_AT) or b""  # None: a file of /proc has nothing at present
        encoding, start = _encoding(head, whole=len(head) < _LOOKED_AT)
        file.seek(start)
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        pieces = _pieces(file, decoder, checkpoint)
        if lines is not None:
            return _fitting(*_lines_in(pieces, lines, size), size=size)
        parts: list[str] = []
        for piece in pieces:
            parts.append(piece)
            if sum(map(len, parts)) > size:
                break
        unread = max(os.fstat(file.fileno()).st_size - file.tell(), 0)
        undecoded = len(decoder.getstate()[0])  # the first half of a character
        return _fitting("".join(parts), unread + undecoded, size=size)


def _encoding(head: bytes, *, whole: bool) -> tuple[str, int]:
    """Return a file's encoding by its first bytes, and the offset of the text."""
    for bom, encoding in _UTF_16.items():
        if head.startswith(bom):
            return encoding, len(bom)
    text = decode(head if whole else _LAST_CHARACTER.sub(b"", head))
    return text.encoding, len(text.bom)


def _pieces(
    file: BinaryIO, decoder: codecs.IncrementalDecoder, checkpoint: Checkpoint
) -> Iterator[str]:
    while data := file.read(_PIECE):
        checkpoint()
        piece = decoder.decode(data)
        if "\0" in piece:
            raise NotText("it is binary: it has a NUL")
        yield piece
    yield decoder.decode(b"", final=True)


def _lines_in(pieces: Iterator[str], lines: LinesRange, size: int) -> tuple[str, int]:
    """Return the requested lines, and the number of their bytes that did not fit."""
    first = max(lines.start, 1)
    last = max(lines.end, first)
    number = 1  # of the line at the beginning of the piece
    parts: list[str] = []
    held = left_out = position = 0
    ending = ""
    for piece in pieces:
        breaks = piece.count("\n")
        if number + breaks >= first:
            part = piece[_after(piece, first - number) : _after(piece, last - number + 1)]
            if held > size:
                left_out += len(part.encode())
            else:
                parts.append(part)
                held += len(part)
        number += breaks
        if number > last:
            break
        ending = piece[-1:] or ending
        position += len(piece)
        if position > _FARTHEST:
            raise TooLarge(f"line {last} is more than {_FARTHEST >> 20} MiB into the file")
    if not held and first > 1:
        last_line = number - (ending in ("", "\n"))
        raise FileError(f"expected a line up to {last_line}, the last one, got {first}")
    return "".join(parts), left_out


def _after(text: str, breaks: int) -> int:
    """Return the position after a number of line breaks; the end of the text if it has fewer."""
    position = 0
    for _ in range(breaks):
        position = text.find("\n", position) + 1
        if not position:
            return len(text)
    return position


def _fitting(text: str, left_out: int, *, size: int) -> Excerpt:
    data = text.encode()
    if len(data) > size:
        head = data[:size].decode(errors="ignore")
        line_end = head.rfind("\n") + 1
        text = head[:line_end] if line_end * 2 > len(head) else head
        left_out += len(data) - len(text.encode())
    return Excerpt(text=text.replace("\r\n", "\n"), left_out=left_out)
