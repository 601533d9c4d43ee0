"""Byte streams for a peer: the standard streams, any descriptors, an in-memory pair.

A `Transport` can receive, send and close. Bytes move with `os.read` and `os.write` on non-blocking
descriptors (one system call per chunk). For a descriptor that does not support non-blocking use (a
file, a terminal, Windows pipes) a worker thread blocks instead.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from eca_protocol import platforms
from eca_protocol.errors import LocalProtocolError, StartFailed

__all__ = ["FdTransport", "Transport", "memory_pair", "owned_stdio"]

CHUNK = 65_536

_READ = 16_384  # bytes; both sides work at the same time, each on a part of the data
_SHORT = 4096  # bytes; a shorter read was a message or two, and more is not there yet

_T = TypeVar("_T")
_R = TypeVar("_R")


class Transport(Protocol):
    """A two-way byte stream."""

    async def receive(self) -> bytes:
        """Return some bytes, at most 64 KiB; `b""` after the other side has closed."""
        ...

    async def send(self, data: bytes) -> None:
        """Send all of the data; a cancelled call may have sent a part.

        Raises:
            OSError: the other side has closed.
        """
        ...

    async def aclose(self) -> None:
        """Close both directions, without waiting for the other side."""
        ...


class FdTransport:
    """A transport over two file descriptors, which it owns; they may be the same.

    Without `write_fd` the transport is read-only.
    """

    def __init__(self, read_fd: int, write_fd: int | None) -> None:
        self._read_fd = read_fd
        self._write_fd = -1 if write_fd is None else write_fd
        descriptors = [fd for fd in (read_fd, write_fd) if fd is not None]
        self._was_blocking = [fd for fd in descriptors if _make_waitable(fd)]
        self._blocking = _BlockingCalls()
        self._has_writer = True
        self._is_registered = False
        self._is_empty = True  # probably: the last read was short
        self._input: anyio.Event | None = None
        self._waits_for_reading = not platforms.is_blocking(read_fd)
        self._waits_for_writing = write_fd is not None and not platforms.is_blocking(write_fd)

    async def receive(self) -> bytes:
        """Return some bytes, at most 64 KiB; `b""` at the end of the stream or after `aclose`."""
        has_waited = False
        while (fd := self._read_fd) >= 0:
            if not self._waits_for_reading:
                return await self._blocking.call(os.read, fd, CHUNK)
            if self._is_empty and self._has_writer:  # to wait is cheaper than to read in vain
                self._is_empty = False
                await self._wait_for_input(fd)
                has_waited = True
                continue
            if not has_waited:
                await anyio.lowlevel.checkpoint_if_cancelled()
            try:
                data = os.read(fd, _READ)
            except BlockingIOError:
                if not self._has_writer:
                    return b""
                self._is_empty = True
                continue
            except ConnectionResetError:
                return b""
            self._is_empty = len(data) < _SHORT
            if not has_waited:  # the bytes must not be lost, and other tasks get their turn
                await anyio.lowlevel.cancel_shielded_checkpoint()
            return data
        return b""

    async def _wait_for_input(self, fd: int) -> None:
        """Wait until there is input; of several tasks only one registers the descriptor."""
        if self._is_registered:
            if self._input is None:
                self._input = anyio.Event()
            await self._input.wait()
            return
        self._is_registered = True
        try:
            await anyio.wait_readable(fd)
        except anyio.ClosedResourceError:
            pass  # the caller looks again
        finally:
            self._is_registered = False
            if self._input is not None:
                self._input.set()
                self._input = None

    async def send(self, data: bytes) -> None:
        """Send all of `data`.

        Raises:
            OSError: the other side has closed (BrokenPipeError), or the transport is closed.
        """
        view = memoryview(data)
        while view:
            fd = self._write_fd
            if fd < 0:
                raise BrokenPipeError("the transport is closed")
            if not self._waits_for_writing:
                written = await self._blocking.call(os.write, fd, view[:CHUNK])
            else:
                try:
                    written = os.write(fd, view)
                except BlockingIOError:
                    with contextlib.suppress(anyio.ClosedResourceError):
                        await anyio.wait_writable(fd)
                    continue
            view = view[written:]
        await anyio.lowlevel.checkpoint()

    def send_now(self, data: bytes) -> int:
        """Send without waiting; return the number of bytes sent, 0 also on errors."""
        if self._write_fd < 0 or not self._waits_for_writing:
            return 0
        try:
            return os.write(self._write_fd, data)
        except OSError:
            return 0

    @property
    def has_unread_data(self) -> bool:
        """True if the other side has not read everything; False if that is unknown."""
        return self._write_fd >= 0 and platforms.unread_bytes(self._write_fd) > 0

    def end_when_empty(self) -> None:
        """Let the incoming stream end instead of waiting: its writer has ended.

        It has no effect on a descriptor for which a thread waits.
        """
        self._has_writer = False
        if self._read_fd >= 0 and self._waits_for_reading:
            anyio.notify_closing(self._read_fd)

    def close_writing(self) -> None:
        """End the outgoing stream; receiving continues."""
        fd, self._write_fd = self._write_fd, -1
        if fd < 0:
            return
        if fd != self._read_fd:
            self._release(fd, is_waitable=self._waits_for_writing)
            return
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as both_ways:
            both_ways.shutdown(socket.SHUT_WR)

    def close_reading(self) -> None:
        """End receiving; the other side's next send fails."""
        fd, self._read_fd = self._read_fd, -1
        if fd < 0:
            return
        if fd != self._write_fd:
            self._release(fd, is_waitable=self._waits_for_reading)
            return
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as both_ways:
            both_ways.shutdown(socket.SHUT_RD)

    async def aclose(self) -> None:
        """Close both descriptors, after restoring their blocking mode."""
        self.close_writing()
        self.close_reading()

    def _release(self, fd: int, *, is_waitable: bool) -> None:
        if not is_waitable:
            self._blocking.close(fd)
            return
        anyio.notify_closing(fd)  # on Windows only for sockets
        if fd in self._was_blocking:
            with contextlib.suppress(OSError):
                platforms.set_blocking(fd, True)
        os.close(fd)


class _BlockingCalls:
    """Calls that block a thread each, which is abandoned by a cancelled task.

    The threads are not among those for disks and names: on Windows the waiting reads of twenty
    children would leave none. A descriptor is closed after its last call, since on Windows
    `os.close` waits for that.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Counter[int] = Counter()
        self._closed: set[int] = set()

    async def call(self, function: Callable[[int, _T], _R], fd: int, argument: _T) -> _R:
        """Return the result of a function of a descriptor."""
        return await anyio.to_thread.run_sync(
            self._call,
            function,
            fd,
            argument,
            abandon_on_cancel=True,
            limiter=anyio.CapacityLimiter(1),
        )

    def _call(self, function: Callable[[int, _T], _R], fd: int, argument: _T) -> _R:
        with self._lock:
            if fd in self._closed:  # its number may belong to a different file
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            self._running[fd] += 1
        try:
            return function(fd, argument)
        finally:
            with self._lock:
                self._running[fd] -= 1
                self._close_unused(fd)

    def close(self, fd: int) -> None:
        """Close a descriptor, now or when its last call has ended."""
        with self._lock:
            self._closed.add(fd)
            self._close_unused(fd)

    def _close_unused(self, fd: int) -> None:
        if fd in self._closed and not self._running[fd]:
            os.close(fd)


def _make_waitable(fd: int) -> bool:
    """Make a pipe or socket non-blocking; return True if its mode was changed."""
    if not (platforms.can_wait(fd) and platforms.is_blocking(fd)):
        return False
    platforms.set_blocking(fd, False)
    return True


class _Pipe:
    """One direction of a memory pair: bytes, a limit, and an event for waiting tasks."""

    def __init__(self, limit: int) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._limit = limit
        self._closed = False
        self._changed = anyio.Event()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def send(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        while self._size >= self._limit and not self._closed:
            await self._changed.wait()
        if self._closed:
            raise BrokenPipeError("the other side is closed")
        for start in range(0, len(data), CHUNK):
            self._chunks.append(data[start : start + CHUNK])
        self._size += len(data)
        self._wake()

    async def receive(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        while not self._chunks:
            if self._closed:
                return b""
            await self._changed.wait()
        chunk = self._chunks.popleft()
        self._size -= len(chunk)
        self._wake()
        return chunk

    def close(self) -> None:
        self._closed = True
        self._wake()


class _MemoryTransport:
    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    async def receive(self) -> bytes:
        return await self._incoming.receive()

    async def send(self, data: bytes) -> None:
        await self._outgoing.send(data)

    def close_writing(self) -> None:
        self._outgoing.close()

    async def aclose(self) -> None:
        self._outgoing.close()
        self._incoming.close()


def memory_pair(*, limit: int = CHUNK) -> tuple[_MemoryTransport, _MemoryTransport]:
    """Return two connected transports; a sender waits while `limit` bytes are unread."""
    there, back = _Pipe(limit), _Pipe(limit)
    return _MemoryTransport(back, there), _MemoryTransport(there, back)


_stdio_is_owned = False


@contextlib.contextmanager
def owned_stdio(*, for_good: bool = False) -> Iterator[tuple[int, int]]:
    """Reserve the standard streams for the protocol.

    Yields private duplicates of descriptors 0 and 1 for an `FdTransport`. Until the end of the
    block descriptor 0 is the null device and descriptor 1 is stderr, so that neither a `print` nor
    a child process can write to the protocol's stream or read from it. Text that is still buffered
    in `sys.stdout` goes to stderr, too.

    Args:
        for_good: do not restore the descriptors after the block: for a process whose threads may
            print until it ends.

    Raises:
        LocalProtocolError: the standard streams are already reserved.
        StartFailed: one of them is closed, or there is no null device.
    """
    global _stdio_is_owned  # noqa: PLW0603 - descriptors 0 and 1 are the process's own globals
    if _stdio_is_owned:
        raise LocalProtocolError("the standard streams of this process are already in use")
    # Python knows which were closed at its start: a library may have opened a file in their place.
    if sys.__stdin__ is None or sys.__stdout__ is None:
        which = "output" if sys.__stdin__ else "input"
        raise StartFailed(f"the standard {which} is closed")
    wire: list[int] = []
    try:
        wire.append(platforms.duplicate(0))
        wire.append(platforms.duplicate(1))
    except OSError as error:
        for fd in wire:
            os.close(fd)
        which = "output" if wire else "input"
        raise StartFailed(f"the standard {which} is closed: {error.strerror}") from error
    restore = [] if for_good else [platforms.duplicate(0), platforms.duplicate(1)]
    _stdio_is_owned = True
    try:
        _point_away()
        _flush_prints()
        yield wire[0], wire[1]
    finally:
        _flush_prints()
        for target, saved in enumerate(restore):
            os.dup2(saved, target)
            os.close(saved)
        _stdio_is_owned = for_good


def _flush_prints() -> None:
    if sys.stdout is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()


def _point_away() -> None:
    try:
        null = os.open(os.devnull, os.O_RDWR)
    except OSError as error:
        raise StartFailed(f"{os.devnull} cannot be opened: {error.strerror}") from error
    os.dup2(null, 0)
    os.dup2(null if sys.__stderr__ is None else 2, 1)
    if null > 2:  # otherwise stderr was closed, and the null device keeps its number occupied
        os.close(null)
