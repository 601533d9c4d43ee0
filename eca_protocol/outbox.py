"""The write queue of a peer: a plain call appends, one task writes.

Appending never waits, so a cancellation cannot write half a message. The writer joins whole frames
up to the size that the client takes in one read (ruling W-6). Only sources of much data wait, by
`wait_below`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import anyio
import attrs

from eca_protocol.streams import FdTransport, Transport

__all__ = ["Outbox", "WriteShape"]


@attrs.frozen(kw_only=True)
class WriteShape:
    """The form of written frames: their grouping (ruling W-6), and the characters in them.

    A frame above `size` is written alone.

    Attributes:
        size: the limit of one write, in bytes.
        pause_after_answer: seconds without a write after a response, for clients that lose a
            message in the same read.
        pause_between: seconds between two writes, for clients that keep no state between reads.
            The pause lasts until the client has read all, as far as that is known: a client that
            is busy or suspended would find several writes, and cut a frame at the end of a read.
        send_now: writes as many bytes as possible without waiting and returns their number; for
            protocols in which the other side waits for each message.
        limits_values: writes U+FFFD in place of U+0000, and integers of more than 64 bits as
            strings, for clients whose JSON reader refuses them. A response to a request whose id
            is such a value is written unchanged.
    """

    size: int = 65_536
    pause_after_answer: float = 0.0
    pause_between: float = 0.0
    send_now: Callable[[bytes], int] | None = None
    limits_values: bool = False


_LONGEST_PAUSE = 0.1


class _Answer(bytes):
    """A frame that is a response."""


@attrs.define(eq=False)
class _Waiter:
    """A task that waits until at most `size` bytes are unwritten."""

    size: int
    woken: anyio.Event


class Outbox:
    """A queue of frames for a transport; `run()` is the task that writes them."""

    def __init__(self, transport: Transport) -> None:
        self.shape: WriteShape = WriteShape()
        self.size: int = 0
        self.closed: bool = False
        self._transport = transport
        self._frames: deque[bytes] = deque()
        self._appended = anyio.Event()
        self._waiting: deque[_Waiter] = deque()

    def append(self, frame: bytes, *, is_answer: bool = False) -> None:
        """Append a whole frame; a closed outbox drops it."""
        if self.closed:
            return
        if self.shape.send_now is not None and not self.size:
            frame = frame[self.shape.send_now(frame) :]
            if not frame:
                return
        self._frames.append(
            _Answer(frame) if is_answer and self.shape.pause_after_answer else frame
        )
        self.size += len(frame)
        if len(self._frames) == 1:
            self._appended.set()

    def close(self) -> None:
        """Drop the unwritten frames and wake all waiting tasks; the other side reads no more."""
        self.closed = True
        self._frames.clear()
        self.size = 0
        for waiter in self._waiting:
            waiter.woken.set()
        self._appended.set()

    async def wait_below(self, size: int) -> None:
        """Wait until at most `size` bytes are unwritten, or the outbox is closed.

        Tasks continue in the order in which they began to wait. If all were woken at once, the
        same few would fill the outbox again and again.
        """
        if self.size <= size or self.closed:
            return
        waiter = _Waiter(size, anyio.Event())
        self._waiting.append(waiter)
        try:
            while self.size > size and not self.closed:
                waiter.woken = anyio.Event()
                await waiter.woken.wait()
                if self.size > size:  # appended to since
                    self._wake()  # a task that waits for less
        finally:
            self._waiting.remove(waiter)
            self._wake()

    def _wake(self) -> None:
        """Wake the first task that need not wait any longer; it wakes the next one."""
        for waiter in self._waiting:
            if self.size <= waiter.size:
                waiter.woken.set()
                return

    async def run(self) -> None:
        """Write until closed.

        Raises:
            OSError: a write failed, and the outbox is closed.
        """
        try:
            while not self.closed:
                if not self._frames:
                    self._appended = anyio.Event()
                    await self._appended.wait()
                    continue
                await self._write()
        finally:
            self.close()

    async def _write(self) -> None:
        """Write once, then pause as the shape demands."""
        joined, ends_with_answer = self._next_write()
        await self._transport.send(joined)
        self.size = max(0, self.size - len(joined))
        self._wake()
        pause = self.shape.pause_between
        if ends_with_answer:
            pause = max(pause, self.shape.pause_after_answer)
        if pause:
            await anyio.sleep(pause)
        while self.shape.pause_between and self._must_be_read_first():
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _must_be_read_first(self) -> bool:
        """Return whether the client has to read before the next write, unless it is the end."""
        if self.closed or any(waiter.size == 0 for waiter in self._waiting):
            return False
        return isinstance(self._transport, FdTransport) and self._transport.has_unread_data

    def _next_write(self) -> tuple[bytes, bool]:
        """Take the frames of the next write; return them joined, and True if they end an answer."""
        frames, limit = self._frames, self.shape.size
        last = frames.popleft()
        joined, size = [last], len(last)
        while frames and type(last) is not _Answer and size + len(frames[0]) <= limit:
            last = frames.popleft()
            joined.append(last)
            size += len(last)
        return (b"".join(joined) if len(joined) > 1 else last), type(last) is _Answer
