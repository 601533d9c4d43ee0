"""Processes that agents left behind, whose parents and sessions are gone.

What an agent starts inherits a mark in its environment, by which it is found at the end of a run,
whoever started it and wherever it went; on Linux.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["MARK", "end_leftovers"]

MARK: Final = "ECP_RUN_MARK"
"""The variable that holds a run's mark."""

_ROUNDS: Final = 3  # what starts others while it is looked for is found the next time


def end_leftovers(mark: str) -> None:
    """Kill every process that has this mark."""
    for _ in range(_ROUNDS):
        found = _marked(f"{MARK}={mark}".encode())
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _marked(variable: bytes) -> list[int]:
    if sys.platform != "linux":
        return []
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and variable in _environment(entry):
                found.append(int(entry.name))
    return found


def _environment(entry: Path) -> list[bytes]:
    return (entry / "environ").read_bytes().split(b"\0")
