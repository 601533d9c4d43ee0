"""The beginning of a text file, or some of its lines, however large the file is.

The rule it keeps: no more is held than the caller asks for, what is left out is told in bytes
(ruling W-38), and a file that is no text is refused.

Everything here touches the disk: call it in a worker thread.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from typing import BinaryIO

import attrs

from eca_protocol.messages import LinesRange
from eca_server.tools.output import cut_mark
from eca_server.workspace import (
    Checkpoint,
    FileError,
    NotText,
    Place,
    TooLarge,
    decode,
    open_file,
)

__all__ = ["Excerpt", "PastTheEnd", "read_excerpt"]

_LOOKED_AT = 1 << 16  # bytes that decide what a file's encoding is
_PIECE = 1 << 18  # bytes read between two checkpoints
_FARTHEST = 1 << 28  # bytes that are gone through for some lines
_UTF_16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_LAST_CHARACTER = re.compile(rb"[\xc0-\xff][\x80-\xbf]{0,3}\Z")


class PastTheEnd(FileError):
    """Lines were asked for that the file does not have."""


@attrs.frozen(kw_only=True)
class Excerpt:
    r"""Some of a file's text.

    Attributes:
        text: what was kept, its line ends as `\n`, without a mark.
        left_out: bytes of what was asked for and is not in it.
    """

    text: str
    left_out: int = 0

    @property
    def marked(self) -> str:
        """The text, and in words how much is missing, if something is."""
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
    """The text of a file, at most `size` bytes of UTF-8.

    Args:
        place: the file.
        size: how much is kept; a cut falls on a line's end where one is near.
        lines: only these, from 1, both included; an end past the file's is the file's.
        checkpoint: called between pieces; what it raises ends the reading.

    Raises:
        NotText: it is binary, or text of an unknown encoding.
        PastTheEnd: the first of the lines is past the end of the file.
        TooLarge: the lines are too far into the file to be looked for.
        FileError: it is no regular file, or moved.
        OSError: it cannot be read.
    """
    with open_file(place) as file:
        head = file.read(_LOOKED_AT)
        encoding, start = _encoding(head, whole=len(head) < _LOOKED_AT)
        file.seek(start)
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        pieces = _pieces(file, decoder, checkpoint)
        if lines is not None:
            return _fitting(*_lines_in(pieces, lines, size), size=size)
        kept: list[str] = []
        for piece in pieces:
            kept.append(piece)
            if sum(map(len, kept)) > size:
                break
        unread = max(os.fstat(file.fileno()).st_size - file.tell(), 0)
        undecoded = len(decoder.getstate()[0])  # the first half of a character
        return _fitting("".join(kept), unread + undecoded, size=size)


def _encoding(head: bytes, *, whole: bool) -> tuple[str, int]:
    """A file's encoding by its first bytes, and where the text begins."""
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
            raise NotText("it is binary: there is a NUL in it")
        yield piece
    yield decoder.decode(b"", final=True)


def _lines_in(pieces: Iterator[str], lines: LinesRange, size: int) -> tuple[str, int]:
    """The lines that were asked for, and how many bytes of them were too much to keep."""
    first = max(lines.start, 1)
    last = max(lines.end, first)
    number = 1  # of the line that the piece begins in
    kept: list[str] = []
    held = left_out = seen = 0
    ending = ""
    for piece in pieces:
        breaks = piece.count("\n")
        if number + breaks >= first:
            part = piece[_after(piece, first - number) : _after(piece, last - number + 1)]
            if held > size:
                left_out += len(part.encode())
            else:
                kept.append(part)
                held += len(part)
        number += breaks
        if number > last:
            break
        ending = piece[-1:] or ending
        seen += len(piece)
        if seen > _FARTHEST:
            raise TooLarge(f"line {last} is more than {_FARTHEST >> 20} MiB into the file")
    if not held and first > 1:
        there_are = number - (ending in ("", "\n"))
        raise PastTheEnd(f"line {first} was asked for, and the last one is {there_are}")
    return "".join(kept), left_out


def _after(text: str, breaks: int) -> int:
    """The position after so many line breaks; the text's end if it has fewer."""
    position = 0
    for _ in range(breaks):
        position = text.find("\n", position) + 1
        if not position:
            return len(text)
    return position


def _fitting(text: str, left_out: int, *, size: int) -> Excerpt:
    data = text.encode()
    if len(data) > size:
        kept = data[:size].decode(errors="ignore")
        line_end = kept.rfind("\n") + 1
        text = kept[:line_end] if line_end * 2 > len(kept) else kept
        left_out += len(data) - len(text.encode())
    return Excerpt(text=text.replace("\r\n", "\n"), left_out=left_out)
