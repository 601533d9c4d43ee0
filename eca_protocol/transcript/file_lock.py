"""The lock that the writer of a transcript holds, by which a reader knows if it is still written.

The lock ends with the writer's process. It does not prevent reading.
"""

from __future__ import annotations

import contextlib

from eca_protocol import platforms


def lock_file(file: int) -> None:
    """Lock a file while the descriptor is open, if the platform supports locks."""
    with contextlib.suppress(OSError):  # not every file system has locks
        platforms.lock(file, waits=True)


def is_locked(file: int) -> bool:
    """Return True if a different descriptor holds the file's lock, or if that is unknown."""
    try:
        platforms.lock(file, shared=True)
    except OSError:
        return True
    platforms.unlock(file)
    return False
