"""Asking Git which files there are, in a repository that may be hostile.

The rule it keeps: a repository's configuration starts no program, reaches no network and asks
nobody; nothing is written; the time is bounded.
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from eca_protocol.process import working_directory
from eca_server.child_process import find_program
from eca_server.workspace.faults import FileFault
from eca_server.workspace.opening import Directory
from eca_server.workspace.reading import Checkpoint

__all__ = ["GitUnusable", "names"]

_SECONDS = 10.0
_BETWEEN_CHECKPOINTS = 50  # milliseconds
_PIECE = 1 << 16
_KEPT = ("PATH", "HOME", "XDG_CONFIG_HOME", "USER", "LOGNAME", "TMPDIR")
_SET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # older ones fetch what a partial clone lacks all the same
    "LC_ALL": "C",
}
_SETTINGS = (
    *("-c", "core.fsmonitor="),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "safe.bareRepository=explicit"),
)


class GitUnusable(FileFault):
    """Git is not there, does not trust the repository, or takes too long."""


def names(folder: Directory, kind: str, *, top: Path, checkpoint: Checkpoint) -> Iterator[str]:
    """What `git ls-files` prints in a folder, as it comes: relative to it, some of it gone.

    Args:
        folder: in a work tree; Git starts in the very directory that is open.
        kind: `--cached` (tracked) or `--others` (untracked, not ignored).
        top: the work tree's, whatever the repository says of it.
        checkpoint: called while it waits; what it raises ends Git, too.

    Raises:
        GitUnusable: it printed nothing, or not all.
    """
    program = find_program("git", os.environ.get("PATH"))
    if program is None or not hasattr(select, "poll"):
        raise GitUnusable("there is no git here")
    command = [program, *_SETTINGS, "ls-files", "-z", kind, "--exclude-standard"]
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    with subprocess.Popen(
        command,
        **working_directory(folder.path if folder.fd is None else folder.fd),
        env=kept | _SET | {"GIT_WORK_TREE": str(top)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            rest = b""
            for piece in _pieces(process.stdout.fileno(), checkpoint):
                *complete, rest = (rest + piece).split(b"\0")
                yield from map(os.fsdecode, complete)
            status = process.wait()
        finally:
            process.kill()
    if status != 0:
        raise GitUnusable(f"git ended with status {status}")


def _pieces(descriptor: int, checkpoint: Checkpoint) -> Iterator[bytes]:
    deadline = time.monotonic() + _SECONDS
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while True:
        checkpoint()
        if time.monotonic() > deadline:
            raise GitUnusable(f"git took more than {_SECONDS:g} s")
        if poll.poll(_BETWEEN_CHECKPOINTS):
            piece = os.read(descriptor, _PIECE)
            if not piece:
                return
            yield piece
