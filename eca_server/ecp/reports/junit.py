"""The JUnit XML report for build servers: a scenario is a test suite, a step a test case.

Build servers ignore skipped cases. So each failure to run is an error, too: in the step where the
scenario stopped, or in a separate case for the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias

from eca_server.ecp.results import RunReport, ScenarioReport, StepReport
from eca_server.pages.xml import xml_attribute, xml_text

__all__ = ["render_junit"]

_Verdict: TypeAlias = Literal["passed", "failure", "error", "skipped"]


def render_junit(report: RunReport) -> str:
    """Render the report of a run."""
    by_scenario = [_verdicts(scenario) for scenario in report.scenarios]
    suites = [
        _suite(scenario, verdicts)
        for scenario, verdicts in zip(report.scenarios, by_scenario, strict=True)
    ]
    all_verdicts: list[_Verdict] = [each for verdicts in by_scenario for each in verdicts]
    if report.exit_reason != "ok" and "error" not in all_verdicts:
        all_verdicts.append("error")
        suites.append(_run_suite(report))
    name = xml_attribute(report.name)
    seconds = _seconds(sum(scenario.duration_ms for scenario in report.scenarios))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites name={name} time="{seconds}" {_counts(all_verdicts)}>\n{"".join(suites)}'
        "</testsuites>\n"
    )


def _verdicts(scenario: ScenarioReport) -> list[_Verdict]:
    verdicts = [_verdict(step) for step in scenario.steps]
    if scenario.status == "failed" and "error" not in verdicts and "skipped" in verdicts:
        verdicts[verdicts.index("skipped")] = "error"
    return verdicts


def _verdict(step: StepReport) -> _Verdict:
    if step.status == "skipped":
        return "skipped"
    if step.status == "failed" or any(check.error for check in step.checks):
        return "error"
    return "passed" if all(check.passed for check in step.checks) else "failure"


def _suite(scenario: ScenarioReport, verdicts: Sequence[_Verdict]) -> str:
    repeat = f" (repetition {scenario.repeat + 1})" if scenario.repeat else ""
    name = xml_attribute(f"{scenario.name}{repeat}")
    cases = "".join(
        _case(scenario, place, step, verdict)
        for place, (step, verdict) in enumerate(zip(scenario.steps, verdicts, strict=True), 1)
    )
    log = "" if scenario.log is None else f"<system-err>{xml_text(scenario.log)}</system-err>\n"
    seconds = _seconds(scenario.duration_ms)
    return (
        f'<testsuite name={name} time="{seconds}" {_counts(verdicts)}>\n{cases}{log}</testsuite>\n'
    )


def _run_suite(report: RunReport) -> str:
    reason = xml_attribute(report.exit_reason)
    why = xml_text(
        "\n".join((f"the run was not completed: {report.exit_reason}", *report.warnings))
    )
    return (
        f'<testsuite name="the run" {_counts(["error"])}>\n<testcase classname="the run" '
        f'name="completed"><error message={reason}>{why}</error></testcase>\n'
        "</testsuite>\n"
    )


def _case(scenario: ScenarioReport, place: int, step: StepReport, verdict: _Verdict) -> str:
    name = xml_attribute(f"{place}: {step.input[:200]}")
    failures = [
        f"{check.type} of {check.field}: {check.reasoning}"
        for check in step.checks
        if not check.passed
    ]
    why = xml_text("\n".join(failures))
    body = ""
    if verdict == "skipped":
        body = f"<skipped message={xml_attribute(step.error or '')}/>"
    elif verdict == "error":
        reason = scenario.exit_reason if step.status == "skipped" else step.exit_reason
        body = f"<error message={xml_attribute(reason)}>{why}</error>"
    elif verdict == "failure":
        body = f"<failure message={xml_attribute(failures[0])}>{why}</failure>"
    if step.output:
        body += f"<system-out>{xml_text(step.output)}</system-out>"
    classname, seconds = xml_attribute(scenario.name), _seconds(step.duration_ms)
    return f'<testcase classname={classname} name={name} time="{seconds}">{body}</testcase>\n'


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.3f}"


def _counts(verdicts: Sequence[_Verdict]) -> str:
    count = Counter(verdicts)
    return (
        f'tests="{len(verdicts)}" failures="{count["failure"]}" errors="{count["error"]}" '
        f'skipped="{count["skipped"]}"'
    )
