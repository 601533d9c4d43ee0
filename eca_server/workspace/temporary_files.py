"""Records of temporary files, by which the files of a killed server are found and removed.

A record is a small file in the server's data directory with the path of one temporary file. It is
written before the temporary file, and its server keeps it locked and removes it after the temporary
file. So a record without a lock belongs to a killed server, and no search through a workspace is
needed. Windows needs no lock: an open file cannot be removed there.

Everything here accesses the disk: call it in a worker thread.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from eca_protocol import platforms
from eca_server.config.directories import make_data_directory
from eca_server.workspace.errors import FileError
from eca_server.workspace.opening import open_directory

MIN_AGE: Final = 60.0
"""Seconds before which a temporary file is not removed."""

_RECORD: Final = re.compile(r"[0-9a-f]{16}")
_NAME: Final = re.compile(rf"\.eca-({_RECORD.pattern})\.tmp")
_MOST: Final = 1_000  # records that are read
_LONGEST: Final = 8_192  # bytes of a record
_SECONDS: Final = 1.0  # to wait for a record that another server has locked
_PAUSE: Final = 0.01
_UNFOLLOWED: int = getattr(os, "O_NOFOLLOW", 0)

_log = logging.getLogger("eca_server")


class TemporaryFiles:
    """The records in one directory, which is created for the first record."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @contextmanager
    def recorded(self, path: Path) -> Iterator[None]:
        """Keep a record of a temporary file while the block creates and renames the file.

        The block also runs if no record can be written.
        """
        match = _NAME.fullmatch(path.name)
        record = self.directory / match[1] if match is not None else None
        descriptor = None if record is None else self._write(record, path)
        try:
            yield
        finally:
            if record is not None and descriptor is not None:
                if os.path.lexists(path):
                    os.close(descriptor)
                else:
                    with suppress(OSError):
                        platforms.remove_and_close(record, descriptor)

    def clean(self, roots: Sequence[Path]) -> bool:
        """Remove the temporary files of killed servers below these real paths.

        Returns:
            True if a file is too young to be removed yet.
        """
        try:
            names = os.listdir(self.directory)  # noqa: PTH208 (only names are needed)
        except OSError:
            return False
        records = [name for name in names if _RECORD.fullmatch(name)][:_MOST]
        too_young = [name for name in records if self._clean(self.directory / name, roots)]
        return bool(too_young)

    def _write(self, record: Path, path: Path) -> int | None:
        try:
            make_data_directory(self.directory.parent)
            self.directory.mkdir(mode=0o700, exist_ok=True)
            descriptor = _open_locked(record)
        except OSError as error:
            _log.debug("no record of a temporary file: %s", error)
            return None
        try:
            os.truncate(descriptor, 0)
            os.write(descriptor, os.fsencode(path))
        except OSError as error:
            _log.debug("no record of a temporary file: %s", error)
            os.close(descriptor)
            return None
        return descriptor

    def _clean(self, record: Path, roots: Sequence[Path]) -> bool:
        """Remove the file of one record; return True if it has to be tried again later."""
        try:
            descriptor = os.open(record, os.O_RDWR | _UNFOLLOWED)
        except OSError:
            return False
        with ExitStack() as closing:
            closing.callback(os.close, descriptor)
            try:
                platforms.lock(descriptor)
                path = Path(os.fsdecode(os.read(descriptor, _LONGEST)))
                is_whole = path.name == f".eca-{record.name}.tmp"
                if is_whole and not any(path.is_relative_to(root) for root in roots):
                    return False
                if not _is_old(os.fstat(descriptor)) or (is_whole and not _remove(path)):
                    return is_whole
                closing.pop_all()
                platforms.remove_and_close(record, descriptor)
            except (FileError, OSError, ValueError) as error:  # its server runs, or no access
                _log.debug("a temporary file was not removed: %s", error)
        return False


def _open_locked(record: Path) -> int:
    """Open and lock a record.

    The file may exist already: a resumed rollback uses its names again.

    Raises:
        OSError: it cannot be opened, or another server keeps it locked.
    """
    deadline = time.monotonic() + _SECONDS
    while True:
        descriptor = os.open(record, os.O_RDWR | os.O_CREAT | _UNFOLLOWED, 0o600)
        try:
            platforms.lock(descriptor)
            if not platforms.is_removed(descriptor):
                return descriptor
            os.close(descriptor)  # before it was locked
        except OSError as error:
            os.close(descriptor)
            if not isinstance(error, BlockingIOError) or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)  # a server that cleans up holds it for a moment


def _remove(path: Path) -> bool:
    """Remove a temporary file; return False if it is too young.

    An entry of that name that is not a regular file of this user is not touched.
    """
    try:
        with open_directory(path.parent) as parent:
            status = parent.stat(path.name)
            if status is None or not _is_ours(status):
                return True
            if not _is_old(status):
                return False
            os.unlink(parent.at(path.name), dir_fd=parent.fd)
    except FileNotFoundError:
        return True
    return True


def _is_ours(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and platforms.is_own(status)


def _is_old(status: os.stat_result) -> bool:
    return time.time() - status.st_mtime >= MIN_AGE
