"""Files read whole, and bytes read as text.

The rules it keeps: only regular files are opened, so that a pipe or a device never hangs or acts;
no more is read than the caller allows; what is decoded can be encoded back, byte for byte.

Everything that takes a place touches the disk: call it in a worker thread.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, Self, TypeAlias

import attrs

from eca_server.workspace.boundary import Place
from eca_server.workspace.faults import Changed, NotAFile, NotText, TooLarge
from eca_server.workspace.opening import Directory, naming, open_directory

__all__ = [
    "Checkpoint",
    "Encoding",
    "FileSnapshot",
    "Fingerprint",
    "Newline",
    "Text",
    "decode",
    "open_file",
    "read_file",
]

Checkpoint: TypeAlias = Callable[[], object]
"""Called between pieces of long work; it raises to end it: `trio.from_thread.check_cancelled`."""

Encoding: TypeAlias = Literal["utf-8", "utf-16-le", "utf-16-be", "latin-1"]
Newline: TypeAlias = Literal["\n", "\r\n", "\r"]

PIECE = 1 << 20  # bytes handled between two checkpoints
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_BOMS: tuple[tuple[bytes, Encoding], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NEWLINE = re.compile(r"\r\n|\n|\r")
_CONTROLS = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
_ASCII = re.compile(rb"[\x00-\x7f]+")


@attrs.frozen(kw_only=True)
class Fingerprint:
    """A file's content at one moment. Two are equal if the contents are.

    Times and inodes are left out on purpose: a file can change within one tick of its clock, and
    be touched or saved again without a change.
    """

    size: int
    digest: bytes = attrs.field(repr=False)

    @classmethod
    def of(cls, data: bytes) -> Self:
        """The fingerprint of a content."""
        return cls(size=len(data), digest=hashlib.blake2b(data, digest_size=20).digest())


@attrs.frozen(kw_only=True)
class FileSnapshot:
    """A file as it was when it was read; `mode` are its permission bits."""

    data: bytes = attrs.field(repr=False)
    mode: int
    fingerprint: Fingerprint


@contextmanager
def open_file(place: Place) -> Iterator[BinaryIO]:
    """A regular file, open for reading while the block runs, unbuffered.

    Raises:
        NotAFile: it is something else.
        Moved: the path leads elsewhere now.
        OSError: it cannot be opened.
    """
    with naming(place), open_directory(place.real_path.parent) as directory:
        fd = open_regular(directory, place.real_path.name, place.path)
    with os.fdopen(fd, "rb", buffering=0) as file:
        yield file


def open_regular(directory: Directory, name: str, shown: Path | str) -> int:
    """A descriptor for reading; it is looked at first, for opening a device may do something."""
    found = directory.stat(name or os.curdir)
    if found is not None:
        must_be_regular(found, shown)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    fd = directory.open(name, flags | getattr(os, "O_BINARY", 0))
    try:
        must_be_regular(os.fstat(fd), shown)
    except BaseException:
        os.close(fd)
        raise
    return fd


def must_be_regular(found: os.stat_result, shown: Path | str) -> None:
    """Raise NotAFile unless it is a regular file."""
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "no regular file")
        raise NotAFile(f"expected a file, got {kind}: {str(shown)!r}")


def read_file(place: Place, *, limit: int, checkpoint: Checkpoint = lambda: None) -> FileSnapshot:
    """A whole file of at most `limit` bytes.

    Raises:
        TooLarge: it has more.
        NotAFile: it is a directory, a pipe, a socket or a device.
        Moved: the path leads elsewhere now.
        OSError: it cannot be read.
    """
    with naming(place), open_file(place) as file:
        found = os.fstat(file.fileno())
        _must_fit(found.st_size, limit, place)
        pieces: list[bytes] = []
        total = 0
        while piece := file.read(min(PIECE, limit + 1 - total)):
            checkpoint()
            pieces.append(piece)
            total += len(piece)
            _must_fit(total, limit, place)
    data = b"".join(pieces)
    return FileSnapshot(
        data=data, mode=stat.S_IMODE(found.st_mode), fingerprint=Fingerprint.of(data)
    )


def must_still_be(
    directory: Directory, name: str, expected: Fingerprint, place: Place, checkpoint: Checkpoint
) -> os.stat_result:
    """Raise Changed unless an entry still has the content it had; its stat, if so."""
    if directory.stat(name) is None:
        raise Changed(f"{str(place.path)!r} is gone since it was read")
    with os.fdopen(open_regular(directory, name, place.path), "rb", buffering=0) as file:
        found = os.fstat(file.fileno())
        digest = hashlib.blake2b(digest_size=20)
        size = 0
        while size <= expected.size and (piece := file.read(PIECE)):
            checkpoint()
            digest.update(piece)
            size += len(piece)
    if Fingerprint(size=size, digest=digest.digest()) != expected:
        raise Changed(f"{str(place.path)!r} has changed since it was read")
    return found


def _must_fit(size: int, limit: int, place: Place) -> None:
    if size > limit:
        raise TooLarge(
            f"expected a file of at most {limit:,} bytes, got {size:,} bytes: {str(place.path)!r}"
        )


@attrs.frozen(kw_only=True)
class Text:
    r"""A file's content as text, and what it takes to write it back as it was.

    Attributes:
        text: without the byte order mark; line ends as they are.
        encoding: what its bytes are.
        bom: the byte order mark it began with, often empty.
        newline: the line end it has most of, `\n` if it has none.
        final_newline: whether the last line ends like the others.
    """

    text: str
    encoding: Encoding
    bom: bytes
    newline: Newline
    final_newline: bool

    def encode(self, text: str | None = None) -> bytes:
        """This text, or another one in its place, as bytes of the same encoding.

        Raises:
            NotText: the encoding has no such character.
        """
        text = self.text if text is None else text
        try:
            return self.bom + text.encode(self.encoding)
        except UnicodeEncodeError as fault:
            character = text[fault.start]
            raise NotText(f"the file is {self.encoding}, which has no {character!r}") from None


def decode(data: bytes) -> Text:
    """Bytes as text: UTF-8, UTF-16 with its mark, Latin-1 where it is clearly text.

    Raises:
        NotText: none of these.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            try:
                return _text(data.removeprefix(bom), encoding, bom)
            except UnicodeDecodeError as fault:
                at = len(bom) + fault.start
                raise NotText(f"it begins as {encoding} and is not, at byte {at}") from None
    try:
        return _text(data, "utf-8", b"")
    except UnicodeDecodeError as fault:
        if _is_clearly_latin_1(data):
            return _text(data, "latin-1", b"")
        raise NotText(f"it is binary, or text of an unknown encoding: byte {fault.start}") from None


def _text(data: bytes, encoding: Encoding, bom: bytes) -> Text:
    text = data.decode(encoding)
    nul = text.find("\0")
    if nul >= 0:
        raise NotText(f"it is binary: character {nul} is a NUL")
    found = Counter(_NEWLINE.findall(text))
    newlines: tuple[Newline, ...] = ("\n", "\r\n", "\r")
    return Text(
        text=text,
        encoding=encoding,
        bom=bom,
        newline=max(newlines, key=lambda each: found[each]),
        final_newline=text.endswith(("\n", "\r")),
    )


def _is_clearly_latin_1(data: bytes) -> bool:
    """Whether bytes that are no UTF-8 look like a text of western Europe."""
    high = len(data) - sum(map(len, _ASCII.findall(data)))
    return _CONTROLS.search(data) is None and high * 3 <= len(data)
