"""Checks of processes that a test has started."""

import os
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests import promises


def run_to_end(command: Sequence[Any], **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a command without input; return its exit code and its outputs, which are texts."""
    check = options.pop("check", False)
    usual = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 120}
    return subprocess.run(command, check=check, **{**usual, **options})


def wait_until(
    holds: Callable[[], object], state: Callable[[], object], within: float = 20
) -> None:
    """Wait for what another process does; if it is late, fail and show the state."""
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, state()
        time.sleep(0.01)


def children(pid: int) -> set[int]:
    """Return the living descendants of a process."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(folder.name)] = int(fields[1])
    descendants = {pid}
    while (
        more := {child for child, parent in parents.items() if parent in descendants} - descendants
    ):
        descendants |= more
    return descendants - {pid}


def is_alive(pid: int) -> bool:
    """Return whether a process runs; an unreaped zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def open_descriptors() -> int:
    """Count those of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


def processes_in(folder: Path, word: bytes = b"") -> list[int]:
    """Return the processes that run in `folder`, with a word in their command."""
    pids = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            is_there = entry.name.isdigit() and (entry / "cwd").readlink() == folder
            if is_there and word in (entry / "cmdline").read_bytes():
                pids.append(int(entry.name))
    return pids


def assert_some(pid: int, within: float = 5.0) -> None:
    """Wait until a process has started a child; return whether it did in time."""
    wait_until(lambda: children(pid), lambda: f"the process {pid} has started nothing", within)


def assert_gone(pids: set[int], within: float = 5.0) -> None:
    """Check that all of these processes end in time; one that is left behind fails at once."""
    with promises.within(within):
        for pid in pids:
            try:
                process = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            ended, _, _ = select.select([process], [], [], within + 10)
            os.close(process)
            assert ended, f"the process {pid} is left behind"
