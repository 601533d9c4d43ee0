"""Repair of a damaged write-ahead log, before SQLite opens it and drops what follows the damage.

Rules: a copy of the damaged log is stored before anything is changed; a repaired log is tried on a
copy first, and used only if it leaves the file sound; the log of a file that another server has
open is not examined.

The format is that of https://www.sqlite.org/walformat.html. Each frame has a checksum over itself
and all before it: one flipped byte makes SQLite end the log there, without an error. A
server that was killed leaves no frame after an unfinished one, so a frame of the same log after
a wrong checksum means damage. The index file also has the number of frames.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import attrs

from eca_server.agent.chat.store.place import Presence, free_name, make_private_file

LARGEST_LOG = 64 * 1024 * 1024
"""Bytes of the largest log that is examined."""

LARGEST_FILE = 256 * 1024 * 1024
"""Bytes of the largest file whose damaged log is repaired; else the log is cut at the damage."""

SECONDS = 5.0
"""Seconds that a repaired log may be tried on a copy."""

_MAGIC: Final = 0x377F0682  # the last bit: checksums read big-endian numbers
_VERSION: Final = 3007000
_LOG_HEADER, _FRAME_HEADER = 32, 24
_INDEX_HEADER: Final = 48  # twice, so that a half-written one shows
_PAGE_SIZE = 4096
_PACE = 1000

_sound_beginnings: dict[Path, _Beginning] = {}

Sums = tuple[int, int]


@attrs.frozen
class _Frame:
    """A page in the log.

    Attributes:
        commit: the file's size in pages, where a transaction ends here; else 0.
        salts: the salts of the log that it belongs to.
    """

    page: int
    commit: int
    salts: bytes
    sums: Sums
    content: bytes = attrs.field(repr=False)

    def sums_after(self, before: Sums, *, big: bool) -> Sums:
        """Return the checksum that a frame with this content has after another frame."""
        return _add(
            self.content, _add(struct.pack(">2I", self.page, self.commit), before, big), big
        )


@attrs.frozen
class _Beginning:
    """The beginning of a log that was found to be sound.

    A file on a bad disk is opened anew for each access, and checksums are slow in Python.

    Attributes:
        size: in bytes.
        frames: the number of frames in it.
        sums: the checksum of the last one.
    """

    size: int
    digest: bytes
    frames: int
    sums: Sums

    def is_of(self, data: bytes) -> bool:
        """Return whether a log begins with the same bytes."""
        return len(data) >= self.size and _digest(data, self.size) == self.digest


@attrs.frozen
class _Log:
    """A log as it lies on the disk.

    Attributes:
        place: its path.
        data: all of its bytes.
        page_size: in bytes.
        big: whether its checksums read big-endian numbers.
        is_readable: whether the header is sound.
        frames: all frames after the header.
        salts: the salts of its own frames; frames with other salts are left from an earlier log.
        indexed: the number of frames that the index file counts; 0: unknown.
    """

    place: Path
    data: bytes = attrs.field(repr=False)
    header: bytes
    page_size: int
    big: bool
    is_readable: bool
    frames: tuple[_Frame, ...]
    salts: bytes
    indexed: int

    def broken_at(self) -> int:
        """Return the index of the first frame that SQLite does not accept."""
        if not self.is_readable:
            return 0
        sums, count = _sums(self.header[24:]), 0
        known = _sound_beginnings.get(self.place)
        if known is not None and known.is_of(self.data):
            sums, count = known.sums, known.frames
        for frame in self.frames[count:]:
            after = frame.sums_after(sums, big=self.big)
            if frame.salts != self.salts or frame.sums != after:
                break
            sums, count = after, count + 1
        size = _LOG_HEADER + count * (_FRAME_HEADER + self.page_size)
        digest = _digest(self.data, size)
        _sound_beginnings[self.place] = _Beginning(size, digest, count, sums)
        return count

    def ends(self, start: int, end: int) -> list[int]:
        """Return where transactions end: how many frames there are up to each end."""
        return [
            place + 1
            for place in range(start, end)
            if self.frames[place].commit and self.frames[place].salts == self.salts
        ]


@attrs.frozen
class _Damage:
    """The damage of a log.

    Attributes:
        taken: the number of frames that SQLite would accept.
        claimed: the number of frames that belong to the log.
        behind: the smallest number of transactions after the damage.
        is_cut: frames are missing at its end.
    """

    taken: int
    claimed: int
    behind: int
    is_cut: bool


def repair_log(path: Path) -> Iterator[str]:
    """Repair a damaged log, as far as that leaves the file sound; else cut it where it is damaged.

    Yields:
        A sentence for the user, if the log was damaged.

    Raises:
        OSError: it cannot be read or copied.
        StoreFault: another server is replacing the file.
    """
    place = Path(f"{path}-wal")
    if sys.platform == "win32" or not _has_frames(place):
        return
    make_private_file(path)
    with closing(Presence(path)) as presence:
        if not presence.is_alone() or not _has_frames(place):  # a server that closed removed it
            return
        log = _read(path, place)
        damage = None if log is None else _examine(log)
        if log is None or damage is None:
            return
        aside = free_name(place)
        shutil.copy(place, aside)
        words = _repair_file(path, place, log, damage)
    yield f"The log of stored chats was damaged; a copy was saved as {aside.name}. {words}"


def first_page_in_log(path: Path) -> bytes:
    """Return the content of the file's first page in its log; empty: it is not in the log.

    Transactions count once they are complete. Raises OSError if the log cannot be read.
    """
    place = Path(f"{path}-wal")
    log = _read(path, place) if _has_frames(place) else None
    newest = written = b""
    for frame in log.frames if log is not None and log.is_readable else ():
        if log is None or frame.salts != log.salts:
            break
        written = frame.content if frame.page == 1 else written
        newest = written if frame.commit else newest
    return newest


def _has_frames(place: Path) -> bool:
    try:
        return _LOG_HEADER < place.stat().st_size <= LARGEST_LOG
    except OSError:
        return False


def _examine(log: _Log) -> _Damage | None:
    broken = log.broken_at()
    taken = max(log.ends(0, broken), default=0)
    ends = log.ends(broken + log.is_readable, len(log.frames))
    claimed = max([*ends, log.indexed])
    if claimed <= taken:
        return None
    there = min(claimed, len(log.frames))
    behind = max(len(log.ends(taken, there)), 1)
    return _Damage(taken, there, behind, is_cut=claimed > there)


def _repair_file(path: Path, place: Path, log: _Log, damage: _Damage) -> str:
    """Replace the log by one that leaves the file sound; return a sentence about the result."""
    frame = _FRAME_HEADER + log.page_size
    readable = place.read_bytes()[: _LOG_HEADER + damage.taken * frame] if log.is_readable else b""
    repaired, doubtful = _repaired_log(log, damage)
    some = f"The last {damage.behind} changes" if damage.behind > 1 else "The last change"
    lost = f"{some} in it may be lost"
    is_whole = not damage.is_cut and all(each.page for each in log.frames[: damage.claimed])
    brought = f"{some} in it could be recovered" if is_whole else lost
    if doubtful:
        brought += ", but some of the text may be wrong"
    for content, words in (
        (repaired, brought),
        (readable, lost),
        (b"", "All changes in it are lost"),
    ):
        if _leaves_sound(path, content):
            _replace(place, content)
            return f"{words}."
    _replace(place, readable)  # as SQLite would take it
    return f"{lost}."


def _repaired_log(log: _Log, damage: _Damage) -> tuple[bytes, bool]:
    """Return the log with all frames that belong to it, and whether one of them may be wrong."""
    header = struct.pack(">4I", _MAGIC | log.big, _VERSION, log.page_size, 0) + log.salts
    sums = _add(header, (0, 0), log.big)
    written = [header, struct.pack(">2I", *sums)]
    doubtful: set[int] = set()
    before = None if not log.is_readable else _sums(log.header[24:])
    for frame in log.frames[: damage.claimed]:
        if not frame.page:  # its header, and so the page's number, is lost
            continue
        is_sound = before is None or frame.sums == frame.sums_after(before, big=log.big)
        (doubtful.discard if is_sound else doubtful.add)(frame.page)
        before = frame.sums
        sums = frame.sums_after(sums, big=log.big)
        written += [
            struct.pack(">2I", frame.page, frame.commit),
            log.salts,
            struct.pack(">2I", *sums),
            frame.content,
        ]
    return b"".join(written), bool(doubtful)


def _leaves_sound(path: Path, log: bytes) -> bool:
    """Return whether the file is sound with this log, tried on a copy."""
    copy = path.with_name(f"{path.name}.try")
    deadline = time.monotonic() + SECONDS
    try:
        if path.stat().st_size > LARGEST_FILE:
            return False
        shutil.copy(path, copy)
        Path(f"{copy}-wal").write_bytes(log)
        with closing(sqlite3.connect(copy)) as connection:
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _PACE)
            checked = connection.execute("PRAGMA integrity_check(1)").fetchone()
            return bool(checked == ("ok",))
    except (OSError, sqlite3.DatabaseError, UnicodeDecodeError):
        return False
    finally:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{copy}{suffix}").unlink(missing_ok=True)


def _replace(place: Path, content: bytes) -> None:
    """Write the log anew: a server killed meanwhile leaves the one that was there."""
    new = place.with_name(f"{place.name}.new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.chmod(0o600)
    new.replace(place)


def _read(path: Path, place: Path) -> _Log | None:
    """Read the log; None: there is nothing in it that could be lost."""
    try:
        index = Path(f"{path}-shm").read_bytes()[: 2 * _INDEX_HEADER]  # first: the log may grow
    except OSError:
        index = b""
    data = place.read_bytes()
    header = data[:_LOG_HEADER]
    magic, version, page_size, _ = struct.unpack(">4I", header[:16])
    big = bool(magic & 1)
    is_readable = (
        magic & ~1 == _MAGIC
        and version == _VERSION
        and _add(header[:24], (0, 0), big) == _sums(header[24:])
    )
    if not is_readable:
        page_size, big = _PAGE_SIZE, False  # SQLite's own, and that of most machines
    frames = tuple(_frames(data, page_size))
    if not any(frame.page for frame in frames):
        return None
    salts = header[16:24]
    if not is_readable:  # a whole sector may be gone, with the first frame's head in it
        salts = Counter(frame.salts for frame in frames if frame.page).most_common(1)[0][0]
    indexed = 0
    if index[:_INDEX_HEADER] == index[_INDEX_HEADER:] and index[32:40] == salts:
        indexed = struct.unpack("=I", index[16:20])[0]
    return _Log(place, data, header, page_size, big, is_readable, frames, salts, indexed)


def _frames(data: bytes, page_size: int) -> Iterator[_Frame]:
    size = _FRAME_HEADER + page_size
    for start in range(_LOG_HEADER, len(data) - size + 1, size):
        page, commit = struct.unpack(">2I", data[start : start + 8])
        yield _Frame(
            page,
            commit,
            data[start + 8 : start + 16],
            _sums(data[start + 16 : start + 24]),
            data[start + _FRAME_HEADER : start + size],
        )


def _digest(data: bytes, size: int) -> bytes:
    return hashlib.blake2b(memoryview(data)[:size]).digest()


def _sums(data: bytes) -> Sums:
    first, second = struct.unpack(">2I", data)
    return first, second


def _add(data: bytes, sums: Sums, big: bool) -> Sums:
    """Return the checksum of SQLite's log, continued over more bytes."""
    first, second = sums
    numbers = iter(struct.unpack(f"{'>' if big else '<'}{len(data) // 4}I", data))
    for even, odd in zip(numbers, numbers, strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
