"""A file lock: one server holds it at a time; the operating system releases it with the process.

Windows has none: of two simultaneous changes, one may be lost.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import trio

from eca_protocol import platforms
from eca_server.config.directories import make_data_directory

_PAUSE: Final = 0.02
_CHANGE_SECONDS: Final = 2.0
_FLAGS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)


class Locked(OSError):
    """The error when another server holds the lock for too long."""

    def __init__(self) -> None:
        super().__init__(errno.EAGAIN, "another server is writing it; try again")


@contextmanager
def lock_in_thread(path: Path, *, seconds: float) -> Iterator[None]:
    """Hold the lock while the block runs; for a worker thread.

    Args:
        path: the lock's file, created if it is missing.
        seconds: the longest wait.

    Raises:
        Locked: the wait was too long.
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


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """Hold the lock of a file in our data directory while the block changes it; in a thread.

    Raises:
        OSError: the lock is not free, or cannot be used.
    """
    make_data_directory(path.parent)
    with lock_in_thread(path.with_name(f"{path.name}.lock"), seconds=_CHANGE_SECONDS):
        yield


@asynccontextmanager
async def lock(path: Path, *, seconds: float) -> AsyncIterator[None]:
    """Hold the lock while the block runs, as `lock_in_thread` does, for a task."""
    descriptor = None
    with trio.move_on_after(seconds):
        descriptor = await _acquire(path)
    if descriptor is None:
        raise Locked
    try:
        yield
    finally:
        os.close(descriptor)


async def _acquire(path: Path) -> int:
    while True:
        descriptor = await trio.to_thread.run_sync(_try, path)
        if descriptor is not None:
            return descriptor
        await trio.sleep(_PAUSE)


def _try(path: Path) -> int | None:
    """Return the descriptor that holds the lock, or None if the lock is not free."""
    descriptor = os.open(path, _FLAGS, 0o600)
    try:
        platforms.lock(descriptor)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
