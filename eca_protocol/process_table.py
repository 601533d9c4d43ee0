"""The sessions and descendants of our children, from /proc.

A scan of /proc costs time for every process of the machine. Therefore the callers of one turn of
the event loop share a scan, which is never older than the first call.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import anyio.lowlevel

__all__ = ["ProcessTable", "process_table"]


class ProcessTable:
    """One scan of /proc; empty if /proc does not exist or cannot be read."""

    def session(self, leader: int) -> frozenset[int]:
        """Return the processes of the session with this leader."""
        return frozenset(self._by_session.get(leader, ()))

    def descendants(self, ancestor: int) -> frozenset[int]:
        """Return the children of a process, their children and so on."""
        pids: set[int] = set()
        pending = [ancestor]
        while pending:
            below = set(self._by_parent.get(pending.pop(), ())) - pids
            pids |= below
            pending += below
        return frozenset(pids)

    @cached_property
    def _numbers(self) -> list[int]:
        if sys.platform != "linux":
            return []
        try:
            names = os.listdir("/proc")  # noqa: PTH208
        except OSError:  # no descriptor is left; the group is still ended
            return []
        return [int(name) for name in names if name.isdecimal()]

    @cached_property
    def _by_session(self) -> dict[int, list[int]]:
        if sys.platform == "win32":
            return {}
        return self._by(os.getsid)

    @cached_property
    def _by_parent(self) -> dict[int, list[int]]:
        return self._by(_parent)

    def _by(self, of: Callable[[int], int]) -> dict[int, list[int]]:
        by_key: dict[int, list[int]] = {}
        for pid in self._numbers:
            with contextlib.suppress(OSError):  # the process has ended
                by_key.setdefault(of(pid), []).append(pid)
        return by_key


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


class _SharedTable(threading.local):
    """The table of this turn of this thread's event loop."""

    table: ProcessTable | None = None


_shared = _SharedTable()


async def process_table() -> ProcessTable:
    """Return a current table, shared by all callers in this turn of the event loop.

    The checkpoint is shielded from cancellation, since callers have processes to end.
    """
    table = _shared.table = _shared.table or ProcessTable()
    await anyio.lowlevel.cancel_shielded_checkpoint()
    if _shared.table is table:
        _shared.table = None
    return table
