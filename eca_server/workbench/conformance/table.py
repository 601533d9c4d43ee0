"""A run on a terminal: its progress, and its findings, with broken requirements first."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, TextIO

from eca_protocol.testing.conformance.cases import Case
from eca_protocol.testing.conformance.run import Conclusion, Run
from eca_protocol.testing.conformance.verdicts import NO_TIME, VERDICTS, Finding, Verdict
from eca_server.printable import printable_line
from eca_server.system.live_line import LiveLine

_WORDS: Final[dict[Verdict, str]] = {
    "fail": "FAIL",
    "warn": "warn",
    "pass": "pass",
    "untestable": "untestable",
    "not-applicable": "n/a",
}
COUNTED: Final[dict[Verdict, str]] = {
    **_WORDS,
    "fail": "failed",
    "warn": "warning",
    "pass": "passed",
    "not-applicable": "not applicable",
}
KINDS: Final[Mapping[Conclusion, str]] = {
    "not conformant": "bad",
    "not judged whole": "odd",
    "only known failures": "odd",
    "nothing judged": "odd",
    "conformant": "good",
}
"""The kind of each conclusion, which has a colour."""

_SHOWN: Final = 6  # ids in a line of requirements that were not judged


class Progress:
    """The progress of the suite: a live line on a terminal, nothing elsewhere."""

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


def render_table(run: Run, *, verbose: bool = False) -> str:
    """Render the findings as text, with a final newline.

    With `verbose` each requirement is included, even one that passed or was not judged.
    """
    width = min(shutil.get_terminal_size((100, 24)).columns, 120)
    target = printable_line(run.target, longest=500)
    lines = [f"{target}: edition {run.edition}, {run.seconds:.1f} s", ""]
    for finding in run.findings:
        if verbose or finding.verdict in {"fail", "warn"}:
            lines += _finding_lines(finding, width, is_known=finding.id in run.known)
    if not verbose:
        lines += _not_judged(run, width)
    for incident in run.incidents:
        lines += ["The target ended during a case", *_field("case", incident.case, width)]
        lines += [*_field("error", incident.what, width), ""]
    for fault in run.suite_errors:
        lines += ["The suite itself failed in a case", *_field("case", fault.case, width)]
        lines += _field("error", f"{fault.what} at {fault.place}", width)
        if verbose:
            lines += [
                f"    {printable_line(line, longest=500)}" for line in fault.traceback.splitlines()
            ]
        lines.append("")
    lines += _summary(run)
    return "".join(f"{line}\n" for line in lines)


def _finding_lines(finding: Finding, width: int, *, is_known: bool) -> Iterator[str]:
    row = finding.requirement
    word = "known failure" if is_known and finding.verdict == "fail" else _WORDS[finding.verdict]
    level = "" if row.level == "must" else f" ({row.level})"
    yield f"{word:10} {finding.id}  {row.section}{level}"
    if finding.verdict == "pass":
        return
    yield from _field("rule", row.statement, width)
    if finding.expected:
        yield from _field("expected", finding.expected, width)
    is_judged = finding.verdict in {"fail", "warn"}
    yield from _field("got" if is_judged else "reason", finding.got, width)
    if finding.case:
        yield from _field("case", finding.case, width)
    yield ""


def _field(name: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        printable_line(text, longest=1000),
        width=width,
        initial_indent=f"    {name:9} ",
        subsequent_indent=" " * 14,
        break_on_hyphens=False,
    )


def _not_judged(run: Run, width: int) -> Iterator[str]:
    """Yield the requirements that were not judged, grouped by their reason."""
    rest = [f for f in run.findings if f.verdict in {"untestable", "not-applicable"}]
    rest.sort(key=lambda finding: (finding.verdict, finding.got))
    for (verdict, why), group in groupby(rest, key=lambda f: (f.verdict, f.got)):
        ids = [finding.id for finding in group]
        more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
        yield f"{_WORDS[verdict]:10} {' '.join(ids[:_SHOWN])}{more}"
        yield from _field("reason", why, width)
    if rest:
        yield ""


def _summary(run: Run) -> Iterator[str]:
    counts = run.counts()
    yield ", ".join(f"{counts[each]} {COUNTED[each]}" for each in VERDICTS if counts.get(each))
    if late := sum(finding.got.startswith(NO_TIME) for finding in run.findings):
        yield (
            f"The time limit left {late} requirements unjudged: use --seconds for more time, or "
            "--only for fewer cases."
        )
    if again := run.passing_again:
        yield f"Known failures that pass now, to remove from the list: {' '.join(again)}"
    if faults := run.new_suite_errors:
        yield (
            f"The suite itself failed in {' '.join(fault.case for fault in faults)}, whose "
            "requirements were not judged. This is an error of the suite, not of the target. "
            "Please report it with the output of --verbose."
        )
    match run.conclusion:
        case "not conformant":
            yield f"Not conformant: {' '.join(run.unexpected)}"
        case "not judged whole":
            yield "No judged requirement is broken, but not all requirements were judged."
        case "only known failures":
            yield "Only known failures."
        case "nothing judged":
            yield "No requirement could be judged."
        case "conformant":
            yield "Conformant: no judged requirement of level must is broken."
