"""The state that running sandboxes share: their mounts, and the names that they reserve.

A path of the workspace is resolved again when it is mounted. Meanwhile a running command could
replace it by a link to a credential path, which the next sandbox would mount. It cannot do so where
its own sandbox has mounted the path. So a new sandbox mounts only those paths of the workspace that
every running sandbox has mounted; other guarded paths are hidden, which mounts nothing from there.

Guarded names that do not exist yet are reserved by empty directories while commands run. A mount
needs an existing mount point, so an empty directory takes the name: Git ignores it, removing it
never removes anything else, and the next command reuses one that a crash left behind. Concurrent
commands share it; the last one removes it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import attrs

from eca_server.agent.sandbox.guards import is_guarded
from eca_server.agent.sandbox.plan import Access, Plan
from eca_server.workspace.guarded import folded_name

_lock = threading.Lock()
_running: dict[object, frozenset[Path]] = {}
_users: Counter[Path] = Counter()


def register(token: object, plan: Plan) -> Plan:
    """Register a sandbox before its start; return the plan that is safe with the running ones.

    `token`: identifies it for `unregister`.
    """
    with _lock:
        safe = restrict(plan, _running.values())
        _running[token] = frozenset(safe.mounts)
        return safe


def unregister(token: object) -> None:
    """Unregister a sandbox that has ended."""
    with _lock:
        _running.pop(token, None)


def restrict(plan: Plan, others: Iterable[frozenset[Path]]) -> Plan:
    """Return a plan that mounts only those paths of a root that all others have mounted. Pure."""
    others = tuple(others)
    mounts: dict[Path, Access] = {}
    for path, access in plan.mounts.items():
        inside = path not in plan.roots and any(path.is_relative_to(root) for root in plan.roots)
        if not inside or access not in {"write", "read"} or all(path in each for each in others):
            mounts[path] = access
        elif access == "read":
            mounts[path] = "hidden" if path in plan.directories else "hidden-file"
    return attrs.evolve(plan, mounts=mounts)


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
