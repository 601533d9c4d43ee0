"""Guarded names that do not exist yet, reserved by empty directories while commands run.

A mount needs an existing mount point, so an empty directory takes the name: Git ignores it,
removing it never removes anything else, and the next command reuses one that a crash left behind.
Concurrent commands share it; the last one removes it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from eca_server.agent.sandbox.guards import is_guarded
from eca_server.workspace.guarded import folded_name

_lock = threading.Lock()
_users: Counter[Path] = Counter()


def reserve(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Reserve the names that are free or already reserved, and return them. Touches the disk."""
    with _lock:
        reserved = tuple(path for path in paths if _users[path] or _take(path))
        _users.update(reserved)
        return reserved


def release(paths: Iterable[Path]) -> None:
    """Release names that `reserve` has returned. Touches the disk."""
    with _lock:
        for path in paths:
            _users[path] -= 1
            if _users[path] <= 0:
                del _users[path]
                with contextlib.suppress(OSError):  # it is not empty any more
                    path.rmdir()


def _take(path: Path) -> bool:
    try:
        path.mkdir(mode=0o755)
    except FileExistsError:
        return _is_left_over(path)
    except OSError:  # the root is read-only, for the command, too
        return False
    return True


def _is_left_over(path: Path) -> bool:
    """Return whether a path is an empty directory with a name that only files use (`.envrc`)."""
    if is_guarded((), folded_name(path.name), is_directory=True):
        return False
    try:
        return not path.is_symlink() and path.is_dir() and not os.listdir(path)  # noqa: PTH208
    except OSError:
        return False
