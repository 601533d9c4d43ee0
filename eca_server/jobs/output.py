"""What a job has written: the last lines of both its outputs, in the order they came.

The rule it keeps: however much a job writes, and however fast, what is kept of it and the work it
makes are bounded. Every line has a place, the number of bytes before it, so that who comes back
with the place he has read up to is told how much he has missed.
"""

from __future__ import annotations

from collections import deque
from itertools import dropwhile
from typing import Literal, NamedTuple, TypeAlias

import attrs

__all__ = ["LONGEST_LINE", "MOST_BYTES", "MOST_LINES", "JobOutput", "Line", "Page", "Stream"]

Stream: TypeAlias = Literal["stdout", "stderr"]

MOST_LINES = 2000
MOST_BYTES = 256 * 1024
LONGEST_LINE = 8 * 1024
"""Bytes of a line; what is longer is cut into several."""


class Line(NamedTuple):
    """A line, without its end.

    Attributes:
        stream: where it was written.
        data: its bytes.
        place: how many bytes the job had written before it,
        end: and how many with it.
    """

    stream: Stream
    data: bytes
    place: int
    end: int

    @property
    def text(self) -> str:
        """The line for people: what is no UTF-8 in it is shown as U+FFFD."""
        return self.data.removesuffix(b"\r").decode("utf-8", "replace")


@attrs.frozen(kw_only=True)
class Page:
    """Some lines that follow each other.

    Attributes:
        lines: themselves.
        missed: bytes before the first that were asked for and are kept no longer.
        end: the place at which the next page begins.
        is_last: whether there is nothing behind it so far.
    """

    lines: tuple[Line, ...]
    missed: int
    end: int
    is_last: bool


class JobOutput:
    """Takes the bytes of both outputs; keeps the last `MOST_LINES` lines and `MOST_BYTES` bytes."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque()
        self._begun: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}
        self._size = 0
        self._written = 0

    def write(self, stream: Stream, data: bytes) -> None:
        """Take the next bytes of one of the outputs; a line counts when its end has come."""
        # Of a flood only the end is cut into lines: the rest would be forgotten at once.
        *lines, begun = (self._begun[stream] + data).rsplit(b"\n", MOST_LINES)
        if lines and b"\n" in lines[0]:
            self._written += len(lines.pop(0)) + 1
            self._lines.clear()
            self._size = 0
        for line in lines:
            self._append(stream, self._shortened(stream, line), with_end=True)
        self._begun[stream] = self._shortened(stream, begun)

    def finish(self) -> None:
        """The job writes nothing more: what it has begun is a line."""
        for stream, begun in self._begun.items():
            if begun:
                self._append(stream, begun)
            self._begun[stream] = b""

    def last(self, count: int) -> tuple[Line, ...]:
        """The last lines, and behind them those that were begun."""
        begun = [
            Line(stream, data, self._written, self._written + len(data))
            for stream, data in self._begun.items()
            if data
        ]
        return (*self._lines, *begun)[-count:]

    def page(self, place: int, *, lines: int, size: int) -> Page:
        """The whole lines from a place on, as many as fit the bounds, but at least one."""
        found: list[Line] = []
        for line in dropwhile(lambda line: line.place < place, self._lines):
            size -= line.end - line.place
            if found and (size < 0 or len(found) == lines):
                break
            found.append(line)
        end = found[-1].end if found else self._written
        first = self._lines[0].place if self._lines else self._written
        return Page(
            lines=tuple(found),
            missed=max(first - place, 0),
            end=end,
            is_last=end == self._written,
        )

    def _shortened(self, stream: Stream, line: bytes) -> bytes:
        """The end of a line; what is too long before it becomes lines of their own."""
        while len(line) > LONGEST_LINE:
            end = _end_of_character(line, LONGEST_LINE)
            self._append(stream, line[:end])
            line = line[end:]
        return line

    def _append(self, stream: Stream, data: bytes, *, with_end: bool = False) -> None:
        end = self._written + len(data) + with_end
        self._lines.append(Line(stream, data, self._written, end))
        self._written = end
        self._size += len(data)
        while len(self._lines) > MOST_LINES or self._size > MOST_BYTES:
            self._size -= len(self._lines.popleft().data)


def _end_of_character(data: bytes, position: int) -> int:
    """The last place up to `position` that lies in no character."""
    for end in range(position, position - 4, -1):
        if data[end] & 0xC0 != 0x80:
            return end
    return position
