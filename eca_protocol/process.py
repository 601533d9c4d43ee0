"""Child processes: how one is started, and THE ladder that ends it and its process group.

The ladder: close its stdin, wait, TERM the group, wait, KILL the group, reap; its output is read
and thrown away meanwhile, so that a child blocked on a full pipe can still leave. Every rung is
bounded and shielded from cancellation. Waiting looks at the process, never at the end of its
pipes: a grandchild may hold those.

On Linux a signal to the group also reaches what left it and is still known to be the child's:
its session (`timeout` makes a group of its own in it) and its descendants.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import anyio
import anyio.to_thread
import attrs

from eca_protocol.errors import StartFailed
from eca_protocol.guard import GUARD
from eca_protocol.process_table import ProcessTable, process_table
from eca_protocol.streams import FdTransport, Transport

__all__ = ["Child", "Ladder", "spawn", "watch_descriptor", "working_directory"]

_DESCRIPTORS = "/proc/self/fd"  # Linux: a path to what a descriptor stands for, also in a child


@attrs.frozen(kw_only=True)
class Ladder:
    """How long each rung may take, in seconds."""

    after_stdin: float = 2.0
    after_term: float = 2.0
    after_kill: float = 2.0


class Child:
    """A running child with its own process group, and the transport to its stdin and stdout."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        transport: FdTransport,
        stderr: FdTransport | None = None,
    ) -> None:
        self._popen = popen
        self.transport: Transport = transport
        self._fd_transport = transport
        self._stderr = stderr
        self.pid = popen.pid
        self._watch = watch_descriptor(popen.pid)
        self._watched = False
        self._watcher_left = anyio.Event()
        self._outside: set[int] = set()  # descendants that were signalled and may have to be again

    def take_stderr(self) -> FdTransport:
        """The error output of a child that was started with `stderr="pipe"`.

        It can be taken once, and whoever takes it closes it.
        """
        assert self._stderr is not None, "it is no pipe, or was taken"
        taken, self._stderr = self._stderr, None
        return taken

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal, None while it runs."""
        return self._popen.returncode

    async def wait(self) -> int:
        """Wait for its end; the exit code (negative for a signal). Several tasks may wait."""
        while self._popen.returncode is None:
            if self._watch is None:
                if self._has_ended():
                    await self._reap()
                else:
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
            await self._reap()
        finally:
            self._watched = False
            self._watcher_left.set()
            self._watcher_left = anyio.Event()

    def _has_ended(self) -> bool:
        """Whether it has, without reaping it; where only that can tell, its group ends with it."""
        if hasattr(os, "waitid"):
            try:
                looks = os.WEXITED | os.WNOHANG | os.WNOWAIT
                return os.waitid(os.P_PID, self.pid, looks) is not None
            except ChildProcessError:  # somebody else has reaped it: the number may be another's
                return self._popen.poll() is not None
        has_ended = self._popen.poll() is not None
        if has_ended and os.name != "nt":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        return has_ended

    async def _reap(self) -> None:
        """End what is left of group and session, then reap: the number is ours until then."""
        table = await process_table()
        if self._popen.returncode is None:
            self._signal(signal.SIGKILL, table)
            GUARD.remove(self.pid)
            self._popen.wait()
        GUARD.remove(self.pid)  # where a look has reaped it
        if self._watch is not None:
            os.close(self._watch)
            self._watch = None

    async def signal_group(self, which: Literal["term", "kill"]) -> None:
        """Signal the child, its group, and on Linux its session and its descendants.

        It is done within one turn of the event loop, and cancellation waits for it.
        """
        table = await process_table()
        if self._popen.returncode is not None:
            return
        if os.name == "nt":
            self._popen.kill() if which == "kill" else self._popen.terminate()
            return
        self._outside |= table.descendants(self.pid)
        self._signal(signal.SIGKILL if which == "kill" else signal.SIGTERM, table)

    def _signal(self, number: int, table: ProcessTable) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
        for pid in self._outside | table.session(self.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getpgid(pid) != self.pid:
                    os.kill(pid, number)

    def send_now(self, data: bytes) -> int:
        """Send what its stdin takes at once; see `FdTransport.send_now`."""
        return self._fd_transport.send_now(data)

    def close_stdin(self) -> None:
        """Let it see the end of its input; what is being sent to it fails."""
        self._fd_transport.close_writing()

    def close_stdout(self) -> None:
        """Read nothing more of its output: it learns it when it writes."""
        self._fd_transport.close_reading()

    async def end(self, ladder: Ladder | None = None, *, drains: bool = True) -> int | None:
        """Go down the ladder; the exit code, or None if even KILL did not end it in time.

        Cancellation waits until it is through, at most the sum of the ladder's rungs. Without
        `drains` its output is left to whoever else reads it, and is not closed.
        """
        ladder = ladder or Ladder()
        with anyio.CancelScope(shield=True):
            self.close_stdin()
            async with anyio.create_task_group() as group:
                if drains:
                    group.start_soon(self._drain)
                if not await self._ends_within(ladder.after_stdin):
                    await self.signal_group("term")
                    if not await self._ends_within(ladder.after_term):
                        await self.signal_group("kill")
                        await self._ends_within(ladder.after_kill)
                group.cancel_scope.cancel()
            if drains:
                await self._fd_transport.aclose()
                if self._stderr is not None:
                    await self._stderr.aclose()
        return self._popen.returncode

    async def _ends_within(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self.wait()
        return self._popen.returncode is not None

    async def _drain(self) -> None:
        with contextlib.suppress(OSError):
            while await self.transport.receive():
                pass


def spawn(
    command: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | int | None = None,
    env: Mapping[str, str] | None = None,
    stdin: Literal["pipe", "null"] = "pipe",
    stderr: Literal["inherit", "null", "pipe"] = "inherit",
    guarded: bool = False,
) -> Child:
    """Start a command with a pipe on its stdout, in a session and process group of its own.

    A plain call: there is no wait between the start and the scope that will own the child. What it
    needs of descriptors it has before the start, so that nothing is left where they have run out.
    With `stdin="null"` there is nothing to read for the child, and its transport cannot send.
    `cwd` may be the descriptor of a directory, which stays the same whatever its path leads to.
    A `guarded` child is also ended if this process is killed; see `eca_protocol.guard`.

    Raises:
        StartFailed: the command cannot be started; the text says why.
    """
    if not command:
        raise StartFailed("the command is empty")
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        if guarded:
            theirs.enter_context(GUARD.starting())
        try:
            given, write_fd = _pipe(theirs, ours) if stdin == "pipe" else (subprocess.DEVNULL, None)
            read_fd, output = _pipe(ours, theirs)
            errors_fd, errors = None, None if stderr == "inherit" else subprocess.DEVNULL
            if stderr == "pipe":
                errors_fd, errors = _pipe(ours, theirs)
            popen = subprocess.Popen(
                list(command),
                stdin=given,
                stdout=output,
                stderr=errors,
                **working_directory(cwd),
                env=GUARD.marked(env) if guarded else None if env is None else dict(env),
                start_new_session=os.name != "nt",
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        except (OSError, ValueError) as error:
            raise StartFailed(f"cannot start {command[0]!r}: {error}") from error
        try:
            child = Child(
                popen,
                FdTransport(read_fd, write_fd),
                None if errors_fd is None else FdTransport(errors_fd, None),
            )
        except BaseException:
            popen.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                popen.wait(Ladder().after_kill)
            raise
        if guarded:
            GUARD.add(child.pid)
        ours.pop_all()
    return child


def working_directory(directory: str | os.PathLike[str] | int | None) -> Mapping[str, Any]:
    """Return the arguments of `subprocess.Popen` that start a child in a directory.

    A descriptor stays with the parent: the child only starts where it leads.
    """
    if not isinstance(directory, int):
        return {"cwd": directory}
    by_descriptor = f"{_DESCRIPTORS}/{directory}"
    if os.path.isdir(by_descriptor):  # noqa: PTH112 (one call of the system, no object)
        return {"cwd": by_descriptor}
    return {"preexec_fn": partial(os.fchdir, directory)}


def _pipe(reads: contextlib.ExitStack, writes: contextlib.ExitStack) -> tuple[int, int]:
    """The ends of a new pipe, to read from and to write to; these stacks close them."""
    read_fd, write_fd = os.pipe()
    reads.callback(os.close, read_fd)
    writes.callback(os.close, write_fd)
    return read_fd, write_fd


def watch_descriptor(pid: int) -> int | None:
    """A descriptor that becomes readable when a process ends, where the platform has one.

    It belongs to the caller. None also where there is no such process, or it may not be watched,
    or the interpreter was built for a Linux older than these descriptors.
    """
    pidfd_open = getattr(os, "pidfd_open", None)
    if pidfd_open is None:
        return None
    try:
        return int(pidfd_open(pid))
    except OSError:
        return None
