"""The log's way to stderr, which never holds up who logs.

The rule it keeps: an editor may leave stderr unread, and the server still answers and still ends in
time. What finds no room there is dropped, and how much that was is said when there is room again.
"""

from __future__ import annotations

import logging
import os
import select
import time
from typing import Final, TextIO

from eca_server.printable import printable_lines

__all__ = ["log_handler"]

_PATIENCE: Final = 0.2
"""Seconds that a reader may take for one record; who has let them pass is not waited for again."""


def log_handler(stream: TextIO | None) -> logging.Handler:
    """A handler that writes where the stream leads, if that can be asked whether there is room.

    Without a stream, as with a closed stderr, the log goes nowhere.
    """
    if stream is None:
        return logging.NullHandler()
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # it leads into this process
        return _StreamHandler(stream)
    return _StreamHandler(stream) if os.name == "nt" else _DescriptorHandler(descriptor)


class _StreamHandler(logging.StreamHandler[TextIO]):
    """A handler for a stream that cannot be asked whether there is room."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record without anything that acts on a terminal."""
        return printable_lines(super().format(record))


class _DescriptorHandler(logging.Handler):
    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, or count it as dropped."""
        text = f"{printable_lines(self.format(record))}\n"
        if self._dropped:
            text = f"\n... {self._dropped} entries of this log had no room ...\n{text}"
        if self._write(text.encode("utf-8", "backslashreplace")):
            self._dropped = 0
        else:
            self._dropped += 1

    def _write(self, data: bytes) -> bool:
        """Write it in pieces for which there is room; whether that came to its end."""
        left = memoryview(data)
        deadline = time.monotonic() + (0 if self._dropped else _PATIENCE)
        try:
            while left:
                patience = max(0.0, deadline - time.monotonic())
                if not select.select([], [self._descriptor], [], patience)[1]:
                    return False
                left = left[os.write(self._descriptor, left[: select.PIPE_BUF]) :]
        except (OSError, ValueError):
            return False
        return True
