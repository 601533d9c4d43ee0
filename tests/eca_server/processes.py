"""The processes on this machine, as a test sees them that has started some."""

from __future__ import annotations

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
