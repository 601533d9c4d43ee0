"""JUnit's XML, as build servers read it: a scenario is a test suite, a step a test case.

A build server takes what is skipped as harmless. So whatever did not run as it should is an error
somewhere: in the step where it stopped, or in a case of its own for the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias

from eca_server.ecp.results import RunReport, ScenarioReport, StepReport
from eca_server.pages.xml import xml_attribute, xml_text

__all__ = ["junit"]

_Verdict: TypeAlias = Literal["passed", "failure", "error", "skipped"]


def junit(report: RunReport) -> str:
    """The whole run."""
    verdicts = [_verdicts(scenario) for scenario in report.scenarios]
    suites = [
        _suite(scenario, found) for scenario, found in zip(report.scenarios, verdicts, strict=True)
    ]
    told: list[_Verdict] = [verdict for found in verdicts for verdict in found]
    if report.exit_reason != "ok" and "error" not in told:
        told.append("error")
        suites.append(_suite_of_the_run(report))
    name = xml_attribute(report.name)
    seconds = _seconds(sum(scenario.duration_ms for scenario in report.scenarios))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites name={name} time="{seconds}" {_counts(told)}>\n{"".join(suites)}'
        "</testsuites>\n"
    )


def _verdicts(scenario: ScenarioReport) -> list[_Verdict]:
    found = [_verdict(step) for step in scenario.steps]
    if scenario.status == "failed" and "error" not in found and "skipped" in found:
        found[found.index("skipped")] = "error"
    return found


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


def _suite_of_the_run(report: RunReport) -> str:
    reason = xml_attribute(report.exit_reason)
    why = xml_text(
        "\n".join((f"the run ended before its end: {report.exit_reason}", *report.warnings))
    )
    return (
        f'<testsuite name="the run" {_counts(["error"])}>\n<testcase classname="the run" '
        f'name="it came to its end"><error message={reason}>{why}</error></testcase>\n'
        "</testsuite>\n"
    )


def _case(scenario: ScenarioReport, place: int, step: StepReport, verdict: _Verdict) -> str:
    name = xml_attribute(f"{place}: {step.input[:200]}")
    said = [
        f"{check.type} of {check.field}: {check.reasoning}"
        for check in step.checks
        if not check.passed
    ]
    why = xml_text("\n".join(said))
    body = ""
    if verdict == "skipped":
        body = f"<skipped message={xml_attribute(step.error or '')}/>"
    elif verdict == "error":
        reason = scenario.exit_reason if step.status == "skipped" else step.exit_reason
        body = f"<error message={xml_attribute(reason)}>{why}</error>"
    elif verdict == "failure":
        body = f"<failure message={xml_attribute(said[0])}>{why}</failure>"
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
