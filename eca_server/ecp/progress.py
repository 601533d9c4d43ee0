"""What a person sees of a run while it goes on: a live line on a terminal, plain lines elsewhere.

It is all on standard error, so that `--json` leaves standard output to the report. Whatever an
agent said is shown with its keys masked and its control characters spelled out: none of them
reaches the terminal. A person who leaves in the middle of it ends nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final, TextIO

from eca_server.command_line import write_to_user
from eca_server.ecp.results import ScenarioReport
from eca_server.printable import printable_line

__all__ = ["Progress"]

_MARKS: Final = {True: "passed", False: "FAILED"}
_COLOURS: Final = {True: "\x1b[32m", False: "\x1b[31m"}
_PLAIN: Final = "\x1b[0m"
_REDRAW: Final = 0.1  # seconds between two drawings of the live line
_LONGEST: Final = 500  # characters of a text that is shown


class Progress:
    """Tells of each scenario as its report comes.

    Args:
        out: where it is told.
        total: how many scenarios there are.
        hide: takes from a text what nobody is to see.
        verbose: whether each check is told, too.
    """

    def __init__(
        self, out: TextIO, total: int, *, hide: Callable[[str], str], verbose: bool = False
    ) -> None:
        self._out = out
        self._total = total
        self._hide = hide
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
        told = "" if self._live and report.passed and not self._verbose else self._lines(report)
        self._tell(f"{self._cleared()}{told}" if told else "")
        if self._live and time.monotonic() - self._drawn >= _REDRAW:
            self._tell(self._state())

    def end(self) -> None:
        """Nothing more comes."""
        self._tell(self._cleared())

    def _tell(self, text: str) -> None:
        if text:
            write_to_user(text, self._out)

    def _lines(self, report: ScenarioReport) -> str:
        lines = [self._line(report)]
        for number, step in enumerate(report.steps, 1):
            for check in step.checks:
                if self._verbose or not check.passed:
                    mark = self._marked("ok" if check.passed else "not ok", good=check.passed)
                    where = f"step {number}, {check.type} of {check.field}"
                    lines.append(f"    {mark}: {where}: {self._shown(check.reasoning)}")
        if self._verbose:
            lines += [f"    warning: {self._shown(warning)}" for warning in report.warnings]
        return "".join(f"{line}\n" for line in lines)

    def _line(self, report: ScenarioReport) -> str:
        passed = sum(check.passed for check in report.checks)
        name = self._shown(report.name)
        repeat = f" (repetition {report.repeat + 1})" if report.repeat else ""
        why = "" if report.exit_reason == "ok" else f", {report.exit_reason}"
        seconds = report.duration_ms / 1000
        mark = self._marked(_MARKS[report.passed], good=report.passed)
        counts = f"{passed} of {len(report.checks)} checks, {seconds:.2f} s{why}"
        return f"{mark} {name}{repeat}: {counts}"

    def _shown(self, text: str) -> str:
        return printable_line(self._hide(text), longest=_LONGEST)

    def _marked(self, word: str, *, good: bool) -> str:
        return f"{_COLOURS[good]}{word}{_PLAIN}" if self._coloured else word

    def _state(self) -> str:
        self._drawn = now = time.monotonic()
        line = f"{self._done} of {self._total} scenarios, {self._failed} failed"
        return f"{self._cleared()}{line}, {now - self._began:.0f} s"

    def _cleared(self) -> str:
        return "\r\x1b[K" if self._live else ""
