"""A line on a terminal that shows the progress of a run; nothing elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final, TextIO

import trio

from eca_server.system.command_line import write_to_user

_REDRAW: Final = 0.1  # seconds between two drawings at least
_TICK: Final = 1.0  # seconds between two drawings at most


class LiveLine:
    """The line, redrawn as work ends and as time passes.

    Args:
        out: the stream of the line.
        text: returns the line, given the seconds since the start.

    Attributes:
        is_shown: whether the stream is a terminal that can redraw a line.
    """

    def __init__(self, out: TextIO, text: Callable[[float], str]) -> None:
        self._out = out
        self._text = text
        self.is_shown = out.isatty() and os.environ.get("TERM") != "dumb"
        self._started = time.monotonic()
        self._drawn = 0.0

    async def keep_current(self) -> None:
        """Redraw the line until it is cancelled, and clear it then."""
        if not self.is_shown:
            return
        try:
            while True:
                self._draw()
                await trio.sleep(_TICK)
        finally:
            self.clear()

    def update(self) -> None:
        """Redraw the line after a change, unless it was drawn just now."""
        if self.is_shown and time.monotonic() - self._drawn >= _REDRAW:
            self._draw()

    def clear(self) -> None:
        """Remove the line until it is drawn again."""
        if self.is_shown:
            write_to_user("\r\x1b[K", self._out)

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        write_to_user(f"\r\x1b[K{self._text(self._drawn - self._started)}", self._out)
