"""The lock that the writer of a transcript holds, by which a reader knows if it is still written.

The lock ends with the writer's process. It does not prevent reading.
"""

from __future__ import annotations

import contextlib
import os


def lock_file(file: int) -> None:
    """Lock a file while the descriptor is open, if the platform supports locks."""
    if os.name == "nt":
        return
    import fcntl  # noqa: PLC0415 - POSIX only

    with contextlib.suppress(OSError):  # not every file system has locks
        fcntl.flock(file, fcntl.LOCK_EX)


def is_locked(file: int) -> bool:
    """Return True if a different descriptor holds the file's lock, or if that is unknown."""
    if os.name == "nt":
        return True
    import fcntl  # noqa: PLC0415 - POSIX only

    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False
