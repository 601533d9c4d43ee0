"""The progress of a run: a live line on a terminal, plain lines elsewhere.

Everything goes to standard error, so that `--json` leaves standard output to the report. In texts
of an agent keys are masked and control characters are escaped. A run continues if standard error is
closed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final, TextIO

from eca_server.ecp.results import ScenarioReport
from eca_server.printable import printable_line
from eca_server.system.command_line import write_to_user

_MARKS: Final = {True: "passed", False: "FAILED"}
_COLOURS: Final = {True: "\x1b[32m", False: "\x1b[31m"}
_PLAIN: Final = "\x1b[0m"
_REDRAW: Final = 0.1  # seconds between two drawings of the live line
_LONGEST: Final = 500  # characters of an agent's text


class Progress:
    """The progress of a run, printed as each scenario ends.

    Args:
        out: the stream to print to.
        total: the number of scenarios.
        mask: masks the keys in a text.
        verbose: print each check, too.
    """

    def __init__(
        self, out: TextIO, total: int, *, mask: Callable[[str], str], verbose: bool = False
    ) -> None:
        self._out = out
        self._total = total
        self._mask = mask
        self._verbose = verbose
        self._live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._coloured = self._live and "NO_COLOR" not in os.environ
        self._done = self._failed = 0
        self._started = time.monotonic()
        self._drawn = 0.0

    def add(self, report: ScenarioReport) -> None:
        """Print the report of a scenario that ended."""
        self._done += 1
        self._failed += not report.passed
        lines = "" if self._live and report.passed and not self._verbose else self._lines(report)
        self._write(f"{self._cleared()}{lines}" if lines else "")
        if self._live and time.monotonic() - self._drawn >= _REDRAW:
            self._write(self._state())

    def close(self) -> None:
        """Clear the live line."""
        self._write(self._cleared())

    def _write(self, text: str) -> None:
        if text:
            write_to_user(text, self._out)

    def _lines(self, report: ScenarioReport) -> str:
        lines = [self._line(report)]
        for number, step in enumerate(report.steps, 1):
            for check in step.checks:
                if self._verbose or not check.passed:
                    mark = self._colour("ok" if check.passed else "not ok", good=check.passed)
                    where = f"step {number}, {check.type} of {check.field}"
                    lines.append(f"    {mark}: {where}: {self._printable(check.reasoning)}")
        if self._verbose:
            lines += [f"    warning: {self._printable(warning)}" for warning in report.warnings]
        return "".join(f"{line}\n" for line in lines)

    def _line(self, report: ScenarioReport) -> str:
        passed = sum(check.passed for check in report.checks)
        name = self._printable(report.name)
        repeat = f" (repetition {report.repeat + 1})" if report.repeat else ""
        why = "" if report.exit_reason == "ok" else f", {report.exit_reason}"
        seconds = report.duration_ms / 1000
        mark = self._colour(_MARKS[report.passed], good=report.passed)
        counts = f"{passed} of {len(report.checks)} checks, {seconds:.2f} s{why}"
        return f"{mark} {name}{repeat}: {counts}"

    def _printable(self, text: str) -> str:
        return printable_line(self._mask(text), longest=_LONGEST)

    def _colour(self, word: str, *, good: bool) -> str:
        return f"{_COLOURS[good]}{word}{_PLAIN}" if self._coloured else word

    def _state(self) -> str:
        self._drawn = now = time.monotonic()
        line = f"{self._done} of {self._total} scenarios, {self._failed} failed"
        return f"{self._cleared()}{line}, {now - self._started:.0f} s"

    def _cleared(self) -> str:
        return "\r\x1b[K" if self._live else ""
