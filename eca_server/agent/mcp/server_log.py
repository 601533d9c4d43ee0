"""The log of a server's other output, with a rate limit; its last lines are stored.

The last lines are shown to the user if a server does not start: they contain the reason. A text
that is cut loses the word at the cut: half of a key would not be recognized, and masked.
"""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from typing import Final

_log = logging.getLogger("eca_server.agent.mcp")

TAIL: Final = 65_536
"""Maximum number of stored bytes of a server's last lines."""

_LINES_A_SECOND: Final = 100
_SHOWN: Final = 1000
_WARNINGS: Final = 100  # different ones of one server
_LAST_LINES: Final = 5
_LINES_OF_ERROR: Final = 3
_LONGEST_ERROR: Final = 500
_ERROR: Final = re.compile(r"(?:error|fatal|panic(?:ked)?)[:\s]", re.IGNORECASE)
_LONGEST_WORD: Final = 200
_CUT_START: Final = re.compile(rf"\A\S{{1,{_LONGEST_WORD}}}")
_CUT_END: Final = re.compile(r"\S+\Z")


class ServerLog:
    """The log of one server."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._rest = b""
        self._second = 0
        self._in_this_second = 0
        self._warned: set[str] = set()

    def feed(self, data: bytes) -> None:
        """Log the next bytes of stderr, in chunks of any size."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-TAIL:]
        for line in lines:
            self.feed_line(line)

    def feed_line(self, line: bytes) -> None:
        """Log a whole line of the server's output."""
        text = line.strip()
        if text:
            self._store(text[-TAIL:])
            self._write(logging.DEBUG, text)

    def clear(self) -> None:
        """Drop the stored lines, when the server is started again."""
        self._lines.clear()
        self._size = 0
        self._rest = b""

    def _store(self, line: bytes) -> None:
        self._lines.append(line)
        self._size += len(line)
        while self._size > TAIL:
            self._size -= len(self._lines.popleft())

    def last_lines(self, lines: int = _LAST_LINES, length: int = 1000) -> str:
        """Return the last lines as one text, or ""."""
        text = "\n".join(self._texts()[-lines:])
        return text if len(text) <= length else _CUT_START.sub("...", text[-length:])

    def reason(self) -> str:
        """Return the last lines, after the first line that names an error: usage may follow it."""
        earlier = self._texts()[:-_LAST_LINES]
        first = next((at for at, text in enumerate(earlier) if _ERROR.search(text)), None)
        if first is None:
            return self.last_lines()
        end = first + _LINES_OF_ERROR
        error = "\n".join([*earlier[first:end], *(["..."] if end < len(earlier) else [])])
        if len(error) > _LONGEST_ERROR:
            error = _without_cut_word(error[:_LONGEST_ERROR])
        return f"{error}\n{self.last_lines()}"

    def _texts(self) -> list[str]:
        stored = (*self._lines, self._rest.strip())
        return [line.decode("utf-8", "replace") for line in stored if line]

    def note(self, text: str, *, level: int = logging.DEBUG) -> None:
        """Log our own message on this server."""
        self._write(level, text.encode("utf-8", "replace"))

    def warn_once(self, text: str) -> None:
        """Log a warning, unless it was logged before, or there were too many."""
        if len(text) > _SHOWN:
            text = _without_cut_word(text[:_SHOWN])
        if text in self._warned or len(self._warned) > _WARNINGS:
            return
        is_last = len(self._warned) == _WARNINGS
        self._warned.add(text)
        _log.warning("%s: %s", self.name, "further warnings are not logged" if is_last else text)

    def _write(self, level: int, line: bytes) -> None:
        if not _log.isEnabledFor(level):
            return
        second = int(time.monotonic())
        if second != self._second:
            if self._in_this_second > _LINES_A_SECOND:
                left_out = self._in_this_second - _LINES_A_SECOND
                _log.info("%s: %d lines were not logged", self.name, left_out)
            self._second, self._in_this_second = second, 0
        self._in_this_second += 1
        if self._in_this_second <= _LINES_A_SECOND:
            text = line[:_SHOWN].decode("utf-8", "backslashreplace")
            if len(line) > _SHOWN:
                text = _without_cut_word(text)
            _log.log(level, "%s: %s", self.name, text)


def _without_cut_word(text: str) -> str:
    """Return a text without its last word, which is cut and may be a part of a secret."""
    return text[:-_LONGEST_WORD] + _CUT_END.sub("...", text[-_LONGEST_WORD:])
