"""The JUnit XML report for build servers: a scenario is a test suite, a step a test case.

Build servers ignore skipped cases. So each failure to run is an error, too: in the step where the
scenario stopped, or in a separate case for the run.
"""

from __future__ import annotations

from eca_server.ecp.results import NOTHING_CHECKED, RunReport, ScenarioReport, StepReport
from eca_server.workbench.pages import junit
from eca_server.workbench.pages.junit import Outcome, TestCase, TestSuite


def render_junit(report: RunReport) -> str:
    """Render the report of a run."""
    suites = [_suite(scenario) for scenario in report.scenarios]
    outcomes = [case.outcome for suite in suites for case in suite.cases]
    if report.exit_reason != "ok" and not any(each and each[0] == "error" for each in outcomes):
        suites.append(_failed_run(f"the run was not completed: {report.exit_reason}", report))
    elif not report.total:
        suites.append(_failed_run(NOTHING_CHECKED, report))
    seconds = sum(scenario.duration_ms for scenario in report.scenarios) / 1000
    return junit.render_junit(report.name, seconds, suites)


def _failed_run(why: str, report: RunReport) -> TestSuite:
    message = why if report.exit_reason == "ok" else report.exit_reason
    outcome: Outcome = "error", message, "\n".join((why, *report.warnings))
    return TestSuite("the run", [TestCase("the run", "completed", outcome)])


def _suite(scenario: ScenarioReport) -> TestSuite:
    outcomes = [_outcome(step) for step in scenario.steps]
    verdicts = [outcome and outcome[0] for outcome in outcomes]
    if scenario.status == "failed" and "error" not in verdicts and "skipped" in verdicts:
        first = verdicts.index("skipped")
        why = "\n".join(_failures(scenario.steps[first]))
        outcomes[first] = ("error", scenario.exit_reason, why)
    repeat = f" (repetition {scenario.repeat + 1})" if scenario.repeat else ""
    name = f"{scenario.name}{repeat}"
    cases = [
        TestCase(
            name,
            f"{place}: {step.input[:200]}",
            outcome,
            step.output or "",
            step.duration_ms / 1000,
        )
        for place, (step, outcome) in enumerate(zip(scenario.steps, outcomes, strict=True), 1)
    ]
    return TestSuite(name, cases, scenario.log, scenario.duration_ms / 1000)


def _outcome(step: StepReport) -> Outcome | None:
    if step.status == "skipped":
        return "skipped", step.error or "", ""
    failures = _failures(step)
    if step.status == "failed" or any(check.error for check in step.checks):
        return "error", step.exit_reason, "\n".join(failures)
    return ("failure", failures[0], "\n".join(failures)) if failures else None


def _failures(step: StepReport) -> list[str]:
    failed = [check for check in step.checks if not check.passed]
    return [f"{check.type} of {check.field}: {check.reasoning}" for check in failed]
