"""Each client's reader of messages; it loses what the client would lose."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.eca_server.stranger import Reader

HEADER = re.compile(rb"Content-Length: ([0-9]+)\r\n\r\n")


class Buffered:
    """Keeps what is incomplete until more comes: IntelliJ, the CLI, Emacs since February 2026.

    The header's name is compared as it stands, with one blank behind its colon.
    """

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, read: bytes) -> list[Any]:
        self._buffer += read
        return list(self._complete())

    def _complete(self) -> Iterator[Any]:
        while header := HEADER.match(self._buffer):
            end = header.end() + int(header[1])
            if len(self._buffer) < end:
                return
            yield json.loads(self._buffer[header.end() : end])
            self._buffer = self._buffer[end:]


class EachReadAlone:
    """Keeps nothing between two reads: Emacs before February 2026, and Neovim.

    Of a frame that was cut in two neither half is understood, nor is what stands before the first
    header of a read.
    """

    def __init__(self, header: re.Pattern[bytes] = HEADER) -> None:
        self._header = header

    def feed(self, read: bytes) -> list[Any]:
        messages, position = [], 0
        while header := self._header.search(read, position):
            position = header.end() + int(header[1])
            if position <= len(read):
                messages.append(json.loads(read[header.end() : position]))
        return messages


def emacs_then() -> Reader:
    return EachReadAlone()


def neovim() -> Reader:
    """The body begins behind the first run of line ends, whatever stands there."""
    return EachReadAlone(re.compile(rb"Content-Length: ([0-9]+)[\r\n]+"))
