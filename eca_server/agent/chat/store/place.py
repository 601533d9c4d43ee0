"""The location of stored chats: a private directory, the file, and the processes that use it.

Rules: only the user can read the files; a damaged file is never deleted; a file is not set aside
while another process has it open, since that process would then write to the log of the new file.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from eca_protocol import platforms
from eca_protocol.errors import ECAError
from eca_server.config.directories import data_directory, make_data_directory
from eca_server.workspace.worktree import in_main_worktree

STORE_NAME: Final = "chats.sqlite"
"""The name of the file of chats in the data directory."""

BUSY_SECONDS = 5.0
"""Seconds to wait for a process that writes, or examines damage, at the same time."""

RETRY_SECONDS = 0.005

SALVAGE_SUFFIX: Final = ".salvage"
"""Suffix of the directory in which a damaged file is salvaged; it exists until that is done."""

UNKNOWN_WORKSPACE: Final = "unknown"
"""The key of a chat whose workspace was lost to damage; no workspace has this key."""

_LOCK_SUFFIX: Final = ".lock"
_LEFT_BEHIND_SECONDS: Final = 60.0
_TOKEN: Final = re.compile(r"[0-9a-f]{32}")
_OPEN: Final = os.O_RDWR | getattr(os, "O_CLOEXEC", 0)
_CREATE: Final = _OPEN | os.O_CREAT


class StoreFault(ECAError):
    """The file of chats cannot be used; the message gives the reason."""


class Damage(StoreFault):
    """The file is damaged, as SQLite itself does not notice."""


def store_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's file of chats."""
    return data_directory(environ) / STORE_NAME


def workspace_key(roots: Iterable[Path]) -> str:
    """Return a key for a set of workspace roots, independent of their order and of links.

    All worktrees of a Git repository have the same key. The function reads files.
    """
    paths = sorted({os.fsencode(in_main_worktree(root)) for root in roots})
    return hashlib.sha256(b"\0".join(paths)).hexdigest()


def make_private_file(path: Path) -> None:
    """Make the directory and the empty file, if missing, readable and writable only by the user.

    A copy from a read-only medium has read-only files, and so have the logs that SQLite adds to it.

    Raises:
        OSError: they cannot be made.
        StoreFault: the path exists and is not a regular file.
    """
    make_data_directory(path.parent)
    with suppress(FileExistsError):
        os.close(os.open(path, _CREATE | os.O_EXCL, 0o600))
    if not stat.S_ISREG(path.stat().st_mode):
        raise StoreFault("expected a regular file, got something else")
    files = [Path(f"{path}{suffix}") for suffix in ("", "-wal", "-shm", _LOCK_SUFFIX)]
    for place, mode in ((path.parent, 0o700), *((file, 0o600) for file in files)):
        with suppress(OSError):  # there is no such file, or the file system has no modes
            if stat.S_IMODE(place.stat().st_mode) != mode:
                place.chmod(mode)


class Presence:
    """Marks the file as in use for other processes, by a shared lock on a lock file."""

    def __init__(self, path: Path) -> None:
        """Mark the file as in use.

        Raises:
            OSError: the lock file cannot be made or locked.
            StoreFault: another process is setting the file aside.
        """
        self._descriptor = os.open(f"{path}{_LOCK_SUFFIX}", _CREATE, 0o600)
        try:
            self._share()
        except BaseException:
            os.close(self._descriptor)
            raise

    def close(self) -> None:
        """End the use of the file."""
        os.close(self._descriptor)

    def is_alone(self) -> bool:
        """Return whether no other process has the file open; if so, none opens it until `close`."""
        return _lock(self._descriptor)

    def is_alone_now(self) -> bool:
        """Return whether no other process has the file open; others may open it at once."""
        is_alone = self.is_alone()
        self._share()  # a failed attempt may have released it
        return is_alone

    def _share(self) -> None:
        deadline = time.monotonic() + BUSY_SECONDS
        while not _lock(self._descriptor, shared=True):
            if time.monotonic() > deadline:
                raise StoreFault("it is damaged, and another server is replacing it")
            time.sleep(RETRY_SECONDS)


class Owner:
    """The name under which this server's turns run, valid while the process lives."""

    def __init__(self, path: Path) -> None:
        """Take a new name, and remove the files of servers that were killed.

        Raises:
            OSError: the lock's file cannot be made.
        """
        _sweep(path)
        self.token = uuid.uuid4().hex
        self._file = _lock_file(path, self.token)
        self._descriptor = os.open(self._file, _CREATE | os.O_EXCL, 0o600)
        _lock(self._descriptor)

    def leave(self) -> None:
        """Give the name up."""
        os.close(self._descriptor)
        with suppress(OSError):
            self._file.unlink()


def has_ended(path: Path, token: str) -> bool:
    """Return whether the server of that name has ended."""
    if not _TOKEN.fullmatch(token):
        return True
    file = _lock_file(path, token)
    try:
        descriptor = os.open(file, _OPEN)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        return _lock(descriptor)
    finally:
        os.close(descriptor)


def remove_lock(path: Path, token: str) -> None:
    """Remove the lock's file of a server that has ended."""
    if _TOKEN.fullmatch(token):
        with suppress(OSError):
            _lock_file(path, token).unlink()


def _sweep(path: Path) -> None:
    """Remove old files of killed servers; a young one may not be locked yet."""
    for file in path.parent.glob(f"{path.name}.turns-*"):
        token = file.name.rpartition("-")[2]
        with suppress(OSError):
            is_old = time.time() - file.stat().st_mtime > _LEFT_BEHIND_SECONDS
            if is_old and has_ended(path, token):
                remove_lock(path, token)


def _lock_file(path: Path, token: str) -> Path:
    return path.with_name(f"{path.name}.turns-{token}")


def _lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock a file for as long as it is open; return whether that was possible."""
    try:
        platforms.lock(descriptor, shared=shared)
    except BlockingIOError:
        return False
    return True


def free_name(path: Path) -> Path:
    """Return an unused name in a damaged file's directory."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    number = 1
    while aside.exists() or Path(f"{aside}{SALVAGE_SUFFIX}").exists():
        number += 1
        aside = path.with_name(f"{path.name}.corrupt-{stamp}-{number}")
    return aside


def remove_log(path: Path) -> None:
    """Remove the log of a file that was replaced, which would be played into the new one.

    If a different process has the file open, the log is its own.
    """
    with suppress(OSError), closing(Presence(path)) as presence:
        if presence.is_alone():
            for suffix in ("-wal", "-shm"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)


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
