"""The clock of an event loop, for all of its deadlines.

Rule: time in which the process did not run is no delay of anyone else. After a pause (Ctrl-Z, a
frozen container, a paused virtual machine) the bytes that came meanwhile are read first.
"""

from __future__ import annotations

import time
from typing import Final

from trio.abc import Clock

_LATE: Final = 1.0
"""Seconds after which a wait that should have ended was a pause."""
_LONGEST: Final = 2.0
"""The longest wait while there is a deadline, so that a pause shorter than that is noticed."""


class RunningClock(Clock):
    """A clock that stands still while the process does not run."""

    def __init__(self) -> None:
        self._paused = 0.0
        self._read_at = self._due = time.perf_counter()

    def start_clock(self) -> None:
        """Do nothing: the clock always runs."""

    def current_time(self) -> float:
        """Return the seconds in which the process ran."""
        now = time.perf_counter()
        if now > self._due + _LATE:
            self._paused += now - self._read_at
        self._read_at = self._due = now
        return now - self._paused

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return the seconds to wait before the clock is read again."""
        seconds = deadline - self.current_time()
        if seconds > _LONGEST and seconds != float("inf"):
            seconds = _LONGEST
        self._due += max(0.0, seconds)
        return seconds
