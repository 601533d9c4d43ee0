"""What a run has found, for a terminal: each row that is not kept, then what was not judged."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Collection, Iterator
from itertools import groupby
from typing import Final

from eca_protocol.testing.conformance.known import (
    conclusion,
    new_faults,
    passing_again,
    unexpected,
)
from eca_protocol.testing.conformance.run import Run
from eca_protocol.testing.conformance.verdicts import NO_TIME, VERDICTS, Finding, Verdict
from eca_server.printable import printable_line

__all__ = ["table"]

_WORDS: Final[dict[Verdict, str]] = {
    "fail": "FAIL",
    "warn": "warn",
    "pass": "pass",
    "untestable": "untestable",
    "not-applicable": "n/a",
}
_SHOWN: Final = 6  # ids that a line on rows not judged names


def table(run: Run, known: Collection[str] = (), *, verbose: bool = False) -> str:
    """The findings as text, with its last line's end.

    Args:
        run: what was found.
        known: names of failures that do not fail the run.
        verbose: whether each row is told, with what was not judged and what passed.
    """
    width = min(shutil.get_terminal_size((100, 24)).columns, 120)
    target = printable_line(run.target, longest=500)
    lines = [f"{target}: edition {run.edition.value}, {run.seconds:.1f} s", ""]
    for finding in run.findings:
        if verbose or finding.verdict in {"fail", "warn"}:
            lines += _told(finding, width, is_known=finding.id in known)
    if not verbose:
        lines += _not_judged(run, width)
    for incident in run.incidents:
        lines += ["The server ended during a case", *_field("case", incident.case, width)]
        lines += [*_field("what", incident.what, width), ""]
    for fault in run.faults:
        lines += ["The suite itself failed in a case", *_field("case", fault.case, width)]
        lines += _field("what", f"{fault.what} at {fault.place}", width)
        if verbose:
            lines += [
                f"    {printable_line(line, longest=500)}" for line in fault.traceback.splitlines()
            ]
        lines.append("")
    lines += _summary(run, known)
    return "".join(f"{line}\n" for line in lines)


def _told(finding: Finding, width: int, *, is_known: bool) -> Iterator[str]:
    row = finding.requirement
    word = "known failure" if is_known and finding.verdict == "fail" else _WORDS[finding.verdict]
    level = "" if row.level == "must" else f" ({row.level})"
    yield f"{word:10} {finding.id}  {row.section}{level}"
    if finding.verdict == "pass":
        return
    yield from _field("duty", row.statement, width)
    if finding.expected:
        yield from _field("expected", finding.expected, width)
    is_judged = finding.verdict in {"fail", "warn"}
    yield from _field("got" if is_judged else "why", finding.got, width)
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
    """The rows that were not judged, those with the same reason in one paragraph."""
    rest = [f for f in run.findings if f.verdict in {"untestable", "not-applicable"}]
    rest.sort(key=lambda finding: (finding.verdict, finding.got))
    for (verdict, why), group in groupby(rest, key=lambda f: (f.verdict, f.got)):
        ids = [finding.id for finding in group]
        more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
        yield f"{_WORDS[verdict]:10} {' '.join(ids[:_SHOWN])}{more}"
        yield from _field("why", why, width)
    if rest:
        yield ""


def _summary(run: Run, known: Collection[str]) -> Iterator[str]:
    counts = run.counts()
    yield ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts.get(verdict))
    if late := sum(finding.got.startswith(NO_TIME) for finding in run.findings):
        yield f"{late} rows had no time: --seconds gives more, --only begins with some."
    if again := passing_again(run, known):
        yield f"No failures any more, take them off the list: {' '.join(again)}"
    if faults := new_faults(run, known):
        yield (
            f"The suite itself failed in {' '.join(fault.case for fault in faults)}: what these "
            "judge was not judged. That is a fault of the suite, and none of the target's; please "
            "report it with what --verbose tells."
        )
    match conclusion(run, known):
        case "not conformant":
            yield f"Not conformant: {' '.join(unexpected(run, known))}"
        case "not judged whole":
            yield "Nothing that was judged is broken, but the run is not whole."
        case "only known failures":
            yield "Nothing binding fails but what is known to."
        case "nothing judged":
            yield "Nothing could be judged."
        case "conformant":
            yield "Nothing binding fails."
