"""The progress of the suite: a live line on a terminal, nothing elsewhere."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from typing import Final, TextIO

from eca_protocol.testing.conformance.cases import Case
from eca_protocol.testing.conformance.client.suite import ClientCase
from eca_protocol.testing.conformance.verdicts import Finding
from eca_server.command_line import write_to_user
from eca_server.printable import printable_line

__all__ = ["Progress"]

_REDRAW: Final = 0.1  # seconds between two drawings


class Progress:
    """The progress of the suite, redrawn as cases end.

    Args:
        out: the stream to print to.
        total: the number of cases.
    """

    def __init__(self, out: TextIO, total: int) -> None:
        self._out = out
        self._total = total
        self._live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._done = 0
        self._failed: set[str] = set()
        self._started = time.monotonic()
        self._drawn = 0.0

    def add(self, case: Case | ClientCase, findings: Sequence[Finding]) -> None:
        """Count a case that ended."""
        self._done += 1
        self._failed |= {finding.id for finding in findings if finding.verdict == "fail"}
        now = time.monotonic()
        if self._live and now - self._drawn >= _REDRAW:
            self._drawn = now
            failed = f", {len(self._failed)} requirements failed" if self._failed else ""
            done = f"{self._done} of {self._total} cases{failed}, {now - self._started:.0f} s"
            line = f"{done}, last {printable_line(case.name)}"
            line = line[: shutil.get_terminal_size().columns - 1]
            write_to_user(f"\r\x1b[K{line}", self._out)

    def close(self) -> None:
        """Clear the live line."""
        if self._live:
            write_to_user("\r\x1b[K", self._out)
