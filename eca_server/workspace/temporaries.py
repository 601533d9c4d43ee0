"""Notes of temporary files, made before them, by which those of a killed server are found.

A note is a small file in our data directory that holds the path of one temporary file. Its server
keeps it locked and removes it after the temporary file. So a note without a lock is of a server
that was killed, and no search through a workspace is needed. On Windows no lock is needed either:
an open file cannot be removed there.

Everything here touches the disk: call it in a worker thread.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from eca_server.config.directories import make_data_directory
from eca_server.workspace.faults import FileFault
from eca_server.workspace.opening import open_directory

__all__ = ["AGE", "Temporaries"]

AGE: Final = 60.0
"""Seconds for which a temporary file is left alone, whoever made it."""

_NOTE: Final = re.compile(r"[0-9a-f]{16}")
_NAME: Final = re.compile(rf"\.eca-({_NOTE.pattern})\.tmp")
_MOST: Final = 1_000  # notes that are looked at
_LONGEST: Final = 8_192  # bytes of a note
_SECONDS: Final = 1.0  # for a note that another server has locked
_PAUSE: Final = 0.01
_UNFOLLOWED: int = getattr(os, "O_NOFOLLOW", 0)

_log = logging.getLogger("eca_server")


class Temporaries:
    """The notes in one directory, which is made when the first is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def noted(self, path: Path) -> Iterator[None]:
        """Hold a note of a temporary file while the block makes it and gives it its final name.

        Without a note, where none can be written, the block runs all the same.
        """
        named = _NAME.fullmatch(path.name)
        note = self.folder / named[1] if named is not None else None
        descriptor = None if note is None else self._write(note, path)
        try:
            yield
        finally:
            if note is not None and descriptor is not None:
                if not os.path.lexists(path):
                    with suppress(OSError):
                        note.unlink()
                os.close(descriptor)

    def clean(self, roots: Sequence[Path]) -> bool:
        """Remove the temporary files below these real paths whose servers were killed.

        Returns:
            Whether there is one too young to be removed yet.
        """
        try:
            names = os.listdir(self.folder)  # noqa: PTH208 (names are all that is needed)
        except OSError:
            return False
        notes = [name for name in names if _NOTE.fullmatch(name)][:_MOST]
        too_young = [name for name in notes if self._clean(self.folder / name, roots)]
        return bool(too_young)

    def _write(self, note: Path, path: Path) -> int | None:
        try:
            make_data_directory(self.folder.parent)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            descriptor = _own(note)
        except OSError as fault:
            _log.debug("no note of a temporary file: %s", fault)
            return None
        try:
            os.truncate(descriptor, 0)
            os.write(descriptor, os.fsencode(path))
        except OSError as fault:
            _log.debug("no note of a temporary file: %s", fault)
            os.close(descriptor)
            return None
        return descriptor

    def _clean(self, note: Path, roots: Sequence[Path]) -> bool:
        """Follow one note; return whether it is to be followed later."""
        try:
            descriptor = os.open(note, os.O_RDWR | _UNFOLLOWED)
        except OSError:
            return False
        try:
            _lock(descriptor)
            path = Path(os.fsdecode(os.read(descriptor, _LONGEST)))
            is_whole = path.name == f".eca-{note.name}.tmp"
            if is_whole and not any(path.is_relative_to(root) for root in roots):
                return False
            if not _is_old(os.fstat(descriptor)) or (is_whole and not _remove(path)):
                return is_whole
            note.unlink()
        except (FileFault, OSError, ValueError) as fault:  # its server lives, or it is out of reach
            _log.debug("a temporary file is left: %s", fault)
        finally:
            os.close(descriptor)
        return False


def _own(note: Path) -> int:
    """Open a note that no other server has locked, and lock it.

    There may be one of that name already: a rollback that is resumed uses its names again.

    Raises:
        OSError: it cannot be opened, or is not free in time.
    """
    deadline = time.monotonic() + _SECONDS
    while True:
        descriptor = os.open(note, os.O_RDWR | os.O_CREAT | _UNFOLLOWED, 0o600)
        try:
            _lock(descriptor)
            if sys.platform == "win32" or os.fstat(descriptor).st_nlink:
                return descriptor
            os.close(descriptor)  # whoever had locked it has removed it
        except OSError as fault:
            os.close(descriptor)
            if not isinstance(fault, BlockingIOError) or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)  # a server that cleans up has it for a moment


def _remove(path: Path) -> bool:
    """Remove a temporary file unless it is too young; whether there is none any more.

    What has its name and is not ours by its kind and owner is left, and counts as none.
    """
    try:
        with open_directory(path.parent) as parent:
            found = parent.stat(path.name)
            if found is None or not _is_of_us(found):
                return True
            if not _is_old(found):
                return False
            os.unlink(parent.at(path.name), dir_fd=parent.fd)
    except FileNotFoundError:
        return True
    return True


def _is_of_us(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and (sys.platform == "win32" or found.st_uid == os.geteuid())


def _is_old(found: os.stat_result) -> bool:
    return time.time() - found.st_mtime >= AGE


def _lock(descriptor: int) -> None:
    """Lock a note; its server's end, however it comes, frees it.

    Raises:
        BlockingIOError: another server holds it.
        OSError: the file system has no locks.
    """
    if sys.platform == "win32":
        return
    import fcntl  # noqa: PLC0415 - POSIX only

    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
