"""The running sandboxes, whose commands could swap a path before the next sandbox mounts it.

A path of the workspace is resolved again when it is mounted. Meanwhile a running command could
replace it by a link to a credential path, which the next sandbox would mount. It cannot do so where
its own sandbox has mounted the path. So a new sandbox mounts only those paths of the workspace that
every running sandbox has mounted; other guarded paths are hidden, which mounts nothing from there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import attrs

from eca_server.agent.sandbox.plan import Access, Plan

_lock = threading.Lock()
_running: dict[object, frozenset[Path]] = {}


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
