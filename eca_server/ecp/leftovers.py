"""Killing the processes that agents leave behind, on Linux.

Each process below an agent inherits the run's mark in its environment. The mark identifies it at
the end of the run, even if its parent, session and process group are gone.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from eca_protocol import platforms

MARK_VARIABLE: Final = "ECP_RUN_MARK"
"""The environment variable with a run's mark."""

_ROUNDS: Final = 3  # a process may start others during the search


def kill_leftovers(mark: str) -> None:
    """Kill every process with this mark."""
    for _ in range(_ROUNDS):
        pids = _marked(f"{MARK_VARIABLE}={mark}".encode())
        if not pids:
            return
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, platforms.KILL)


def _marked(variable: bytes) -> list[int]:
    if sys.platform != "linux":
        return []
    pids = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and variable in (entry / "environ").read_bytes().split(b"\0"):
                pids.append(int(entry.name))
    return pids
