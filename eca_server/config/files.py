"""Configuration files: size-limited reads of regular files that never block.

A pipe or a device in a configuration's place would block the server for ever; it is rejected.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

MAX_BYTES = 4 * 2**20
_UNFOLLOWED = getattr(os, "O_NOFOLLOW", 0)
# Without O_NONBLOCK, opening a pipe waits for its writer.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _UNFOLLOWED

Stamp: TypeAlias = tuple[int, ...] | None
"""A fingerprint that changes when a file is written, replaced or made readable; None: no file."""


class Unreadable(Exception):
    """A file that cannot be read as text.

    Attributes:
        message: what was expected and what came.
        absent: the file does not exist.
        line: the line of the first invalid byte, counted from 1.
    """

    def __init__(self, message: str, *, absent: bool = False, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.absent = absent
        self.line = line


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of the file a path leads to; an inaccessible file counts as absent."""
    try:
        status = os.stat(path)  # noqa: PTH116 - half the time of Path.stat, and called often
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_text(path: Path, *, most: int = MAX_BYTES) -> str:
    """Return the UTF-8 text of a regular file of at most `most` bytes, without a byte order mark.

    Raises:
        Unreadable: the file is missing, too large, not UTF-8, or not a regular file.
    """
    return as_text(read_bytes(path, most=most))


def as_text(data: bytes) -> str:
    """Decode UTF-8, without a byte order mark.

    Raises:
        Unreadable: the data is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable("expected UTF-8, got other bytes", line=line) from None


def read_bytes(path: Path, *, most: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file of at most `most` bytes.

    Raises:
        Unreadable: the file is missing, too large, or not a regular file.
    """
    with _translate_errors():
        return _content_of(os.open(path, _FLAGS | _BINARY), most)


def read_real(path: Path, *, most: int = MAX_BYTES) -> bytes:
    """Return the content of a file by its real path: one without symbolic links.

    Raises:
        Unreadable: as `read_bytes`, or the path has a link now.
    """
    with _translate_errors():
        return _content_of(_open_real(path), most)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise Unreadable("the file does not exist", absent=True) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a possible path"
        raise Unreadable(f"expected a readable file, got: {reason}") from None


def is_inside(path: Path, root: Path) -> bool:
    """Return whether a path is inside a directory, links resolved; reads the disk."""
    try:
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))
    except ValueError:  # `\0` is in it
        return False


def expand_home(text: str, home: Path) -> Path:
    """Return a text as a path, with a leading `~/` replaced by the user's home."""
    return home / text[2:] if text.startswith("~/") else home if text == "~" else Path(text)


def _open_real(path: Path) -> int:
    """Open a real path step by step, so that a link created meanwhile is not followed."""
    if os.open not in os.supports_dir_fd:
        if os.path.realpath(path) != str(path):
            raise Unreadable("expected a path without symbolic links, one was added since")
        return os.open(path, _FLAGS | _BINARY)
    descriptor = os.open(path.anchor, _STEP)
    for depth, name in enumerate(path.parts[1:], start=1):
        flags = _STEP if depth < len(path.parts) - 1 else _FLAGS | _UNFOLLOWED
        try:
            below = os.open(name, flags, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _content_of(descriptor: int, most: int) -> bytes:
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise Unreadable(f"expected a regular file, got {_file_kind(mode)}")
        pieces, remaining = [], most + 1
        while piece := file.read(remaining):
            pieces.append(piece)
            remaining -= len(piece)
    if remaining <= 0:
        raise Unreadable(f"expected at most {most} bytes, got more")
    return b"".join(pieces)


def _file_kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device"
