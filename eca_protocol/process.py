"""Child processes: how one is started, and THE ladder that ends it and its process group.

The ladder: close its stdin, wait, TERM the group, wait, KILL the group, reap; its output is read
and thrown away meanwhile, so that a child blocked on a full pipe can still leave. Every rung is
bounded and shielded from cancellation. Waiting looks at the process, never at the end of its
pipes: a grandchild may hold those.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Literal

import anyio
import anyio.to_thread
import attrs

from eca_protocol.errors import StartFailed
from eca_protocol.streams import FdTransport, Transport

__all__ = ["Child", "Ladder", "spawn", "watch_descriptor"]


@attrs.frozen(kw_only=True)
class Ladder:
    """How long each rung may take, in seconds."""

    after_stdin: float = 2.0
    after_term: float = 2.0
    after_kill: float = 2.0


class Child:
    """A running child with its own process group, and the transport to its stdin and stdout."""

    def __init__(self, popen: subprocess.Popen[bytes], transport: FdTransport) -> None:
        self._popen = popen
        self.transport: Transport = transport
        self._fd_transport = transport
        self.pid = popen.pid
        self._watch = watch_descriptor(popen.pid)
        self._watched = False
        self._watcher_left = anyio.Event()

    @property
    def stderr(self) -> IO[bytes] | None:
        """The child's error output, if it was started with `stderr="pipe"`."""
        return self._popen.stderr

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal, None while it runs."""
        return self._popen.returncode

    async def wait(self) -> int:
        """Wait for its end; the exit code (negative for a signal). Several tasks may wait."""
        while self._popen.returncode is None:
            if self._watch is None:
                if self._popen.poll() is None:
                    await anyio.sleep(0.02)
            elif self._watched:
                await self._watcher_left.wait()
            else:
                await self._watch_until_its_end(self._watch)
        return self._popen.returncode

    async def _watch_until_its_end(self, descriptor: int) -> None:
        """Be the one task that watches; whoever else waits takes over if this one leaves early."""
        self._watched = True
        try:
            await anyio.wait_readable(descriptor)
            self._reap()
        finally:
            self._watched = False
            self._watcher_left.set()
            self._watcher_left = anyio.Event()

    def _reap(self) -> None:
        """End what is left of the group, then reap: its number is ours until the reaping."""
        self.signal_group("kill")
        self._popen.wait()
        if self._watch is not None:
            os.close(self._watch)
            self._watch = None

    def signal_group(self, which: Literal["term", "kill"]) -> None:
        """Signal the child and everything it started that stayed in its group."""
        if self._popen.returncode is not None:
            return
        if os.name == "nt":
            self._popen.kill() if which == "kill" else self._popen.terminate()
            return
        number = signal.SIGKILL if which == "kill" else signal.SIGTERM
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def end(self, ladder: Ladder | None = None) -> int | None:
        """Go down the ladder; the exit code, or None if even KILL did not end it in time.

        Cancellation waits until it is through, at most the sum of the ladder's rungs.
        """
        ladder = ladder or Ladder()
        with anyio.CancelScope(shield=True):
            self._fd_transport.close_writing()
            async with anyio.create_task_group() as group:
                group.start_soon(self._drain)
                if not await self._ends_within(ladder.after_stdin):
                    self.signal_group("term")
                    if not await self._ends_within(ladder.after_term):
                        self.signal_group("kill")
                        await self._ends_within(ladder.after_kill)
                group.cancel_scope.cancel()
            await self._fd_transport.aclose()
            if self._popen.stderr is not None:
                self._popen.stderr.close()
        return self._popen.returncode

    async def _ends_within(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self.wait()
        return self._popen.returncode is not None

    async def _drain(self) -> None:
        with contextlib.suppress(OSError, anyio.BusyResourceError):
            while await self.transport.receive():
                pass


def spawn(
    command: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stderr: Literal["inherit", "null", "pipe"] = "inherit",
) -> Child:
    """Start a command with pipes on its stdin and stdout, in a process group of its own.

    A plain call: there is no wait between the start and the scope that will own the child.

    Raises:
        StartFailed: the command cannot be started; the text says why.
    """
    where = {"inherit": None, "null": subprocess.DEVNULL, "pipe": subprocess.PIPE}[stderr]
    if not command:
        raise StartFailed("the command is empty")
    try:
        popen = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=where,
            cwd=cwd,
            env=None if env is None else dict(env),
            bufsize=0,
            start_new_session=os.name != "nt",
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    except (OSError, ValueError) as error:
        raise StartFailed(f"cannot start {command[0]!r}: {error}") from error
    assert popen.stdin is not None
    assert popen.stdout is not None
    read_fd, write_fd = os.dup(popen.stdout.fileno()), os.dup(popen.stdin.fileno())
    popen.stdin.close()
    popen.stdout.close()
    return Child(popen, FdTransport(read_fd, write_fd))


def watch_descriptor(pid: int) -> int | None:
    """A descriptor that becomes readable when a process ends, where the platform has one.

    It belongs to the caller. None also where there is no such process, or it may not be watched.
    """
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
