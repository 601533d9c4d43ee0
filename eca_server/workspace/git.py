"""Lists of files from Git, in a repository that may be hostile.

The rule of this module: a repository's configuration starts no program, uses no network and
prompts for nothing; nothing is written; the time is limited.
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eca_protocol import platforms
from eca_protocol.guard import GUARD
from eca_protocol.process import working_directory
from eca_server.system.child_process import find_own_program
from eca_server.workspace.errors import FileError
from eca_server.workspace.opening import Directory
from eca_server.workspace.reading import Checkpoint

_SECONDS = 10.0
_BETWEEN_CHECKPOINTS = 0.05  # seconds
_PIECE = 1 << 16
_INHERITED = ("PATH", "HOME", "XDG_CONFIG_HOME", "USER", "LOGNAME", "TMPDIR")
_SET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # for older versions, which ignore GIT_NO_LAZY_FETCH
    "LC_ALL": "C",
}
_SETTINGS = (
    *("-c", "core.fsmonitor="),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "safe.bareRepository=explicit"),
)


class GitUnavailable(FileError):
    """Git is not installed, does not trust the repository, or takes too long."""


class TimeLimit:
    """The seconds that one listing may wait for all of its Git processes."""

    def __init__(self) -> None:
        self.seconds_left = _SECONDS


def list_paths(
    directory: Directory, *kinds: str, top: Path, checkpoint: Checkpoint
) -> Iterator[str]:
    """Yield the paths of a `listing`, within ten seconds."""
    with listing(
        directory, *kinds, top=top, checkpoint=checkpoint, time_limit=TimeLimit()
    ) as paths:
        yield from paths


@contextmanager
def listing(
    directory: Directory, *kinds: str, top: Path, checkpoint: Checkpoint, time_limit: TimeLimit
) -> Iterator[Iterator[str]]:
    """Start `git ls-files`, and yield the paths that it prints, relative to a directory.

    Some of the files may not exist. Git ends with the block.

    Args:
        directory: an open directory of a work tree, in which Git starts.
        kinds: `--cached` (tracked) and `--others` (untracked, not ignored).
        top: the top of the work tree, whatever the repository's configuration says; a repository
            above it is not used.
        checkpoint: called while Git runs; an exception of it also ends Git.
        time_limit: the rest of the time, which waiting for Git reduces.

    Raises:
        GitUnavailable: Git cannot be started; or, from the paths, it printed only some of them.
    """
    program = find_own_program("git", os.environ.get("PATH"))
    if program is None or not hasattr(select, "poll"):
        raise GitUnavailable("git is not installed")
    command = [program, *_SETTINGS, "ls-files", "-z", *kinds, "--exclude-standard"]
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    places = {"GIT_WORK_TREE": str(top), "GIT_CEILING_DIRECTORIES": str(top.parent)}
    with (
        subprocess.Popen(
            command,
            **working_directory(directory.path if directory.fd is None else directory.fd),
            env=inherited | _SET | places,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            **platforms.START_OF_A_GROUP,
        ) as process,
        GUARD.guarding(process.pid),
    ):
        try:
            yield _paths(process, checkpoint, time_limit)
        finally:
            process.kill()


def _paths(
    process: subprocess.Popen[bytes], checkpoint: Checkpoint, time_limit: TimeLimit
) -> Iterator[str]:
    """Yield the paths that Git prints."""
    assert process.stdout is not None
    rest = b""
    for piece in _pieces(process.stdout.fileno(), checkpoint, time_limit):
        complete, end, rest = (rest + piece).rpartition(b"\0")
        if end:
            yield from os.fsdecode(complete).split("\0")
    status = process.wait()
    if status != 0:
        raise GitUnavailable(f"git ended with status {status}")


def _pieces(descriptor: int, checkpoint: Checkpoint, time_limit: TimeLimit) -> Iterator[bytes]:
    """Yield the output of Git; count only the time spent here, not that of the consumer."""
    while True:
        checkpoint()
        if time_limit.seconds_left < 0:
            raise GitUnavailable(f"git took more than {_SECONDS:g} s")
        started = time.monotonic()
        has_input = platforms.has_input(descriptor, _BETWEEN_CHECKPOINTS)
        time_limit.seconds_left -= time.monotonic() - started
        if has_input:
            piece = os.read(descriptor, _PIECE)
            if not piece:
                return
            yield piece
