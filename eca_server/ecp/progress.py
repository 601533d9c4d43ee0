"""The results of a run as scenarios end, and a live line on a terminal.

The live line goes to standard error; the results go to the stream that the caller names. In texts
of an agent keys are masked and control characters are escaped. A run continues if a stream is
closed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final, TextIO

from eca_server.ecp.reports.figures import group_scenarios
from eca_server.ecp.results import Check, ScenarioReport
from eca_server.printable import printable_line
from eca_server.system.command_line import write_to_user
from eca_server.system.live_line import LiveLine

_MARKS: Final = {True: "passed", False: "FAILED"}
_COLOURS: Final = {True: "\x1b[32m", False: "\x1b[31m"}
_PLAIN: Final = "\x1b[0m"
_LONGEST: Final = 500  # characters of a line of an agent's text
_MOST_LINES: Final = 30  # lines of an agent's text: the first one and the last ones


class Progress:
    """The progress of a run, printed as each scenario ends.

    Args:
        out: the stream of the live line.
        verbose: print each check, too.
    """

    def __init__(
        self,
        out: TextIO,
        total: int,
        *,
        results: TextIO,
        mask: Callable[[str], str],
        verbose: bool = False,
    ) -> None:
        self.line = LiveLine(out, self._text)
        self._results = results
        self._total = total
        self._mask = mask
        self._verbose = verbose
        self._coloured = (
            results.isatty() and os.environ.get("TERM") != "dumb" and "NO_COLOR" not in os.environ
        )
        self._logs: set[str] = set()
        self._done = self._failed = self._late = 0

    def add(self, report: ScenarioReport) -> None:
        """Print the report of a scenario that ended, or count one that had no time to start."""
        self._done += 1
        self._failed += not report.passed
        if _is_left_out(report) and not self._verbose:
            self._late += 1
        elif self._verbose or not (report.passed and self.line.is_shown and self._results.isatty()):
            self.line.clear()
            write_to_user(self._lines(report), self._results)
        self.line.update()

    def finish(self) -> None:
        """Print the number of scenarios that the run's time limit left out, if any."""
        if self._late:
            mark = self._colour(_MARKS[False], good=False)
            number = f"{self._late} scenario{'s' if self._late > 1 else ''}"
            why = "not started within the run's time limit"
            write_to_user(f"{mark} {number}: {why}, max_duration_exceeded\n", self._results)

    def _lines(self, report: ScenarioReport) -> str:
        lines = [self._line(report)]
        for number, step in enumerate(report.steps, 1):
            for check in step.checks:
                if self._verbose or not check.passed:
                    mark = self._colour("ok" if check.passed else "not ok", good=check.passed)
                    where = f"step {number}, {check.type} of {check.field}"
                    first, *rest = self._printable(check.reasoning)
                    lines += [f"    {mark}: {where}: {first}", *(f"      {line}" for line in rest)]
                    lines += [] if check.passed else self._comparison(check)
        if report.log and report.log not in self._logs and report.exit_reason != "transport_error":
            self._logs.add(report.log)
            lines.append("    the end of the agent's error output:")
            lines += [f"      {line}" for line in self._printable(report.log)]
        if self._verbose:
            lines += [f"    warning: {' '.join(self._printable(each))}" for each in report.warnings]
        return "".join(f"{line}\n" for line in lines)

    def _comparison(self, check: Check) -> list[str]:
        values = {"expected": check.expected, "got": check.actual}
        return [
            f"      {name} {printable_line(repr(self._mask(value)), longest=_LONGEST)}"
            for name, value in values.items()
            if value is not None
        ]

    def _line(self, report: ScenarioReport) -> str:
        passed = sum(check.passed for check in report.checks)
        name = printable_line(self._mask(report.name), longest=_LONGEST)
        repeat = f" (repetition {report.repeat + 1})" if report.repeat else ""
        why = "" if report.exit_reason == "ok" else f", {report.exit_reason}"
        seconds = report.duration_ms / 1000
        mark = self._colour(_MARKS[report.passed], good=report.passed)
        counts = f"{passed} of {len(report.checks)} checks, {seconds:.2f} s{why}"
        return f"{mark} {name}{repeat}: {counts}"

    def _printable(self, text: str) -> list[str]:
        lines = self._mask(text).strip().splitlines() or [""]
        if len(lines) > _MOST_LINES:
            left_out = len(lines) - _MOST_LINES
            lines[1 : 1 - _MOST_LINES] = [f"... cut, {left_out} lines left out ..."]
        return [printable_line(line, longest=_LONGEST) for line in lines]

    def _colour(self, word: str, *, good: bool) -> str:
        return f"{_COLOURS[good]}{word}{_PLAIN}" if self._coloured else word

    def _text(self, seconds: float) -> str:
        return f"{self._done} of {self._total} scenarios, {self._failed} failed, {seconds:.0f} s"


def _is_left_out(report: ScenarioReport) -> bool:
    """Return whether the run's time limit was exceeded before the scenario started."""
    is_late = report.exit_reason == "max_duration_exceeded"
    return is_late and all(step.status == "skipped" for step in report.steps)


def flaky_lines(reports: Sequence[ScenarioReport]) -> list[str]:
    """Return a line for each scenario of which some repetitions passed, and some failed."""
    return [
        f"flaky {group.passed} of {len(group.runs)} passed: {group.name}"
        for group in group_scenarios(reports)
        if group.flaky
    ]
