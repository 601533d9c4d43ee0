"""The progress of the suite: a live line on a terminal, nothing elsewhere."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from typing import Final, TextIO

import trio

from eca_protocol.testing.conformance.cases import Case
from eca_protocol.testing.conformance.client.suite import ClientCase
from eca_protocol.testing.conformance.verdicts import Finding
from eca_server.printable import printable_line
from eca_server.system.command_line import write_to_user

_REDRAW: Final = 0.1  # seconds between two drawings at least
_TICK: Final = 1.0  # seconds between two drawings at most


class Progress:
    """The progress of the suite, redrawn as cases end and as time passes."""

    def __init__(self, out: TextIO, total: int) -> None:
        self._out = out
        self._total = total
        self._live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._done = 0
        self._last = "starting the target"
        self._failed: set[str] = set()
        self._started = time.monotonic()
        self._drawn = 0.0

    async def keep_current(self) -> None:
        """Redraw the line until it is cancelled, and clear it then."""
        if not self._live:
            return
        try:
            while True:
                self._draw()
                await trio.sleep(_TICK)
        finally:
            write_to_user("\r\x1b[K", self._out)

    def add(self, case: Case | ClientCase, findings: Sequence[Finding]) -> None:
        """Count a case that ended."""
        self._done += 1
        self._failed |= {finding.id for finding in findings if finding.verdict == "fail"}
        self._last = f"last {printable_line(case.name)}"
        if self._live and time.monotonic() - self._drawn >= _REDRAW:
            self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        failed = f", {len(self._failed)} requirements failed" if self._failed else ""
        done = f"{self._done} of {self._total} cases{failed}, {self._drawn - self._started:.0f} s"
        line = f"{done}, {self._last}"[: shutil.get_terminal_size().columns - 1]
        write_to_user(f"\r\x1b[K{line}", self._out)
