"""The HTML report: one file with each requirement, and the exchange of each breach."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from eca_protocol.revisions import EVER, Revision, Window
from eca_protocol.testing.conformance.cases import Case
from eca_protocol.testing.conformance.client.suite import ClientCase
from eca_protocol.testing.conformance.known import Conclusion, conclusion, new_suite_errors
from eca_protocol.testing.conformance.run import Run
from eca_protocol.testing.conformance.verdicts import Finding, Verdict
from eca_server.conformance.compare import DESCRIPTIONS, Change
from eca_server.conformance.exchange import render_exchange
from eca_server.pages import escape_attribute, escape_text, render_page

__all__ = ["render_html"]

_NAMES: Final[Mapping[Verdict, tuple[str, str]]] = {
    "fail": ("failed", "bad"),
    "warn": ("warning", "odd"),
    "pass": ("passed", "good"),
    "untestable": ("untestable", ""),
    "not-applicable": ("not applicable", ""),
}
"""The word and the colour of each verdict."""

_COLOURS: Final[Mapping[Conclusion, str]] = {
    "not conformant": "bad",
    "not judged whole": "odd",
    "only known failures": "odd",
    "nothing judged": "odd",
    "conformant": "good",
}
_GRAVITY: Final[tuple[Verdict, ...]] = ("not-applicable", "untestable", "pass", "warn", "fail")
_KEYS: Final = """\
<p class="faint keys"><kbd>/</kbd> search, <kbd>j</kbd> <kbd>k</kbd> next and previous,
<kbd>Enter</kbd> open, <kbd>n</kbd> next failed, <kbd>f</kbd> failed only,
<kbd>a</kbd> all, <kbd>o</kbd> open or close all, <kbd>t</kbd> theme</p>
"""
_ORDERS: Final = """\
<select id="order" aria-label="Order"><option value="faults">worst first</option>
<option value="place">table order</option></select>
"""


def render_html(
    run: Run,
    cases: Mapping[str, Case | ClientCase],
    *,
    known: Collection[str] = (),
    changes: tuple[Change, ...] | None = None,
) -> str:
    """Render the page.

    Args:
        run: the run.
        cases: the cases by name, for their descriptions.
        known: names of known failures, which do not fail the run.
        changes: the changes since an earlier run; None without one.
    """
    counts = run.counts()
    judged = sum(counts.get(verdict, 0) for verdict in ("pass", "fail", "warn"))
    met = f"{counts.get('pass', 0)} of {judged} requirements met" if judged else "nothing judged"
    title = f"{run.target}: {met}"
    body = [
        "<header>\n",
        *_verdict(run, known),
        *_facts(run),
        *_tiles(counts),
        "</header>\n<main>\n",
        *_changes(changes),
        *_sections(run),
        "<h2>Requirements</h2>\n",
        *_tools(counts, total=len(run.findings)),
        '<div id="items">\n',
        *(
            part
            for place, finding in _worst_first(run)
            for part in _finding(place, finding, cases, is_known=finding.id in known)
        ),
        "</div>\n",
        _KEYS,
        "</main>\n",
    ]
    return render_page(title, body, script="report.js", style="report.css")


def _worst_first(run: Run) -> list[tuple[int, Finding]]:
    """Return the findings with their positions in the table, in the page's initial order."""
    return sorted(enumerate(run.findings), key=lambda each: -_GRAVITY.index(each[1].verdict))


def _verdict(run: Run, known: Collection[str]) -> Iterator[str]:
    ended = [each for each in run.incidents if each.case not in known]
    faults = new_suite_errors(run, known)
    word = conclusion(run, known)
    yield f'<div class="verdict"><h1>{escape_text(run.target)}</h1>'
    yield f"{_badge(word, _COLOURS[word])}</div>\n"
    notes = [f"the target ended during {each.case}: {each.what}" for each in ended]
    notes += [
        f"in {each.case} {each.reason}; this is not an error of the target" for each in faults
    ]
    if notes:
        items = "".join(f"<li>{escape_text(note)}</li>" for note in notes)
        yield f'<ul class="notes">{items}</ul>\n'


def _facts(run: Run) -> Iterator[str]:
    facts = {
        "Edition": run.edition.value,
        "Started": run.started.isoformat(timespec="seconds"),
        "Duration": f"{run.seconds:.1f} s",
    }
    yield "<dl>"
    yield from (f"<dt>{name}</dt><dd>{escape_text(value)}</dd>" for name, value in facts.items())
    yield "</dl>\n"


def _tiles(counts: Mapping[Verdict, int]) -> Iterator[str]:
    yield '<div class="tiles">'
    for verdict, (word, kind) in _NAMES.items():
        colour = f' class="{kind}"' if kind and counts.get(verdict) else ""
        yield f'<div class="card"><b{colour}>{counts.get(verdict, 0):,}</b>'
        yield f"<span>{word}</span></div>"
    yield "</div>\n"


def _changes(changes: tuple[Change, ...] | None) -> Iterator[str]:
    if changes is None:
        return
    yield "<h2>Since the earlier run</h2>\n"
    if not changes:
        yield '<p class="faint">Nothing has changed.</p>\n'
        return
    yield "<dl>"
    for kind, description in DESCRIPTIONS.items():
        ids = [change.id for change in changes if change.kind == kind]
        if ids:
            links = ", ".join(
                f'<a href="#{escape_attribute(id_)}">{escape_text(id_)}</a>' for id_ in ids
            )
            yield f"<dt>{description}</dt><dd>{links}</dd>"
    yield "</dl>\n"


def _sections(run: Run) -> Iterator[str]:
    """Render the verdicts of each section of the table as a bar."""
    yield '<h2>Sections</h2>\n<table class="sections">\n'
    by_section: dict[str, list[Verdict]] = {}
    for finding in run.findings:
        by_section.setdefault(finding.requirement.section, []).append(finding.verdict)
    for section, verdicts in by_section.items():
        counts = {verdict: verdicts.count(verdict) for verdict in _NAMES}
        text = ", ".join(f"{counts[each]} {_NAMES[each][0]}" for each in _NAMES if counts[each])
        yield f'<tr><th scope="row">{escape_text(section)}</th><td>'
        yield '<svg class="ratio" viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" '
        yield f'aria-label="{escape_attribute(text)}">'
        start = 0.0
        for verdict in ("pass", "warn", "fail"):
            width = 1000 * counts[verdict] / len(verdicts)
            kind = _NAMES[verdict][1]
            yield f'<rect class="{kind}" x="{start:.2f}" y="0" width="{width:.2f}" height="10"/>'
            start += width
        yield f'</svg></td><td class="faint">{text}</td></tr>\n'
    yield "</table>\n"


def _tools(counts: Mapping[Verdict, int], *, total: int) -> Iterator[str]:
    yield '<div class="tools"><input type="search" placeholder="Search" aria-label="Search">\n'
    yield f'<button data-show="all">all {total}</button>\n'
    for verdict, (word, _) in _NAMES.items():
        if counts.get(verdict):
            yield f'<button data-show="{_trait(verdict)}">{word} {counts[verdict]}</button>\n'
    yield f'{_ORDERS}<span id="count" class="faint end" role="status"></span>'
    yield '<button id="open">Open or close all</button><button id="theme">Theme</button></div>\n'


def _trait(verdict: Verdict) -> str:
    return _NAMES[verdict][0].replace(" ", "-")


def _finding(
    place: int, finding: Finding, cases: Mapping[str, Case | ClientCase], *, is_known: bool
) -> Iterator[str]:
    row = finding.requirement
    word, kind = _NAMES[finding.verdict]
    yield f'<details class="item card" id="{escape_attribute(finding.id)}" '
    yield f'data-is="{_trait(finding.verdict)}" data-place="{place}" '
    yield f'data-faults="{_GRAVITY.index(finding.verdict)}">'
    yield f'<summary>{_badge(word, kind)}<span class="name">{escape_text(finding.id)}</span>'
    yield f"<span>{escape_text(row.statement)}</span>"
    if is_known and finding.verdict == "fail":
        yield _badge("known", "odd")
    yield f'<span class="numbers">{escape_text(row.section)}</span>'
    if finding.verdict in {"fail", "warn"}:
        yield f'<span class="why">{escape_text(finding.got)}</span>'
    yield '</summary><div class="inside">'
    case = cases.get(finding.case)
    facts = {
        "Applies to": f"{row.side}, {row.level}, {_editions(row.window)}",
        "Ruling": row.ruling or "",
        "Expected": finding.expected,
        "Got": finding.got,
        "Case": f"{finding.case}: {case.summary}" if case else finding.case,
    }
    rows = "".join(f"<dt>{name}</dt><dd>{escape_text(v)}</dd>" for name, v in facts.items() if v)
    yield f"<dl>{rows}</dl>"
    if finding.exchange:
        yield from render_exchange(finding.exchange, finding.breach)
    yield "</div></details>\n"


def _editions(window: Window) -> str:
    if window == EVER:
        return "all editions"
    if window.until is Revision.CURRENT:
        return f"since {window.since.value}"
    return f"{window.since.value} to {window.until.value}"


def _badge(word: str, kind: str) -> str:
    return f'<span class="badge {kind}">{word}</span>'
