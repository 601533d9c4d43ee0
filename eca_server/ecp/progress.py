"""What a person sees of a run while it goes on: a live line on a terminal, plain lines elsewhere.

It is all on standard error, so that `--json` leaves standard output to the report. Whatever an
agent said is shown with its control characters spelled out: none of them reaches the terminal.
"""

from __future__ import annotations

import os
import time
from typing import Final, TextIO

from eca_server.ecp.results import ScenarioReport

__all__ = ["Progress", "printable"]

_MARKS: Final = {True: "passed", False: "FAILED"}
_COLOURS: Final = {True: "\x1b[32m", False: "\x1b[31m"}
_PLAIN: Final = "\x1b[0m"
_REDRAW: Final = 0.1  # seconds between two drawings of the live line


def printable(text: str, *, longest: int = 500) -> str:
    """`text` on one line, without a character that does anything to a terminal."""
    cut = text if len(text) <= longest else f"{text[:longest]}..."
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in cut)


class Progress:
    """Tells of each scenario as its report comes.

    Args:
        out: where it is told.
        total: how many scenarios there are.
        verbose: whether each check is told, too.
    """

    def __init__(self, out: TextIO, total: int, *, verbose: bool = False) -> None:
        self._out = out
        self._total = total
        self._verbose = verbose
        self._live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._coloured = self._live and "NO_COLOR" not in os.environ
        self._done = self._failed = 0
        self._began = time.monotonic()
        self._drawn = 0.0

    def take(self, report: ScenarioReport) -> None:
        """A scenario has ended."""
        self._done += 1
        self._failed += not report.passed
        if self._live and report.passed and not self._verbose:
            self._draw()
            return
        self._clear()
        self._out.write(f"{self._line(report)}\n")
        for number, step in enumerate(report.steps, 1):
            for check in step.checks:
                if self._verbose or not check.passed:
                    mark = self._marked("ok" if check.passed else "not ok", good=check.passed)
                    where = f"step {number}, {check.type} of {check.field}"
                    self._out.write(f"    {mark}: {where}: {printable(check.reasoning)}\n")
        for warning in report.warnings if self._verbose else ():
            self._out.write(f"    warning: {printable(warning)}\n")
        self._draw()
        self._out.flush()

    def end(self) -> None:
        """Nothing more comes."""
        self._clear()
        self._out.flush()

    def _line(self, report: ScenarioReport) -> str:
        passed = sum(check.passed for check in report.checks)
        name = printable(report.name)
        repeat = f" (repetition {report.repeat + 1})" if report.repeat else ""
        why = "" if report.exit_reason == "ok" else f", {report.exit_reason}"
        seconds = report.duration_ms / 1000
        mark = self._marked(_MARKS[report.passed], good=report.passed)
        counts = f"{passed} of {len(report.checks)} checks, {seconds:.2f} s{why}"
        return f"{mark} {name}{repeat}: {counts}"

    def _marked(self, word: str, *, good: bool) -> str:
        return f"{_COLOURS[good]}{word}{_PLAIN}" if self._coloured else word

    def _draw(self) -> None:
        now = time.monotonic()
        if not self._live or now - self._drawn < _REDRAW:
            return
        self._drawn = now
        line = f"{self._done} of {self._total} scenarios, {self._failed} failed"
        self._out.write(f"\r\x1b[K{line}, {now - self._began:.0f} s")
        self._out.flush()

    def _clear(self) -> None:
        if self._live:
            self._out.write("\r\x1b[K")
