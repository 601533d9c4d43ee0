"""Child processes: their start, and the end of a child with its process group.

`Child.end` closes stdin, waits, sends TERM to the group, waits, sends KILL to the group, and reaps
the child. Meanwhile the child's output is read and dropped, so that a child blocked on a full pipe
can exit. Every step has a limit and is shielded from cancellation. The wait is for the process,
not for the end of its pipes, which a grandchild may hold open.

On Linux a signal to the group also reaches processes that have left it: the rest of the child's
session (`timeout` makes its own group there) and the child's descendants.
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

from eca_protocol import platforms
from eca_protocol.errors import StartFailed
from eca_protocol.guard import GUARD
from eca_protocol.process_table import ProcessTable, process_table
from eca_protocol.streams import FdTransport, Transport

__all__ = [
    "Child",
    "GracePeriods",
    "signal_name",
    "spawn",
    "wait_for_end",
    "watch_descriptor",
    "working_directory",
]

WATCH_SECONDS = 2.0
"""The interval at which a process without a descriptor is looked for."""

_DESCRIPTORS = "/proc/self/fd"  # Linux: paths to the files of descriptors, also in a child


@attrs.frozen(kw_only=True)
class GracePeriods:
    """The limits of the steps that end a child, in seconds."""

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
        self.pid: int = popen.pid
        self._group = platforms.ProcessGroup(popen.pid)
        self._watch = watch_descriptor(popen.pid)
        self._watched = False
        self._watcher_left = anyio.Event()
        self._outside: set[int] = set()  # descendants that were signalled, for the next signal

    def take_stderr(self) -> FdTransport:
        """Return the error output of a child that was started with `stderr="pipe"`.

        It can be taken once; the caller closes it.
        """
        assert self._stderr is not None, "stderr is not a pipe, or was taken"
        stderr, self._stderr = self._stderr, None
        return stderr

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while the child runs."""
        return self._popen.returncode

    async def wait(self) -> int:
        """Wait for the child's end; return its exit code. Several tasks may wait."""
        while self._popen.returncode is None:
            if self._watch is None:
                if platforms.has_ended(self._popen, self._group):
                    await self._reap()
                else:
                    await anyio.sleep(0.02)
            elif self._watched:
                await self._watcher_left.wait()
            else:
                await self._watch_until_its_end(self._watch)
        return self._popen.returncode

    async def _watch_until_its_end(self, descriptor: int) -> None:
        """Watch the process for all waiting tasks; if cancelled, another task takes over."""
        self._watched = True
        try:
            await anyio.wait_readable(descriptor)
            await self._reap()
        finally:
            self._watched = False
            self._watcher_left.set()
            self._watcher_left = anyio.Event()

    async def _reap(self) -> None:
        """Kill the rest of group and session, then reap, which frees the process number."""
        table = await process_table()
        if self._popen.returncode is None:
            self._signal(platforms.KILL, table)
            GUARD.remove(self.pid)
            self._popen.wait()
        GUARD.remove(self.pid)  # if `has_ended` has reaped it
        self._group.close()
        if self._watch is not None:
            os.close(self._watch)
            self._watch = None

    async def signal_group(self, which: Literal["term", "kill"]) -> None:
        """Signal the child, its group, and on Linux its session and its descendants.

        The signals are sent within one turn of the event loop, despite cancellation.
        """
        table = await process_table()
        if self._popen.returncode is not None:
            return
        self._outside |= table.descendants(self.pid)
        self._signal(platforms.KILL if which == "kill" else signal.SIGTERM, table)

    def _signal(self, number: int, table: ProcessTable) -> None:
        self._group.signal(number, self._outside | table.session(self.pid))

    async def end_output(self) -> None:
        """Wait for the child's end, and let its output end there even if others hold the pipe."""
        popen, group = self._popen, self._group
        while self._watch is None and not platforms.has_ended(popen, group):  # noqa: ASYNC110 - no event
            await anyio.sleep(WATCH_SECONDS)
        await self.wait()
        self._fd_transport.end_when_empty()

    def send_now(self, data: bytes) -> int:
        """Send as much to stdin as is possible without waiting; see `FdTransport.send_now`."""
        return self._fd_transport.send_now(data)

    def close_stdin(self) -> None:
        """End the child's input; a `send` in progress fails."""
        self._fd_transport.close_writing()

    def close_stdout(self) -> None:
        """Close the child's output; its next write fails."""
        self._fd_transport.close_reading()

    async def end(self, grace: GracePeriods | None = None, *, drains: bool = True) -> int | None:
        """End the child; return its exit code, or None if KILL did not end it in time.

        Cancellation takes effect afterwards, at most after the sum of the periods. That by
        `task.cancel()` of asyncio also skips the first wait.

        Args:
            grace: the limits of the steps.
            drains: read, drop and close the child's output; False leaves it to another task.
        """
        grace = grace or GracePeriods()
        cancelled: BaseException | None = None
        while True:
            try:
                with anyio.CancelScope(shield=True):
                    await self._end(grace, drains=drains)
                break
            except anyio.get_cancelled_exc_class() as error:
                cancelled = error  # `task.cancel()` of asyncio passes the shield: skip the wait
                after_term = grace.after_term if grace.after_stdin else 0
                grace = attrs.evolve(grace, after_stdin=0, after_term=after_term)
        if cancelled is not None:
            raise cancelled
        return self._popen.returncode

    async def _end(self, grace: GracePeriods, *, drains: bool) -> None:
        self.close_stdin()
        async with anyio.create_task_group() as group:
            if drains:
                group.start_soon(self._drain)
            if not await self._ends_within(grace.after_stdin):
                await self.signal_group("term")
                if not await self._ends_within(grace.after_term):
                    await self.signal_group("kill")
                    await self._ends_within(grace.after_kill)
            group.cancel_scope.cancel()
        if drains:
            await self._fd_transport.aclose()
            if self._stderr is not None:
                await self._stderr.aclose()

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

    The call never waits, so the caller can take ownership without a cancellation point. All
    descriptors are opened before the start, so that no child is left behind if they run out.

    Args:
        command: the program and its arguments.
        cwd: the working directory, as a path or as a descriptor, which stays valid if the path
            changes.
        env: the environment; None: that of this process.
        stdin: `null` gives the child an empty input; its transport cannot send.
        stderr: the destination of the child's error output.
        guarded: end the child also if this process is killed; see `eca_protocol.guard`.

    Raises:
        StartFailed: the command cannot be started; the message says why.
    """
    if not command:
        raise StartFailed("the command is empty")
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        if guarded:
            theirs.enter_context(GUARD.starting())
        try:
            stdin_end, write_fd = (
                _pipe(theirs, ours) if stdin == "pipe" else (subprocess.DEVNULL, None)
            )
            read_fd, output = _pipe(ours, theirs)
            errors_fd, errors = None, None if stderr == "inherit" else subprocess.DEVNULL
            if stderr == "pipe":
                errors_fd, errors = _pipe(ours, theirs)
            popen = subprocess.Popen(
                list(command),
                stdin=stdin_end,
                stdout=output,
                stderr=errors,
                **working_directory(cwd),
                env=GUARD.mark_environment(env) if guarded else None if env is None else dict(env),
                **platforms.START_OF_A_GROUP,
            )
        except (OSError, ValueError) as error:
            reason = _reason_of(error, command[0])
            raise StartFailed(f"cannot start {command[0]!r}: {reason}") from error
        child = _child(popen, read_fd, write_fd, errors_fd)
        if guarded:
            GUARD.add(child.pid)
        ours.pop_all()
    return child


def _reason_of(error: OSError | ValueError, program: str) -> str:
    """Return the reason of a failed start, with the path of a missing working directory."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    is_named = error.filename in {None, program}
    return error.strerror if is_named else f"{error.filename}: {error.strerror}"


def _child(
    popen: subprocess.Popen[bytes], read_fd: int, write_fd: int | None, errors_fd: int | None
) -> Child:
    """Return the child of a started process; kill the process if its pipes cannot be used."""
    try:
        errors = None if errors_fd is None else FdTransport(errors_fd, None)
        return Child(popen, FdTransport(read_fd, write_fd), errors)
    except BaseException:
        popen.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            popen.wait(GracePeriods().after_kill)
        raise


def working_directory(directory: str | os.PathLike[str] | int | None) -> Mapping[str, Any]:
    """Return the arguments of `subprocess.Popen` that start a child in a directory.

    The child does not inherit a descriptor; it only starts in its directory.
    """
    if not isinstance(directory, int):
        return {"cwd": directory}
    by_descriptor = f"{_DESCRIPTORS}/{directory}"
    if os.path.isdir(by_descriptor):  # noqa: PTH112 (one call of the system, no object)
        return {"cwd": by_descriptor}
    return {"preexec_fn": partial(platforms.change_directory, directory)}


def _pipe(reads: contextlib.ExitStack, writes: contextlib.ExitStack) -> tuple[int, int]:
    """Return the read end and the write end of a new pipe; the stacks close them."""
    read_fd, write_fd = os.pipe()
    reads.callback(os.close, read_fd)
    writes.callback(os.close, write_fd)
    return read_fd, write_fd


def watch_descriptor(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a process ends, or None.

    The caller closes it. None: the platform or the interpreter has no such descriptors, the
    process does not exist, or it may not be watched.
    """
    pidfd_open = getattr(os, "pidfd_open", None)
    if pidfd_open is None:
        return None
    try:
        return int(pidfd_open(pid))
    except OSError:
        return None


def signal_name(returncode: int) -> str:
    """Return the name of the signal that ended a process: `SIGKILL`, or `signal 99`."""
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"


async def wait_for_end(pid: int) -> None:
    """Wait until a process that is no child of ours does not exist."""
    descriptor = watch_descriptor(pid)
    if descriptor is None:
        while platforms.is_alive(pid):  # noqa: ASYNC110 - a foreign process has no event
            await anyio.sleep(WATCH_SECONDS)
        return
    try:
        await anyio.wait_readable(descriptor)
    finally:
        os.close(descriptor)
