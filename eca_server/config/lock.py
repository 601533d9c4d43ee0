"""A file lock: one server at a time, whoever dies lets go.

On Windows there is none: two servers that write in the same instant may lose one of two changes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import trio

__all__ = ["Locked", "lock", "lock_in_thread"]

_PAUSE: Final = 0.02
_FLAGS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)


class Locked(OSError):
    """Another server has held the lock for too long."""


@contextmanager
def lock_in_thread(path: Path, *, seconds: float) -> Iterator[None]:
    """Hold the lock while the block runs; for a worker thread.

    Args:
        path: the lock's file, made if need be.
        seconds: how long to wait for it.

    Raises:
        Locked: it was not to be had in that time.
        OSError: the file cannot be opened.
    """
    deadline = time.monotonic() + seconds
    while (descriptor := _try(path)) is None:
        if time.monotonic() > deadline:
            raise Locked
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        os.close(descriptor)


@asynccontextmanager
async def lock(path: Path, *, seconds: float) -> AsyncIterator[None]:
    """As `lock_in_thread`, for a task."""
    descriptor = None
    with trio.move_on_after(seconds):
        descriptor = await _taken(path)
    if descriptor is None:
        raise Locked
    try:
        yield
    finally:
        os.close(descriptor)


async def _taken(path: Path) -> int:
    while True:
        descriptor = await trio.to_thread.run_sync(_try, path)
        if descriptor is not None:
            return descriptor
        await trio.sleep(_PAUSE)


def _try(path: Path) -> int | None:
    """The descriptor that holds the lock, if it was free."""
    descriptor = os.open(path, _FLAGS, 0o600)
    if sys.platform == "win32":
        return descriptor
    import fcntl  # noqa: PLC0415 - POSIX only

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
