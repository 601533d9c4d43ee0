"""The processes on this machine, as a test sees them that has started some."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path


def children(pid: int) -> set[int]:
    """The processes that a process has started, and theirs, without those that have ended."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(folder.name)] = int(fields[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def assert_some(pid: int, within: float = 5.0) -> None:
    """A process has started another one, or does so in that many seconds."""
    deadline = time.monotonic() + within
    while not children(pid):
        assert time.monotonic() < deadline, f"the process {pid} has started nothing"
        time.sleep(0.01)


def assert_gone(pids: set[int], within: float = 5.0) -> None:
    """All of them end in that many seconds."""
    deadline = time.monotonic() + within
    for pid in pids:
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        left = max(0.0, deadline - time.monotonic())
        ended, _, _ = select.select([process], [], [], left)
        os.close(process)
        assert ended, f"the process {pid} is left behind"
