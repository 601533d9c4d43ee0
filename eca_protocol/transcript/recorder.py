"""Writes a transcript while the conversation goes on, and never holds it up.

To note bytes is a plain call that appends them to a list; a thread cuts them into messages and
writes. What makes the record impossible (a full disk, one that is too slow) ends the record, with
one word about it, and not the conversation. What was noted and not yet written, some milliseconds
of it, is what a crash can lose.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

import anyio

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
from eca_protocol.transcript.file_lock import lock_file
from eca_protocol.transcript.splitter import Piece, Splitter

__all__ = ["RecordedTransport", "Recorder", "new_file"]

MAX_UNWRITTEN: Final = 64 * 2**20
"""Bytes that may wait to be written; with more, the disk is too slow for a record."""

SLOW: Final = 5.0
"""Seconds a conversation may be held up, once, by a disk that does not take what waits."""

WRITE: Final = 2**18
"""Bytes of lines that are written at once, about."""

_TOO_SLOW: Final = "it is written too slowly"

GATHERING: Final = 0.02
"""Seconds between two writes: a thread that woke up for each message would be in its way."""

_Note: TypeAlias = tuple[float, Side, bytes] | EndEntry | ExitEntry


def new_file(path: Path) -> tuple[int, Path]:
    """Make a file that only the user may read; where there is one, `-2`, `-3`, ... is added.

    Returns:
        A descriptor to write to it, and its path.

    Raises:
        OSError: it cannot be made.
    """
    number, free = 1, path
    while True:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            return os.open(free, flags, 0o600), free
        except FileExistsError:
            number += 1
            free = path.with_name(f"{path.stem}-{number}{path.suffix}")


class Recorder:
    """Writes what is noted to a descriptor, which it owns, until `close`.

    Args:
        file: a descriptor, of `new_file` for example.
        command: what starts the server, for the first line.
        mask: takes secrets out of what is written; None writes all of it.
        on_failure: told, on whichever thread finds it, why the record ends early.
    """

    def __init__(
        self,
        file: int,
        *,
        command: Sequence[str] = (),
        mask: Mask | None = None,
        on_failure: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._file = file
        self._mask = mask
        self._on_failure = on_failure
        self._notes: deque[_Note] = deque()
        self._recorded_bytes = 0
        self._written_bytes = 0
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._failure: str | None = None
        self._splitters: dict[Side, Splitter] = {"client": Splitter(), "server": Splitter()}
        head = encode_header(datetime.now(UTC), command)
        self._head = head if mask is None else mask(head.rstrip()) + b"\n"
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="transcript", daemon=True)
        self._thread.start()

    @property
    def failure(self) -> str | None:
        """Why the record ended early, if it did."""
        return self._failure

    def record_data(self, side: Side, data: bytes) -> None:
        """Note bytes that a side wrote; they are looked at once `wake` is called."""
        if self._failure is not None:
            return
        self._recorded_bytes += len(data)
        if self._recorded_bytes - self._written_bytes > MAX_UNWRITTEN:
            self._stop_recording(_TOO_SLOW)
            return
        self._notes.append((self._now(), side, data))

    async def drain(self) -> None:
        """Wait while very much is unwritten, so that a flood is kept whole.

        It is for whoever passes bytes on; where the disk takes nothing for `SLOW` seconds the
        record ends.
        """
        if not self.is_behind:
            return
        with anyio.move_on_after(SLOW) as scope:
            while self.is_behind:  # noqa: ASYNC110 - the thread can set no event of ours
                await anyio.sleep(GATHERING / 4)
        if scope.cancelled_caught:
            self._stop_recording(_TOO_SLOW)

    @property
    def is_behind(self) -> bool:
        """Whether so much is unwritten that `drained` waits."""
        return (
            self._recorded_bytes - self._written_bytes > MAX_UNWRITTEN // 2
            and self._failure is None
        )

    def record_end(self, side: Side) -> None:
        """Note the end of what a side writes."""
        self._notes.append(EndEntry(at=self._now(), side=side))
        self.wake()

    def record_exit(self, code: int) -> None:
        """Note the exit code of the server's process."""
        self._notes.append(ExitEntry(at=self._now(), code=code))
        self.wake()

    def wake(self) -> None:
        """Let the thread write what was noted."""
        if not self._wake.is_set():
            self._wake.set()

    def close(self, *, seconds: float = 5.0) -> None:
        """Write what is left, for so long at most, and close the file; this waits."""
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
            while not is_last and self._failure is None:
                self._wake.wait()
                is_last = self._closing.wait(GATHERING)
                self._wake.clear()
                self._write_notes(is_last=is_last)
        except OSError as error:
            self._stop_recording(error.strerror or str(error))
        except Exception as error:  # noqa: BLE001 - a mask is anybody's; its text may be a secret
            self._stop_recording(f"it cannot be written ({type(error).__name__})")
        finally:
            self._notes.clear()
            os.close(self._file)

    def _write_notes(self, *, is_last: bool) -> None:
        lines: list[bytes] = []
        size = 0
        while self._notes and self._failure is None:
            note = self._notes.popleft()
            for entry in self._entries(note):
                line = encode_entry(entry)
                lines.append(line)
                size += len(line)
            if isinstance(note, tuple):
                self._written_bytes += len(note[2])
            if size > WRITE:
                self._write(b"".join(lines))
                lines.clear()
                size = 0
        if is_last:
            lines += [
                encode_entry(each) for each in self._end_entries(self._now(), *self._splitters)
            ]
        self._write(b"".join(lines))

    def _entries(self, note: _Note) -> Iterator[Entry]:
        if isinstance(note, tuple):
            at, side, data = note
            yield from self._data_entries(at, side, self._splitters[side].feed(data))
            return
        ended = (note.side,) if isinstance(note, EndEntry) else self._splitters
        yield from self._end_entries(note.at, *ended)
        yield note

    def _end_entries(self, at: float, *sides: Side) -> Iterator[DataEntry]:
        """What was cut short by the end of those sides."""
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

    def _stop_recording(self, why: str) -> None:
        if self._failure is not None:
            return
        self._failure = why
        self._wake.set()
        self._on_failure(f"the transcript ends here: {why}")


class RecordedTransport:
    """A transport that records what passes over it.

    Args:
        transport: what is recorded; closing is passed on.
        recorder: stays open, and is the caller's to close.
        side: whose transport it is.
    """

    def __init__(self, transport: Transport, recorder: Recorder, side: Side) -> None:
        self._transport = transport
        self._recorder = recorder
        self._ours = side
        self._theirs: Side = "server" if side == "client" else "client"

    async def receive(self) -> bytes:
        """See `Transport.receive`."""
        data = await self._transport.receive()
        if data:
            self._recorder.record_data(self._theirs, data)
            self._recorder.wake()
            await self._recorder.drain()
        else:
            self._recorder.record_end(self._theirs)
        return data

    async def send(self, data: bytes) -> None:
        """See `Transport.send`."""
        self._recorder.record_data(self._ours, data)
        try:
            await self._transport.send(data)
        finally:
            self._recorder.wake()

    async def aclose(self) -> None:
        """See `Transport.aclose`."""
        self._recorder.record_end(self._ours)
        await self._transport.aclose()
