"""Whoever writes a transcript holds a lock on it, so that who reads it knows whether more may come.

The lock goes with the process that holds it, however that ends. It keeps nobody from reading.
"""

from __future__ import annotations

import contextlib
import os

__all__ = ["is_locked", "lock_file"]


def lock_file(file: int) -> None:
    """Hold the lock of a file while the descriptor is open; where there are no locks, nothing."""
    if os.name == "nt":
        return
    import fcntl  # noqa: PLC0415 - POSIX only

    with contextlib.suppress(OSError):  # not every file system has locks
        fcntl.flock(file, fcntl.LOCK_EX)


def is_locked(file: int) -> bool:
    """Whether somebody holds the lock of a file, by another descriptor; yes if nobody can tell."""
    if os.name == "nt":
        return True
    import fcntl  # noqa: PLC0415 - POSIX only

    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False
