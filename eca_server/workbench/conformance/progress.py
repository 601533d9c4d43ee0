"""The progress of the suite: a live line on a terminal, nothing elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TextIO

from eca_protocol.testing.conformance.cases import Case
from eca_protocol.testing.conformance.verdicts import Finding
from eca_server.printable import printable_line
from eca_server.system.live_line import LiveLine


class Progress:
    """The progress of the suite."""

    def __init__(self, out: TextIO, total: int) -> None:
        self.line = LiveLine(out, self._text)
        self._total = total
        self._done = 0
        self._last = "starting the target"
        self._failed: set[str] = set()

    def add(self, case: Case, findings: Sequence[Finding]) -> None:
        """Count a case that ended."""
        self._done += 1
        self._failed |= {finding.id for finding in findings if finding.verdict == "fail"}
        self._last = f"last {printable_line(case.name)}"
        self.line.update()

    def _text(self, seconds: float) -> str:
        failed = f", {len(self._failed)} requirements failed" if self._failed else ""
        done = f"{self._done} of {self._total} cases{failed}, {seconds:.0f} s"
        return f"{done}, {self._last}"[: shutil.get_terminal_size().columns - 1]
