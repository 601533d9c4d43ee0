"""Reading whole files, and decoding bytes to text.

The rules of this module: only regular files are opened, since a pipe or a device may block or have
side effects. No more bytes are read than the caller allows. Decoded text can be encoded back, byte
for byte.

Everything that takes a `Place` accesses the disk: call it in a worker thread.
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

from eca_server.workspace.boundary import Place, errors_naming
from eca_server.workspace.errors import ContentChanged, NotRegularFile, NotText, TooLarge
from eca_server.workspace.opening import Directory, open_directory

Checkpoint: TypeAlias = Callable[[], object]
"""A function called between pieces of long work, which raises to end the work.

An example is `trio.from_thread.check_cancelled`.
"""

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
    """The size and digest of a file's content.

    Times and inodes are left out: a file can change within one tick of its clock, and can be
    touched or saved again without a change.
    """

    size: int
    digest: bytes = attrs.field(repr=False)

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Return the fingerprint of a content."""
        return cls(size=len(data), digest=hashlib.blake2b(data, digest_size=20).digest())


@attrs.frozen(kw_only=True)
class FileSnapshot:
    """A file's content, permission bits (`mode`) and group at the time it was read."""

    data: bytes = attrs.field(repr=False)
    mode: int
    group: int
    fingerprint: Fingerprint


@contextmanager
def open_file(place: Place) -> Iterator[BinaryIO]:
    """Open a regular file for reading while the block runs, unbuffered.

    Raises:
        NotRegularFile: it is not a regular file.
        PathChanged: the path leads to a different file now.
        OSError: it cannot be opened.
    """
    with errors_naming(place), open_directory(place.real_path.parent) as directory:
        fd = open_regular(directory, place.real_path.name, place.path)
    with os.fdopen(fd, "rb", buffering=0) as file:
        yield file


def open_regular(directory: Directory, name: str, shown: Path | str) -> int:
    """Open a regular file and return its descriptor.

    The kind is checked before the file is opened, since opening a device may have side effects.
    """
    status = directory.stat(name or os.curdir)
    if status is not None:
        ensure_regular(status, shown)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    fd = directory.open(name, flags | getattr(os, "O_BINARY", 0))
    try:
        ensure_regular(os.fstat(fd), shown)
    except BaseException:
        os.close(fd)
        raise
    return fd


def ensure_regular(status: os.stat_result, shown: Path | str) -> None:
    """Raise NotRegularFile unless the status is that of a regular file."""
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise NotRegularFile(f"expected a file, got {kind}: {str(shown)!r}")


def read_file(place: Place, *, limit: int, checkpoint: Checkpoint = lambda: None) -> FileSnapshot:
    """Read a whole file of at most `limit` bytes.

    Raises:
        TooLarge: it has more bytes.
        NotRegularFile: it is a directory, a pipe, a socket or a device.
        PathChanged: the path leads to a different file now.
        OSError: it cannot be read.
    """
    with errors_naming(place), open_file(place) as file:
        status = os.fstat(file.fileno())
        _ensure_size(status.st_size, limit, place)
        pieces: list[bytes] = []
        total = 0
        while piece := file.read(min(PIECE, limit + 1 - total)):
            checkpoint()
            pieces.append(piece)
            total += len(piece)
            _ensure_size(total, limit, place)
    data = b"".join(pieces)
    return FileSnapshot(
        data=data,
        mode=stat.S_IMODE(status.st_mode),
        group=status.st_gid,
        fingerprint=Fingerprint.of(data),
    )


def ensure_unchanged(
    directory: Directory, name: str, expected: Fingerprint, place: Place, checkpoint: Checkpoint
) -> os.stat_result:
    """Return the status of an entry; raise ContentChanged unless it has the expected content."""
    if directory.stat(name) is None:
        raise ContentChanged(f"{str(place.path)!r} was removed since it was read")
    with os.fdopen(open_regular(directory, name, place.path), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        digest = hashlib.blake2b(digest_size=20)
        size = 0
        while size <= expected.size and (piece := file.read(PIECE)):
            checkpoint()
            digest.update(piece)
            size += len(piece)
    if Fingerprint(size=size, digest=digest.digest()) != expected:
        raise ContentChanged(f"{str(place.path)!r} has changed since it was read")
    return status


def _ensure_size(size: int, limit: int, place: Place) -> None:
    if size > limit:
        raise TooLarge(
            f"expected a file of at most {limit:,} bytes, got {size:,} bytes: {str(place.path)!r}"
        )


@attrs.frozen(kw_only=True)
class Text:
    r"""A file's content as text, with all that is needed to write it back unchanged.

    Attributes:
        text: without the byte order mark; line ends unchanged.
        encoding: of the bytes.
        bom: the byte order mark, often empty.
        newline: the most frequent line end; `\n` if there is none.
    """

    text: str
    encoding: Encoding
    bom: bytes
    newline: Newline

    def encode(self, text: str | None = None) -> bytes:
        """Return this text, or `text` in its place, as bytes of the same encoding.

        Raises:
            NotText: the encoding cannot represent a character.
        """
        text = self.text if text is None else text
        try:
            return self.bom + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = text[error.start]
            raise NotText(f"the file is {self.encoding}, which has no {character!r}") from None


def decode(data: bytes) -> Text:
    """Decode UTF-8, UTF-16 with its byte order mark, or Latin-1 where it is clearly text.

    Raises:
        NotText: it is none of these.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            try:
                return _text(data.removeprefix(bom), encoding, bom)
            except UnicodeDecodeError as error:
                at = len(bom) + error.start
                raise NotText(f"it is not valid {encoding}, at byte {at}") from None
    try:
        return _text(data, "utf-8", b"")
    except UnicodeDecodeError as error:
        if _is_clearly_latin_1(data):
            return _text(data, "latin-1", b"")
        raise NotText(
            f"it is binary, or not in UTF-8, UTF-16 or Latin-1 (byte {error.start})"
        ) from None


def _text(data: bytes, encoding: Encoding, bom: bytes) -> Text:
    text = data.decode(encoding)
    nul = text.find("\0")
    if nul >= 0:
        raise NotText(f"it is binary: character {nul} is a NUL")
    counts = Counter(_NEWLINE.findall(text))
    newlines: tuple[Newline, ...] = ("\n", "\r\n", "\r")
    return Text(
        text=text,
        encoding=encoding,
        bom=bom,
        newline=max(newlines, key=lambda each: counts[each]),
    )


def _is_clearly_latin_1(data: bytes) -> bool:
    """Return True if bytes that are not UTF-8 look like a Western European text."""
    high = len(data) - sum(map(len, _ASCII.findall(data)))
    return _CONTROLS.search(data) is None and high * 3 <= len(data)
