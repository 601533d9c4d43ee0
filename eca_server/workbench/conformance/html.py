"""The HTML report: one file with each requirement, and the exchange of each breach."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from typing import Final

from eca_protocol.revisions import EVER, Revision, Window
from eca_protocol.testing.conformance.cases import Case
from eca_protocol.testing.conformance.run import Run
from eca_protocol.testing.conformance.verdicts import VERDICTS, Finding, Verdict
from eca_server.workbench.conformance.compare import Changes
from eca_server.workbench.conformance.exchange import draw_exchange
from eca_server.workbench.conformance.table import COUNTED, KINDS
from eca_server.workbench.pages import render_page

_COLOURS: Final[Mapping[Verdict, str]] = {"fail": "bad", "warn": "odd", "pass": "good"}
_NAMES: Final = {each: (COUNTED[each], _COLOURS.get(each, "")) for each in VERDICTS}
"""The word and the colour of each verdict."""

_GRAVITY: Final = VERDICTS[::-1]


def render_html(run: Run, cases: Mapping[str, Case], *, changes: Changes | None = None) -> str:
    """Render the page, with the descriptions of the cases, and the changes since an earlier run."""
    counts = run.counts()
    judged = sum(counts.get(verdict, 0) for verdict in ("pass", "fail", "warn"))
    met = f"{counts.get('pass', 0)} of {judged} requirements met" if judged else "nothing judged"
    findings = sorted(enumerate(run.findings), key=lambda each: -_GRAVITY.index(each[1].verdict))
    return render_page(
        "conformance.html",
        title=f"{run.target}: {met}",
        name=run.target,
        badges=[(run.conclusion, KINDS[run.conclusion])],
        warnings=_warnings(run),
        about={
            "Edition": run.edition,
            "Started": run.started.isoformat(timespec="seconds"),
            "Duration": f"{run.seconds:.1f} s",
        },
        tiles=[
            (f"{counts.get(verdict, 0):,}", word, kind if counts.get(verdict) else "")
            for verdict, (word, kind) in _NAMES.items()
        ],
        filters={"all": f"all {len(run.findings)}"}
        | {
            _trait(verdict): f"{word} {counts[verdict]}"
            for verdict, (word, _) in _NAMES.items()
            if counts.get(verdict)
        },
        changes=changes,
        sections=_sections(run),
        findings=findings,
        known=run.known,
        names=_NAMES,
        trait=_trait,
        gravity=_GRAVITY.index,
        draw_exchange=draw_exchange,
        facts_of=functools.partial(_facts, cases),
    )


def _warnings(run: Run) -> list[str]:
    ended = [each for each in run.incidents if each.case not in run.known]
    return [f"the target ended during {each.case}: {each.what}" for each in ended] + [
        f"in {each.case} {each.reason}; this is not an error of the target"
        for each in run.new_suite_errors
    ]


def _sections(run: Run) -> list[tuple[str, str, Counter[Verdict]]]:
    sections: dict[str, Counter[Verdict]] = {}
    for finding in run.findings:
        sections.setdefault(finding.requirement.section, Counter())[finding.verdict] += 1
    return [
        (
            section,
            ", ".join(
                f"{counts[each]} {word}" for each, (word, _) in _NAMES.items() if counts[each]
            ),
            counts,
        )
        for section, counts in sections.items()
    ]


def _trait(verdict: Verdict) -> str:
    return _NAMES[verdict][0].replace(" ", "-")


def _facts(cases: Mapping[str, Case], finding: Finding) -> dict[str, str | None]:
    row = finding.requirement
    case = cases.get(finding.case)
    return {
        "Applies to": f"{row.side}, {row.level}, {_editions(row.window)}",
        "Ruling": row.ruling,
        "Expected": finding.expected,
        "Got": finding.got,
        "Case": f"{finding.case}: {case.summary}" if case else finding.case,
    }


def _editions(window: Window) -> str:
    if window == EVER:
        return "all editions"
    if window.until is Revision.CURRENT:
        return f"since {window.since.value}"
    return f"{window.since.value} to {window.until.value}"
