"""The submodules in the index of a Git repository.

Git follows such an entry without a `.gitmodules`, too. The rule of this module: an index that
cannot be parsed as Git does is an error, so that no entry is overlooked.
"""

from __future__ import annotations

import os
import stat
import struct
from functools import lru_cache
from pathlib import Path

from eca_server.config.files import Unreadable, read_bytes

_LARGEST = 64 * 1024 * 1024
_HASHES = (20, 32)
_HEADER = struct.Struct(">4sII")
_EXTENSION = struct.Struct(">4sI")
_FLAGS = struct.Struct(">H")
_MODE = struct.Struct(">I")
_MODE_AT = 24
_HASH_AT = 40
_IS_EXTENDED = 0x4000
_LENGTH = 0x0FFF
_GITLINK = 0o160000
_TYPES = frozenset({stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR, _GITLINK})


class UnreadableRepository(Exception):
    """A file of a repository cannot be read as Git reads it."""


def submodule_paths(index: Path) -> tuple[str, ...]:
    """Return the paths of the submodules in an index, relative to the work tree; read the disk.

    Raises:
        UnreadableRepository: it is too large, damaged, or split into two files.
    """
    try:
        status = index.stat()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise UnreadableRepository(f"{index} cannot be read") from error
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return _paths(index, (*times, status.st_size, status.st_ino))


@lru_cache(maxsize=16)
def _paths(index: Path, _version: tuple[int, ...]) -> tuple[str, ...]:
    data = _read(index)
    paths: dict[str, None] = {}
    is_parsed = False
    for size in _HASHES:  # the configuration has the size, but a wrong one is noticed anyway
        try:
            names = _parsed(data, size)
        except (struct.error, ValueError):
            continue
        is_parsed = True
        paths.update(dict.fromkeys(map(os.fsdecode, names)))
    if not is_parsed:
        raise UnreadableRepository(f"{index} cannot be read")
    return tuple(paths)


def _read(index: Path) -> bytes:
    try:
        return read_bytes(index, most=_LARGEST)
    except Unreadable as error:
        raise UnreadableRepository(f"{index} cannot be read") from error


def _parsed(data: bytes, hash_size: int) -> list[bytes]:
    """Return the names of the gitlinks.

    Raises:
        ValueError, struct.error: the data is no index with hashes of this size.
    """
    signature, version, count = _HEADER.unpack_from(data)
    if signature != b"DIRC" or version not in {2, 3, 4}:
        raise ValueError("expected an index")
    paths: list[bytes] = []
    at, name = _HEADER.size, b""
    for _ in range(count):
        (mode,) = _MODE.unpack_from(data, at + _MODE_AT)
        if stat.S_IFMT(mode) not in _TYPES:
            raise ValueError("expected a mode")
        name, at = _name(data, at, at + _HASH_AT + hash_size, name if version == 4 else None)
        if stat.S_IFMT(mode) == _GITLINK:
            paths.append(name)
    while at <= len(data) - hash_size - _EXTENSION.size:
        extension, size = _EXTENSION.unpack_from(data, at)
        if extension == b"link":
            raise ValueError("expected an index in one file")
        at += _EXTENSION.size + size
    if at != len(data) - hash_size:
        raise ValueError("expected a hash at the end")
    return paths


def _name(data: bytes, start: int, at: int, previous: bytes | None) -> tuple[bytes, int]:
    """Return the name of the entry at `start` with its flags at `at`, and the start of the next.

    The name continues the previous one; if that is None, names are whole and padded.
    """
    (flags,) = _FLAGS.unpack_from(data, at)
    at += 4 if flags & _IS_EXTENDED else 2
    prefix = b""
    if previous is not None:
        removed, at = _number(data, at)
        if removed > len(previous):
            raise ValueError("expected a shorter number")
        prefix = previous[: len(previous) - removed]
    end = data.index(b"\0", at)
    name = prefix + data[at:end]
    length = flags & _LENGTH
    if not name or (length != min(len(name), _LENGTH)):
        raise ValueError("expected a name of the stated length")
    return name, end + 1 if previous is not None else start + (end - start + 8) // 8 * 8


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and the position after it."""
    value = -1
    for position in range(at, min(at + 8, len(data))):
        value = (value + 1) << 7 | (data[position] & 0x7F)
        if not data[position] & 0x80:
            return value, position + 1
    raise ValueError("expected a number")
