"""The state of the file of chats for `doctor`: its header is read, no database is opened.

While a server has the file open, its newest header may be in the log.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from eca_server.agent.chat.store.schema import MIGRATIONS
from eca_server.agent.chat.store.wal import first_page_in_log

_MAGIC: Final = b"SQLite format 3\0"
_VERSION: Final = slice(60, 64)
"""The place of `user_version` in the header of an SQLite file."""


def problem_of(path: Path) -> str | None:
    """Return why chats cannot be stored in a file, or None. Touches the disk."""
    try:
        header = _header(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if header and not header.startswith(_MAGIC):
        return "it is damaged: the next chat sets it aside and begins a new file"
    if (newer := _newer_version(header)) is not None:
        return f"{newer}: chats stay only in memory. Upgrade this server"
    if not all(os.access(each, os.W_OK) for each in (path, path.parent)):
        return "it cannot be written: chats stay only in memory"
    return None


def newer_version_of(path: Path) -> str | None:
    """Return why this server is too old to read a file, or None. Touches the disk.

    Raises:
        OSError: the file cannot be read.
    """
    header = _header(path)
    return _newer_version(header) if header.startswith(_MAGIC) else None


def _header(path: Path) -> bytes:
    if not stat.S_ISREG(path.stat().st_mode):  # to open a named pipe may take for ever
        raise OSError(errno.EINVAL, "not a regular file")
    with path.open("rb") as file:
        header = file.read(_VERSION.stop)
    return first_page_in_log(path)[: _VERSION.stop] or header


def _newer_version(header: bytes) -> str | None:
    version = int.from_bytes(header[_VERSION], "big")
    if version <= len(MIGRATIONS):
        return None
    return f"a newer server has written it (version {version}, expected {len(MIGRATIONS)} or older)"


def describe(path: Path) -> str:
    """Return the path of the file of chats and its state. Touches the disk."""
    state = problem_of(path) or ("present" if path.exists() else "none yet")
    return f"{path}: {state}"
