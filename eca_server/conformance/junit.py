"""The JUnit XML report for build servers: a section is a test suite, a requirement a test case.

A warning passes, with its text as output. A requirement that was not judged is skipped. The end of
the target during a case, and a failure of the suite itself, are errors in separate suites.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from eca_protocol.testing.conformance.known import new_suite_errors
from eca_protocol.testing.conformance.run import Run
from eca_protocol.testing.conformance.verdicts import Finding
from eca_server.pages.xml import xml_attribute, xml_text

__all__ = ["render_junit"]


def render_junit(run: Run, known: Collection[str] = ()) -> str:
    """Render the report of a run.

    Args:
        run: the run.
        known: names of known failures, which are skipped.
    """
    name = xml_attribute(f"{run.target}, edition {run.edition.value}")
    sections: dict[str, list[Finding]] = {}
    for finding in run.findings:
        sections.setdefault(finding.requirement.section, []).append(finding)
    suites = [_suite(section, findings, known) for section, findings in sections.items()]
    ends = [(each.case, each.what) for each in run.incidents if each.case not in known]
    faults = [(each.case, each.traceback) for each in new_suite_errors(run, known)]
    suites += _errors("ends of the target", "the target ended during a case", ends)
    suites += _errors("errors of the suite", "the suite itself failed, not the target", faults)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites name={name} time="{run.seconds:.3f}">\n{"".join(suites)}</testsuites>\n'
    )


def _suite(section: str, findings: Sequence[Finding], known: Collection[str]) -> str:
    failures = sum(each.verdict == "fail" and each.id not in known for each in findings)
    skipped = sum(_is_skipped(each, known) for each in findings)
    cases = "".join(_case(each, known) for each in findings)
    return (
        f'<testsuite name={xml_attribute(section)} tests="{len(findings)}" '
        f'failures="{failures}" skipped="{skipped}">\n{cases}</testsuite>\n'
    )


def _is_skipped(finding: Finding, known: Collection[str]) -> bool:
    is_known = finding.verdict == "fail" and finding.id in known
    return is_known or finding.verdict in {"untestable", "not-applicable"}


def _case(finding: Finding, known: Collection[str]) -> str:
    row = finding.requirement
    why = f"expected {finding.expected}\ngot {finding.got}\ncase {finding.case}"
    body = ""
    if _is_skipped(finding, known):
        reason = f"known failure: {finding.got}" if finding.verdict == "fail" else finding.got
        body = f"<skipped message={xml_attribute(reason)}/>"
    elif finding.verdict == "fail":
        message = xml_attribute(f"expected {finding.expected}")
        body = f"<failure message={message}>{xml_text(why)}</failure>"
    elif finding.verdict == "warn":
        body = f"<system-out>{xml_text(f'warning: {why}')}</system-out>"
    name = xml_attribute(f"{finding.id}: {row.statement}")
    return f"<testcase classname={xml_attribute(row.section)} name={name}>{body}</testcase>\n"


def _errors(name: str, why: str, cases: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Render a suite of errors, each with its case."""
    if cases:
        yield f'<testsuite name="{name}" tests="{len(cases)}" errors="{len(cases)}">\n'
    for case, what in cases:
        yield (
            f'<testcase classname="{name}" name={xml_attribute(case)}>'
            f'<error message="{why}">{xml_text(what)}</error></testcase>\n'
        )
    if cases:
        yield "</testsuite>\n"
