"""The JUnit XML report for build servers: a section is a test suite, a requirement a test case.

A warning passes, with its text as output. A requirement that was not judged is skipped. The end of
the target during a case, and a failure of the suite itself, are errors in separate suites.
"""

from __future__ import annotations

from eca_protocol.testing.conformance.run import Run
from eca_protocol.testing.conformance.verdicts import Finding
from eca_server.workbench.pages import junit
from eca_server.workbench.pages.junit import Outcome, TestCase, TestSuite


def render_junit(run: Run) -> str:
    """Render the report of a run; known failures are skipped tests."""
    sections: dict[str, list[TestCase]] = {}
    for finding in run.findings:
        cases = sections.setdefault(finding.requirement.section, [])
        cases.append(_case(finding, is_known=finding.id in run.known))
    ends = {each.case: each.what for each in run.incidents if each.case not in run.known}
    errors = {each.case: each.traceback for each in run.new_suite_errors}
    for name, what, texts in (
        ("ends of the target", "the target ended during a case", ends),
        ("errors of the suite", "the suite itself failed, not the target", errors),
    ):
        sections[name] = [
            TestCase(name, case, ("error", what, text)) for case, text in texts.items()
        ]
    suites = [TestSuite(name, cases) for name, cases in sections.items() if cases]
    return junit.render_junit(f"{run.target}, edition {run.edition}", run.seconds, suites)


def _case(finding: Finding, *, is_known: bool) -> TestCase:
    row = finding.requirement
    why = f"expected {finding.expected}\ngot {finding.got}\ncase {finding.case}"
    outcome: Outcome | None = None
    if finding.verdict in {"untestable", "not-applicable"}:
        outcome = "skipped", finding.got, ""
    elif finding.verdict == "fail" and is_known:
        outcome = "skipped", f"known failure: {finding.got}", ""
    elif finding.verdict == "fail":
        outcome = "failure", f"expected {finding.expected}", why
    output = f"warning: {why}" if finding.verdict == "warn" else ""
    return TestCase(row.section, f"{finding.id}: {row.statement}", outcome, output)
