"""The location of stored chats: a private directory, the file, and the processes that use it.

Rules: only the user can read the files; a damaged file is never deleted; a file is not set aside
while another process has it open, since that process would then write to the log of the new file.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from eca_protocol.errors import ECAError
from eca_server.config import data_directory, make_data_directory
from eca_server.workspace.worktree import in_main_worktree

__all__ = [
    "BUSY_SECONDS",
    "RETRY_SECONDS",
    "SALVAGE_SUFFIX",
    "Presence",
    "StoreFault",
    "free_name",
    "make_private_file",
    "set_aside",
    "store_path",
    "workspace_key",
]

BUSY_SECONDS = 5.0
"""Seconds to wait for a process that writes, or examines damage, at the same time."""

RETRY_SECONDS = 0.005

SALVAGE_SUFFIX: Final = ".salvage"
"""Suffix of the directory in which a damaged file is salvaged; it exists until that is done."""

_CREATE: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)


class StoreFault(ECAError):
    """The file of chats cannot be used; the message gives the reason."""


def store_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's file of chats."""
    return data_directory(environ) / "chats.sqlite"


def workspace_key(roots: Iterable[Path]) -> str:
    """Return a key for a set of workspace roots, independent of their order and of links.

    All worktrees of a Git repository have the same key. The function reads files.
    """
    paths = sorted({os.fsencode(in_main_worktree(root)) for root in roots})
    return hashlib.sha256(b"\0".join(paths)).hexdigest()


def make_private_file(path: Path) -> None:
    """Make the directory and the empty file, if missing, readable only by the user.

    Raises:
        OSError: they cannot be made.
        StoreFault: the path exists and is not a regular file.
    """
    make_data_directory(path.parent)
    with suppress(FileExistsError):
        os.close(os.open(path, _CREATE | os.O_EXCL, 0o600))
    if not stat.S_ISREG(path.stat().st_mode):
        raise StoreFault("expected a regular file, got something else")
    for place, mode in ((path.parent, 0o700), (path, 0o600)):
        if stat.S_IMODE(place.stat().st_mode) & 0o077:
            with suppress(OSError):  # some file systems have no modes
                place.chmod(mode)


class Presence:
    """Marks the file as in use for other processes, by a shared lock on a lock file."""

    def __init__(self, path: Path) -> None:
        """Mark the file as in use.

        Raises:
            OSError: the lock file cannot be made or locked.
            StoreFault: another process is setting the file aside.
        """
        self._descriptor = os.open(path.with_name(f"{path.name}.lock"), _CREATE, 0o600)
        try:
            self._share()
        except BaseException:
            os.close(self._descriptor)
            raise

    def leave(self) -> None:
        """End the use of the file."""
        os.close(self._descriptor)

    def is_alone(self) -> bool:
        """Return whether no other process has the file open; if so, none opens it until `leave`."""
        if sys.platform == "win32":
            return True
        import fcntl  # noqa: PLC0415 - POSIX only

        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _share(self) -> None:
        if sys.platform == "win32":
            return
        import fcntl  # noqa: PLC0415 - POSIX only

        ending = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > ending:
                    raise StoreFault("it is damaged, and another server is replacing it") from None
                time.sleep(RETRY_SECONDS)
            else:
                return


def free_name(path: Path) -> Path:
    """Return an unused name in a damaged file's directory."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    number = 1
    while aside.exists() or Path(f"{aside}{SALVAGE_SUFFIX}").exists():
        number += 1
        aside = path.with_name(f"{path.name}.corrupt-{stamp}-{number}")
    return aside


def set_aside(path: Path) -> Path:
    """Rename a damaged file and its log; return the new path.

    Raises:
        OSError: it cannot be renamed.
    """
    aside = free_name(path)
    Path(f"{aside}{SALVAGE_SUFFIX}").mkdir(mode=0o700)
    with suppress(FileNotFoundError):  # first: a log beside a new file would be played into it
        Path(f"{path}-wal").rename(f"{aside}-wal")
    with suppress(FileNotFoundError):
        Path(f"{path}-shm").unlink()
    path.rename(aside)
    return aside
