"""What runs on this machine besides our children: their sessions and their descendants.

The rule it keeps: a look at /proc costs time for every process there is, so whoever asks in the
same turn of the event loop shares one; and none is older than the question.
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
    """One look at /proc; it shows no process where there is no such thing, or it cannot be read."""

    def session(self, leader: int) -> frozenset[int]:
        """The processes of the session that a process leads."""
        return frozenset(self._by_session.get(leader, ()))

    def descendants(self, ancestor: int) -> frozenset[int]:
        """The children of a process, their children and so on."""
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
        except OSError:  # no descriptor is left for it: the group is ended all the same
            return []
        return [int(name) for name in names if name.isdecimal()]

    @cached_property
    def _by_session(self) -> dict[int, list[int]]:
        return self._by(os.getsid)

    @cached_property
    def _by_parent(self) -> dict[int, list[int]]:
        return self._by(_parent)

    def _by(self, of: Callable[[int], int]) -> dict[int, list[int]]:
        by_key: dict[int, list[int]] = {}
        for pid in self._numbers:
            with contextlib.suppress(OSError):  # it has ended meanwhile
                by_key.setdefault(of(pid), []).append(pid)
        return by_key


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


class _SharedTable(threading.local):
    """What the event loop of this thread has asked for in this turn."""

    table: ProcessTable | None = None


_shared = _SharedTable()


async def process_table() -> ProcessTable:
    """The table of now, one for all who ask before the event loop has come round.

    Cancellation waits: whoever asks has processes to end.
    """
    table = _shared.table = _shared.table or ProcessTable()
    await anyio.lowlevel.cancel_shielded_checkpoint()
    if _shared.table is table:
        _shared.table = None
    return table
