"""Guarded names that do not exist yet, held by empty directories of ours while commands run.

Something can only be mounted on what exists. So the name is taken by an empty directory: Git does
not see one, removing it never removes anything else, and one that a crash left behind is adopted by
the next command. Commands that run at the same time share it; the last one removes it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from eca_server.sandbox.guards import folded_name, is_guarded

__all__ = ["hold", "release"]

_lock = threading.Lock()
_holders: Counter[Path] = Counter()


def hold(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Take the names that are free, or held already; return them. Touches the disk."""
    with _lock:
        held = tuple(path for path in paths if _holders[path] or _take(path))
        _holders.update(held)
        return held


def release(paths: Iterable[Path]) -> None:
    """Give names back that `hold` has returned. Touches the disk."""
    with _lock:
        for path in paths:
            _holders[path] -= 1
            if _holders[path] <= 0:
                del _holders[path]
                with contextlib.suppress(OSError):  # somebody has put something in it
                    path.rmdir()


def _take(path: Path) -> bool:
    try:
        path.mkdir(mode=0o755)
    except FileExistsError:
        return _is_left_over(path)
    except OSError:  # the root cannot be written to, neither can the command
        return False
    return True


def _is_left_over(path: Path) -> bool:
    """Return whether it is an empty directory where only a file means something (`.envrc`)."""
    if is_guarded((), folded_name(path.name), is_directory=True):
        return False
    try:
        return not path.is_symlink() and path.is_dir() and not os.listdir(path)  # noqa: PTH208
    except OSError:
        return False
