"""The sandboxes that run now: what a command in one of them could swap under the next.

A path of the workspace is looked up again when it is mounted. A command that runs can have put a
link there meanwhile, to a place of keys, and the next sandbox would mount those. It cannot where
the path is mounted in its own sandbox. So only what every running sandbox has mounted is taken from
the workspace; what else is guarded is hidden, which needs nothing from there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import attrs

from eca_server.sandbox.plan import Access, Plan

__all__ = ["settled", "start", "stop"]

_lock = threading.Lock()
_running: dict[object, frozenset[Path]] = {}


def start(token: object, plan: Plan) -> Plan:
    """Note a sandbox that is about to run; return the plan that is safe beside the others.

    Args:
        token: by which `stop` knows it.
        plan: what the command is to find.
    """
    with _lock:
        safe = settled(plan, _running.values())
        _running[token] = frozenset(safe.mounts)
        return safe


def stop(token: object) -> None:
    """Note that a sandbox has ended."""
    with _lock:
        _running.pop(token, None)


def settled(plan: Plan, others: Iterable[frozenset[Path]]) -> Plan:
    """Return a plan that takes nothing from a root but what all the others have mounted. Pure."""
    others = tuple(others)
    mounts: dict[Path, Access] = {}
    for path, access in plan.mounts.items():
        inside = path not in plan.roots and any(path.is_relative_to(root) for root in plan.roots)
        if not inside or access not in {"write", "read"} or all(path in each for each in others):
            mounts[path] = access
        elif access == "read":
            mounts[path] = "hidden" if path in plan.directories else "hidden-file"
    return attrs.evolve(plan, mounts=mounts)
