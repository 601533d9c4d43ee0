"""The writer of a transcript, which does not delay the recorded conversation.

Recording is a plain call that appends bytes to a list; a thread splits them into messages and
writes them. A full or too slow disk ends the record with a message, but not the conversation. A
crash loses the data of some milliseconds that are not yet written.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

import anyio
import attrs

from eca_protocol import platforms
from eca_protocol.streams import Transport
from eca_protocol.transcript.entries import (
    DataEntry,
    EndEntry,
    Entry,
    ExitEntry,
    Mask,
    Side,
    encode_entry,
    encode_header,
    mask_entry,
)
from eca_protocol.transcript.splitter import Piece, Splitter

WRITE: Final = 2**18
"""The approximate size of one write, in bytes."""

_TOO_SLOW: Final = "it is written too slowly"

GATHERING: Final = 0.02
"""Seconds between two writes; waking the thread for each message would slow it down."""

_Note: TypeAlias = tuple[float, Side, bytes] | EndEntry | ExitEntry


def new_file(path: str | os.PathLike[str]) -> tuple[int, Path]:
    """Make a file that only the user can read; if it exists, add `-2`, `-3`, ... to its name.

    Returns:
        A descriptor for writing, and the path.

    Raises:
        OSError: the file cannot be made.
    """
    number, free = 1, Path(path)
    first = free
    while True:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            return os.open(free, flags, 0o600), free
        except FileExistsError:
            number += 1
            free = first.with_name(f"{first.stem}-{number}{first.suffix}")


class Recorder:
    """The recorder of a conversation to a file.

    Args:
        file: a descriptor, for example of `new_file`; the recorder closes it.
        command: the command that starts the server, for the first line.
        mask: masks secrets; None: all data is written unchanged.
        on_failure: called with the reason if the record ends early, on any thread.
        max_unwritten: the limit of unwritten bytes; above it the disk is too slow, and the record
            ends.
        max_wait: the limit of a wait for a slow disk, in seconds; then the record ends.

    Attributes:
        failure: the reason why the record ended early, or None.
    """

    def __init__(
        self,
        file: int,
        *,
        command: Sequence[str] = (),
        mask: Mask | None = None,
        on_failure: Callable[[str], None] = lambda _: None,
        max_unwritten: int = 64 * 2**20,
        max_wait: float = 5.0,
    ) -> None:
        self._file = file
        self._mask = mask
        self._on_failure = on_failure
        self._max_unwritten = max_unwritten
        self._max_wait = max_wait
        self._notes: deque[_Note] = deque()
        self._recorded_bytes = 0
        self._written_bytes = 0
        self._wake = threading.Event()
        self._closing = threading.Event()
        self.failure: str | None = None
        self._splitters: dict[Side, Splitter] = {"client": Splitter(), "server": Splitter()}
        head = encode_header(datetime.now(UTC), command)
        self._head = head if mask is None else mask(head.rstrip()) + b"\n"
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="transcript", daemon=True)
        self._thread.start()
        atexit.register(self.close)  # the thread does not delay the end of the interpreter

    def record_data(self, side: Side, data: bytes) -> None:
        """Record bytes that a side wrote; they are processed after a call of `wake`."""
        if self.failure is not None:
            return
        self._recorded_bytes += len(data)
        if self._recorded_bytes - self._written_bytes > self._max_unwritten:
            self._stop_recording(_TOO_SLOW)
            return
        self._notes.append((self._now(), side, data))

    async def drain(self) -> None:
        """Wait while too much is unwritten, so that no data is lost.

        For the task that forwards the bytes. If the wait takes `max_wait` seconds the record ends.
        """
        if not self.is_behind:
            return
        with anyio.move_on_after(self._max_wait) as scope:
            while self.is_behind:  # noqa: ASYNC110 - the thread can set no event of ours
                await anyio.sleep(GATHERING / 4)
        if scope.cancelled_caught:
            self._stop_recording(_TOO_SLOW)

    @property
    def is_behind(self) -> bool:
        """True if so much is unwritten that `drain` waits."""
        return (
            self._recorded_bytes - self._written_bytes > self._max_unwritten // 2
            and self.failure is None
        )

    def record_end(self, side: Side) -> None:
        """Record the end of a side's stream."""
        self._notes.append(EndEntry(at=self._now(), side=side))
        self.wake()

    def record_exit(self, code: int) -> None:
        """Record the exit code of the server's process."""
        self._notes.append(ExitEntry(at=self._now(), code=code))
        self.wake()

    def wake(self) -> None:
        """Let the thread write the recorded data."""
        if not self._wake.is_set():
            self._wake.set()

    def close(self, *, seconds: float = 5.0) -> None:
        """Write the rest and close the file; block for at most `seconds`.

        The end of the interpreter closes it, too.
        """
        atexit.unregister(self.close)
        self._closing.set()
        self._wake.set()
        self._thread.join(seconds)

    def _now(self) -> float:
        return time.monotonic() - self._started

    def _run(self) -> None:
        lock_file(self._file)
        try:
            self._write(self._head)
            is_last = False
            while not is_last and self.failure is None:
                self._wake.wait()
                self._closing.wait(GATHERING)
                self._wake.clear()  # before the look at `_closing`, whose setter wakes afterwards
                is_last = self._closing.is_set()
                self._write_notes(is_last=is_last)
        except OSError as error:
            self._stop_recording(error.strerror or str(error))
        except Exception as error:  # noqa: BLE001 - a mask may raise anything; the message may be secret
            self._stop_recording(f"it cannot be written ({type(error).__name__})")
        finally:
            self._notes.clear()
            os.close(self._file)

    def _write_notes(self, *, is_last: bool) -> None:
        lines: list[bytes] = []
        size = recorded = 0
        while self._notes and self.failure is None:
            note = self._notes.popleft()
            for entry in self._entries(note):
                line = encode_entry(entry)
                lines.append(line)
                size += len(line)
            if isinstance(note, tuple):
                recorded += len(note[2])
            if size > WRITE:
                self._write(b"".join(lines))
                self._written_bytes += recorded
                lines.clear()
                size = recorded = 0
        if is_last:
            lines += [
                encode_entry(each) for each in self._end_entries(self._now(), *self._splitters)
            ]
        self._write(b"".join(lines))
        self._written_bytes += recorded

    def _entries(self, note: _Note) -> Iterator[Entry]:
        if isinstance(note, tuple):
            at, side, data = note
            yield from self._data_entries(at, side, self._splitters[side].feed(data))
            return
        ended = (note.side,) if isinstance(note, EndEntry) else self._splitters
        yield from self._end_entries(note.at, *ended)
        yield note

    def _end_entries(self, at: float, *sides: Side) -> Iterator[DataEntry]:
        for side in sides:
            yield from self._data_entries(at, side, self._splitters[side].feed_eof())

    def _data_entries(self, at: float, side: Side, pieces: list[Piece]) -> Iterator[DataEntry]:
        for data, body in pieces:
            entry = DataEntry(at=at, side=side, data=data, body=body)
            yield entry if self._mask is None else mask_entry(entry, self._mask)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def _stop_recording(self, reason: str) -> None:
        if self.failure is not None:
            return
        self.failure = reason
        self._wake.set()
        self._on_failure(f"the transcript is incomplete and ends here: {reason}")


@attrs.define(eq=False)
class RecordedTransport:
    """A transport that records its data.

    Args:
        transport: the recorded transport, which `aclose` closes.
        recorder: the recorder, which the caller closes.
        side: the side that uses the transport.
    """

    _transport: Transport
    _recorder: Recorder
    _side: Side

    async def receive(self) -> bytes:
        """See `Transport.receive`."""
        data = await self._transport.receive()
        theirs: Side = "server" if self._side == "client" else "client"
        if data:
            self._recorder.record_data(theirs, data)
            self._recorder.wake()
            await self._recorder.drain()
        else:
            self._recorder.record_end(theirs)
        return data

    async def send(self, data: bytes) -> None:
        """See `Transport.send`."""
        self._recorder.record_data(self._side, data)
        try:
            await self._transport.send(data)
        finally:
            self._recorder.wake()

    async def aclose(self) -> None:
        """See `Transport.aclose`."""
        self._recorder.record_end(self._side)
        await self._transport.aclose()


def lock_file(file: int) -> None:
    """Lock a transcript while the descriptor is open, if the platform supports locks.

    By the lock a reader knows that the transcript is still written; it ends with the process.
    """
    with contextlib.suppress(OSError):  # not every file system has locks
        platforms.lock(file, waits=True)


def is_locked(file: int) -> bool:
    """Return True if a different descriptor holds the file's lock, or if that is unknown."""
    try:
        platforms.lock(file, shared=True)
    except OSError:
        return True
    platforms.unlock(file)
    return False
