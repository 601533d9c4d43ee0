"""A log handler for stderr that never blocks.

An editor may leave stderr unread; the server must still answer and still exit in time. Records that
do not fit are dropped, and their number is logged when there is room again.
"""

from __future__ import annotations

import logging
import os
import select
import time
from typing import Final, TextIO

from eca_protocol import platforms
from eca_server.printable import printable_lines

_PATIENCE: Final = 0.2
"""Seconds that a reader may take for one record; afterwards records are dropped at once."""


def log_handler(stream: TextIO | None) -> logging.Handler:
    """Return a handler that writes to a stream without blocking, where the platform allows it.

    Without a stream, as with a closed stderr, records are dropped.
    """
    if stream is None:
        return logging.NullHandler()
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # a stream without a descriptor
        return _StreamHandler(stream)
    return _StreamHandler(stream) if os.name == "nt" else _DescriptorHandler(descriptor)


class _StreamHandler(logging.StreamHandler[TextIO]):
    """A handler for a stream that cannot be polled."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record without characters that control a terminal."""
        return printable_lines(super().format(record))


class _DescriptorHandler(logging.Handler):
    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{printable_lines(self.format(record))}\n"
        if self._dropped:
            text = (
                f"\n... {self._dropped} log entries were dropped: stderr was not read ...\n{text}"
            )
        if self._write(text.encode("utf-8", "backslashreplace")):
            self._dropped = 0
        else:
            self._dropped += 1

    def _write(self, data: bytes) -> bool:
        """Write the data piecewise, while there is room; return whether all of it was written."""
        remaining = memoryview(data)
        deadline = time.monotonic() + (0 if self._dropped else _PATIENCE)
        try:
            while remaining:
                patience = max(0.0, deadline - time.monotonic())
                if not select.select([], [self._descriptor], [], patience)[1]:
                    return False
                remaining = remaining[
                    os.write(self._descriptor, remaining[: platforms.ATOMIC_WRITE]) :
                ]
        except (OSError, ValueError):
            return False
        return True
