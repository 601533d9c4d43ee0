"""The output of a job: the last lines of its stdout and stderr, in the order in which they ended.

Rule: memory and work are bounded, however much a job writes, and however fast. Every line has an
offset, the number of bytes before it, so that a reader learns how much it has missed.
"""

from __future__ import annotations

from collections import deque
from itertools import dropwhile
from typing import Literal, NamedTuple, TypeAlias

import attrs

Stream: TypeAlias = Literal["stdout", "stderr"]

MAX_LINES = 2000
MAX_BYTES = 256 * 1024
MAX_LINE_BYTES = 8 * 1024
"""Maximum number of bytes of a line; a longer one is split."""


class Line(NamedTuple):
    """A line, without its line end.

    Attributes:
        offset: the number of bytes that the job had written before it.
        end: the same with the line itself.
    """

    stream: Stream
    data: bytes
    offset: int
    end: int

    @property
    def text(self) -> str:
        """The line for people; invalid UTF-8 is shown as U+FFFD."""
        return self.data.removesuffix(b"\r").decode("utf-8", "replace")


@attrs.frozen(kw_only=True)
class Page:
    """Some consecutive lines.

    Attributes:
        missed_bytes: number of bytes before the first line that are not stored any more.
        end: the offset of the next page.
        is_last: true if there is no later line so far.
    """

    lines: tuple[Line, ...]
    missed_bytes: int
    end: int
    is_last: bool


class JobOutput:
    """The last `MAX_LINES` lines, or `MAX_BYTES` bytes, of stdout and stderr."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque()
        self._partial: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}
        self._size = 0
        self._written = 0

    def write(self, stream: Stream, data: bytes) -> None:
        """Add the next bytes of a stream; a line is stored when its end has come."""
        # Only the end of a flood is split into lines: the rest would be dropped at once.
        *lines, partial = (self._partial[stream] + data).rsplit(b"\n", MAX_LINES)
        if lines and b"\n" in lines[0]:
            self._written += len(lines.pop(0)) + 1
            self._lines.clear()
            self._size = 0
        for line in lines:
            self._append(stream, self._split_long_line(stream, line), with_end=True)
        self._partial[stream] = self._split_long_line(stream, partial)

    def finish(self) -> None:
        """Store the partial lines: the job writes no more."""
        for stream, partial in self._partial.items():
            if partial:
                self._append(stream, partial)
            self._partial[stream] = b""

    def last(self, count: int) -> tuple[Line, ...]:
        """Return the last lines, and behind them the partial ones."""
        return (*self._lines, *self.partial())[-count:]

    def partial(self) -> tuple[Line, ...]:
        """Return the lines whose end has not come: a prompt, or a progress bar."""
        return tuple(
            Line(stream, data, self._written, self._written + len(data))
            for stream, data in self._partial.items()
            if data
        )

    def page(self, offset: int, *, lines: int, size: int) -> Page:
        """Return the whole lines from an offset on, as many as fit the limits, but at least one."""
        lines_found: list[Line] = []
        for line in dropwhile(lambda line: line.offset < offset, self._lines):
            size -= line.end - line.offset
            if lines_found and (size < 0 or len(lines_found) == lines):
                break
            lines_found.append(line)
        end = lines_found[-1].end if lines_found else self._written
        first = self._lines[0].offset if self._lines else self._written
        return Page(
            lines=tuple(lines_found),
            missed_bytes=max(first - offset, 0),
            end=end,
            is_last=end == self._written,
        )

    def _split_long_line(self, stream: Stream, line: bytes) -> bytes:
        """Return the end of a line, after storing the pieces before it of one that is too long."""
        while len(line) > MAX_LINE_BYTES:
            end = _end_of_character(line, MAX_LINE_BYTES)
            self._append(stream, line[:end])
            line = line[end:]
        return line

    def _append(self, stream: Stream, data: bytes, *, with_end: bool = False) -> None:
        end = self._written + len(data) + with_end
        self._lines.append(Line(stream, data, self._written, end))
        self._written = end
        self._size += len(data)
        while len(self._lines) > MAX_LINES or self._size > MAX_BYTES:
            self._size -= len(self._lines.popleft().data)


def _end_of_character(data: bytes, position: int) -> int:
    """Return the last position up to `position` that is not inside a character."""
    for end in range(position, position - 4, -1):
        if data[end] & 0xC0 != 0x80:
            return end
    return position
